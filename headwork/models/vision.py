"""Classifiers of images (``mechanisms.images``)."""

from torch import Tensor

from headwork.models.model import Model, check_images
from headwork.note import Note, silent


class ImageClassifier(Model):
    """Images (batch, channel, height, width) in, a logit for each class out."""

    def forward(self, images: Tensor, *, note: Note = silent) -> Tensor:
        check_images(type(self).__name__, images, self.config.channels, self.config.image_size)
        self.check_note(note)
        return self.run(images, note=note)


class VisionTransformer(ImageClassifier):
    """An image as patches, each a token.

    >>> import torch; from headwork.models import VisionTransformerConfig
    >>> model = VisionTransformer(VisionTransformerConfig())
    >>> tuple(model(torch.zeros(2, 1, 28, 28)).shape), model.parameter_count
    ((2, 10), 205962)
    """


class ConvolutionalClassifier(ImageClassifier):
    """Convolution, ReLU and pooling, again and again.

    >>> import torch; from headwork.models import ConvolutionalConfig
    >>> model = ConvolutionalClassifier(ConvolutionalConfig(width=4))
    >>> tuple(model(torch.zeros(2, 1, 28, 28)).shape)
    (2, 10)
    """


class RecurrentClassifier(ImageClassifier):
    """An image read row by row, in one direction or both.

    >>> import torch; from headwork.models import RecurrentConfig
    >>> model = RecurrentClassifier(RecurrentConfig(width=4, cell="gru", bidirectional=True))
    >>> tuple(model(torch.zeros(2, 1, 28, 28)).shape)
    (2, 10)
    """
