"""The mathematics: each mechanism a pure function beside its card, the same body for every kind of number.

In the examples ``np`` is numpy and ``HandTensor`` is that of ``headwork.numbers``, an array worked by hand.
"""

from headwork.mechanisms.attention import (
    attention,
    cross_attention,
    hardmax,
    multi_head_attention,
    self_attention,
    softmax,
)
from headwork.mechanisms.convolution import (
    average_pooling,
    convolution_1d,
    convolution_2d,
    locally_connected,
    max_pooling,
    patches,
    patches_inverse,
    toeplitz,
)
from headwork.mechanisms.feedforward import feed_forward, gelu, relu
from headwork.mechanisms.images import convolutional_classifier, recurrent_classifier, vision_transformer
from headwork.mechanisms.layers import decoder_layer, encoder_layer
from headwork.mechanisms.linear import (
    linear_attention,
    linear_attention_chunked,
    linear_attention_recurrent,
    multi_head_linear_attention,
)
from headwork.mechanisms.normalisation import layer_normalisation, rms_normalisation
from headwork.mechanisms.positions import (
    alibi_positions,
    learned_positions,
    natural_positions,
    normalised_positions,
    relative_positions,
    rotary_positions,
    sinusoidal_positions,
    sinusoidal_positions_2d,
)
from headwork.mechanisms.recurrence import gru, gru_cell, lstm, lstm_cell, recurrence, recurrence_closed_form
from headwork.mechanisms.texts import text_classifier, text_encoder
from headwork.mechanisms.transformer import decoder, encoder, encoder_decoder, language_model
