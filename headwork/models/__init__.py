"""Models: thin modules around mechanisms, each with a small config, whose steps can be noted."""

from headwork.models.checkpoints import from_pretrained
from headwork.models.convolutional import ConvolutionalClassifier, ConvolutionalConfig
from headwork.models.language import LanguageModel, LanguageModelConfig
from headwork.models.model import Config, Model
from headwork.models.recurrent import RecurrentClassifier, RecurrentConfig
from headwork.models.text import TextClassifier, TextClassifierConfig, TextEncoder, TextEncoderConfig
from headwork.models.transformer import (
    Decoder,
    Encoder,
    EncoderDecoder,
    EncoderDecoderConfig,
    TransformerConfig,
)
from headwork.models.vision import VisionTransformer, VisionTransformerConfig
