"""Text: an encoder of tokens, and a classifier on any encoder.

Token embedding, positions, encoder, pooling over the real tokens, head. With ``embedding_normalisation`` and
``token_types`` the encoder is BERT's (Devlin et al. 2018, arXiv 1810.04805). A mask has 1 for tokens, 0 for
padding.

A classifier may add the logits of n-grams (single tokens, pairs and triples), as a linear model does (wide
and deep: Cheng et al. 2016, arXiv 1606.07792).
"""

from dataclasses import asdict, dataclass
from typing import ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwork.errors import InputError
from headwork.mechanisms import layer_normalisation, learned_positions
from headwork.mechanisms.feedforward import Activation
from headwork.mechanisms.layers import Placement
from headwork.models.convolutional import SequenceConvolution
from headwork.models.layers import EMBEDDING, ClassifierHead, PositionKind, Positions, TokenEmbedding
from headwork.models.model import MASK, TOKENS, Model, check_tokens
from headwork.models.recurrent import CELLS, RecurrentLayer
from headwork.models.transformer import Encoder, TransformerConfig, key_mask, new_normalisation
from headwork.note import Input, Note, Step, inside, silent, steps_of


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(TransformerConfig):
    """``token_types`` 0 is none."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length"}
    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ("token_types",)

    vocabulary: int = 256
    max_length: int = 512
    positions: PositionKind = "learned"
    embedding_normalisation: bool = False
    token_types: int = 0
    width: int = 128
    hidden: int = 256
    heads: int = 4
    depth: int = 2
    normalisation: Placement = "pre"
    activation: Activation = "gelu"


class TextEncoder(Model):
    """Tokens (batch, token) in, one vector per token out.

    >>> import torch
    >>> model = TextEncoder(TextEncoderConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 8)
    """

    slug, config_class = "text-encoder", TextEncoderConfig
    inputs = (TOKENS, MASK, Input("types", "u", "batch token"))

    def __init__(self, config: TextEncoderConfig) -> None:
        super().__init__(config)
        self.output_width = config.width
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        self.positions = Positions(config.positions, config.max_length, config.width)
        self.types = TokenEmbedding(config.token_types, config.width) if config.token_types else None
        self.normalisation = new_normalisation(config) if config.embedding_normalisation else None
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = Encoder(config)

    @property
    def steps(self) -> tuple[Step, ...]:
        steps = (EMBEDDING, *steps_of(learned_positions, scope="positions"))
        if self.normalisation is not None:
            steps += steps_of(layer_normalisation, scope="embedding normalisation")
        return steps + self.transformer.steps

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        types: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        note: Note = silent,
    ) -> Tensor:
        """``types`` (batch, token) default to 0; ``keep`` (batch, position) leaves out all other tokens."""
        self.check_note(note)
        check_tokens(type(self).__name__, tokens, self.config.vocabulary, mask)
        vectors = self.embedding(tokens)
        if self.types is not None:
            vectors = vectors + (self.types.table[0] if types is None else self.types(types))
        vectors = self.positions(note("embedding", vectors), note=inside(note, "positions"))
        if self.normalisation is not None:
            vectors = self.normalisation(vectors, note=inside(note, "embedding normalisation"))
        # Only now, so that the tokens that are left have their own positions.
        vectors, mask = at_positions(vectors, keep), at_positions(mask, keep)
        return self.transformer(self.dropout(vectors), mask=key_mask(mask), note=note)


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig(TextEncoderConfig):
    """``hidden``, ``heads`` and what else shapes a transformer count only where the encoder is one.

    ``word_dropout`` is the share of tokens left out in training, drawn anew for each batch; ``ngrams`` is the
    number of rows in the table of n-grams, 0 is none.
    """

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length", "phrases": "ngrams"}
    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ("token_types", "ngrams")

    encoder: Literal["transformer", "plain", "lstm", "gru", "convolution"] = "transformer"
    bidirectional: bool = False
    classes: int = 2
    pooling: Literal["mean", "first"] = "mean"
    word_dropout: float = 0.0
    ngrams: int = 0


ENCODERS = {"transformer": "transformer", "cnn": "convolution", **CELLS}


class SequenceEncoder(Model):
    """Tokens in, one vector per token out, by recurrence or convolution, which need no positions."""

    config_class, inputs = TextClassifierConfig, (TOKENS, MASK)

    def __init__(self, config: TextClassifierConfig) -> None:
        super().__init__(config)
        if config.encoder == "transformer":
            raise InputError("SequenceEncoder: encoder is 'transformer', which is a TextEncoder.")
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.body: SequenceConvolution | RecurrentLayer
        if config.encoder == "convolution":
            self.body = SequenceConvolution(config.width, config.depth, backend=config.backend)
        else:
            self.body = RecurrentLayer(
                config.width,
                config.width,
                cell=config.encoder,
                bidirectional=config.bidirectional,
                backend=config.backend,
            )
        self.output_width = self.body.output_width

    @property
    def steps(self) -> tuple[Step, ...]:
        return (EMBEDDING, *self.body.steps)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, *, keep: Tensor | None = None, note: Note = silent
    ) -> Tensor:
        self.check_note(note)
        check_tokens(type(self).__name__, tokens, self.config.vocabulary, mask)
        tokens, mask = at_positions(tokens, keep), at_positions(mask, keep)
        vectors = self.dropout(note("embedding", self.embedding(tokens)))
        return self.body(vectors, mask, note=note)


class NGrams(nn.Module):
    """The logits of each n-gram (token, pair, triple) by itself: ``table`` times ``ratios``.

    N-grams are hashed into the rows, and each counts once per text. ``ratios`` are fixed, 1 unless counted
    from training texts beforehand: how much likelier an n-gram is in a class than elsewhere, as a logarithm
    (Wang and Manning 2012, Baselines and Bigrams), so that n-grams that tell classes apart learn fast.
    """

    ratios: Tensor

    def __init__(self, rows: int, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.table = nn.Parameter(torch.zeros(rows, classes))
        self.register_buffer("ratios", torch.ones(rows, classes))

    def rows(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """The rows (batch, token, 3) of each token, and of the pair and the triple that it ends."""
        tokens = tokens.long()  # products below need 64 bits
        real = tokens if mask is None else tokens * (mask != 0)
        before, earlier = (functional.pad(real, (back, 0))[:, : tokens.shape[1]] for back in (1, 2))
        alone = torch.full_like(tokens, self.vocabulary)
        hashes = [_hash(first, tokens) for first in (alone, before, _hash(earlier, before))]
        return torch.stack(hashes, -1) % self.table.shape[0]

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, keep: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The logits of the n-grams that each token ends (batch, token, class), and the divisor of their sum.

        The divisor (batch, class) is the norm of the text's ratios: long texts get no larger logits.
        """
        rows = self.rows(tokens, mask)
        real = None if mask is None else mask[..., None] != 0
        new = first_occurrence((rows if real is None else rows.where(real, -1)).flatten(1)).view_as(rows)
        new = new if real is None else new & real
        rows, new = at_positions(rows, keep), at_positions(new, keep)
        weights = functional.embedding(rows, self.ratios) * new[..., None]
        length = weights.square().sum((1, 2)).sqrt() + 1e-6
        return (functional.embedding(rows, self.table) * weights).sum(2), length


FACTORS, PRIME = (1_540_483_477, 1_103_515_245), 2**31 - 1  # below 2^31, so that no product leaves 64 bits
MAX_ROWS = 2**30  # more than a text has n-grams


def _hash(first: Tensor, second: Tensor) -> Tensor:
    return (first * FACTORS[0] + second * FACTORS[1]) % PRIME


def first_occurrence(rows: Tensor) -> Tensor:
    """Whether a number occurs for the first time in its row.

    >>> import torch
    >>> first_occurrence(torch.tensor([[7, 5, 7, 7]])).tolist()
    [[True, True, False, False]]
    """
    # Each with its index, so that equal ones are sorted by index; exported graphs have no stable sort.
    ordered = (rows * MAX_ROWS + torch.arange(rows.shape[-1], device=rows.device)).sort().values
    number, index = ordered // MAX_ROWS, ordered % MAX_ROWS
    new = functional.pad(number[:, 1:] != number[:, :-1], (1, 0), value=True)
    return torch.zeros_like(new).scatter(-1, index, new)


class TextClassifier(Model):
    """Tokens (batch, token) in, a logit for each class out.

    >>> import torch
    >>> model = TextClassifier(TextClassifierConfig(width=8, hidden=16, heads=2, depth=1, encoder="lstm"))
    >>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
    (1, 2)
    """

    slug, config_class, inputs = "text", TextClassifierConfig, (TOKENS, MASK)
    task, architectures = "text", {name: {"encoder": encoder} for name, encoder in ENCODERS.items()}
    OLD_PARAMETERS: ClassVar[dict[str, str]] = {"phrases.": "ngrams.", "encoder.reading.": "encoder.body."}

    def __init__(self, config: TextClassifierConfig, encoder: Model | None = None) -> None:
        super().__init__(config)
        if encoder is None:
            encoder = (TextEncoder if config.encoder == "transformer" else SequenceEncoder)(config)
        self.encoder = encoder
        self.dropout = nn.Dropout(config.dropout)
        self.head = ClassifierHead(int(encoder.output_width), config.classes)  # type: ignore[arg-type]
        self.ngrams = NGrams(config.ngrams, config.vocabulary, config.classes) if config.ngrams else None

    @classmethod
    def on(cls, encoder: TextEncoder, *, classes: int, pooling: Literal["mean", "first"] = "mean") -> Self:
        """A classifier on an encoder that is there already, such as a pretrained one (shared, not copied)."""
        if not isinstance(encoder, TextEncoder):
            raise InputError(
                f"classifier on {type(encoder).__name__}: expected a TextEncoder, such as a loaded one."
            )
        fields = {**asdict(encoder.config), "classes": classes, "pooling": pooling}
        return cls(TextClassifierConfig(**fields), encoder)

    @property
    def steps(self) -> tuple[Step, ...]:
        pooled = Step("pooled", "p", r"\text{the mean of the tokens, or the first}", "width")
        if self.ngrams is None:
            return (*self.encoder.steps, pooled, Step("scores", "z", r"W p + b", "class"))
        new = r"v \in \{x_t,\ x_{t-1} x_t,\ x_{t-2} x_{t-1} x_t\} \text{, new}"
        ngrams = Step("n-grams", "U", rf"\sum_{{{new}}} r_v u_v", "token class")
        total = Step("scores", "z", r"W p + b + \frac{1}{\sqrt{\sum_v r_v^2}} \sum_t U_t", "class")
        return (*self.encoder.steps, pooled, ngrams, total)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, *, note: Note = silent) -> Tensor:
        """``mask`` has 1 for each token and 0 for padding."""
        self.check_note(note)
        share = self.config.word_dropout if self.training else 0.0
        keep = random_positions(tokens, mask, 1 - share) if share else None
        vectors, real = self.encoder(tokens, mask, keep=keep, note=note), at_positions(mask, keep)
        pooled = vectors[:, 0] if self.config.pooling == "first" else mean_of_tokens(vectors, real)
        scores = self.head(self.dropout(note("pooled", pooled)))
        if self.ngrams is not None:
            by_token, norm = self.ngrams(tokens, mask, keep)
            scores = scores + note("n-grams", by_token).sum(1) / norm
        return note("scores", scores)


def mean_of_tokens(vectors: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the real tokens.

    >>> import torch
    >>> mean_of_tokens(torch.tensor([[[2.0], [9.0]]]), torch.tensor([[1, 0]])).tolist()
    [[2.0]]
    """
    if mask is None:
        return vectors.mean(1)
    real = (mask != 0).unsqueeze(-1).to(vectors)
    return (vectors * real).sum(1) / real.sum(1)


def random_positions(tokens: Tensor, mask: Tensor | None, share: float) -> Tensor:
    """Positions (batch, position) of a random share of the tokens, in order: always the first, padding last.

    >>> import torch
    >>> random_positions(torch.ones(1, 4), torch.tensor([[1, 1, 0, 0]]), 0.5).tolist()
    [[0, 1]]
    """
    priority = torch.rand(tokens.shape, device=tokens.device)
    priority[:, 0] = -1
    if mask is not None:
        priority = priority.masked_fill(mask == 0, 2)
    return priority.argsort(1)[:, : max(1, round(share * tokens.shape[1]))].sort(1).values


MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)


def at_positions(values: MaybeTensor, positions: Tensor | None) -> MaybeTensor:
    """The values (batch, token, ...) at those positions, or all."""
    if values is None or positions is None:
        return values
    return values[torch.arange(len(positions), device=positions.device)[:, None], positions]
