"""Models: thin modules around mechanisms, each with a small config, whose steps can be noted."""

from headwork.mechanisms.configs import (
    Config,
    ConvolutionalConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    RecurrentConfig,
    TextClassifierConfig,
    TextEncoderConfig,
    TransformerConfig,
    VisionTransformerConfig,
)
from headwork.models.model import Model
from headwork.models.saving import from_pretrained
from headwork.models.text import TextClassifier, TextEncoder
from headwork.models.transformer import Decoder, Encoder, EncoderDecoder, LanguageModel
from headwork.models.vision import ConvolutionalClassifier, RecurrentClassifier, VisionTransformer
