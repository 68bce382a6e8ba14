"""Sizes of one layer: patches, a convolution with its unshared relatives, attention step by step.

Output of a convolution along one axis: floor((n + 2p - k)/s) + 1. The same map without sharing (locally
connected) has a kernel of its own at each output position; as a dense layer, a weight for each pair of an
input and an output number. Attention is shown with tokens as rows or as columns.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, Literal

from headwork.errors import InputError, TooLarge, check_known
from headwork.mechanisms.attention import check_heads
from headwork.mechanisms.convolution import output_length
from headwork.sizes.counting import MAX_GROUPS, check_sizes, count_rows
from headwork.sizes.ledger import Ledger, Row, sum_rows, text_of

Size = int | Sequence[int]


def output_size(size: int, kernel: int, stride: int = 1, padding: int = 0, where: str = "output size") -> int:
    """The number of positions of a kernel: floor((size + 2 padding - kernel)/stride) + 1.

    >>> output_size(9, 3), output_size(9, 3, stride=2, padding=1), output_size(256, 5, stride=2)
    (7, 5, 126)
    """
    check_sizes(where, size=size, kernel=kernel, stride=stride)
    check_sizes(where, 0, padding=padding)
    return output_length(where, size, kernel, stride, padding)


def height_and_width(where: str, size: Size) -> tuple[int, int]:
    """Height and width, from one number for a square or from both."""
    both = (size, size) if isinstance(size, int) else tuple(size)
    if len(both) != 2:
        raise InputError(f"{where}: image has {len(both)} sizes. Give one for a square, or height x width.")
    check_sizes(where, image_height=both[0], image_width=both[1])
    return both


def patch_grid(image: Size, patch: int, where: str = "patches") -> tuple[int, int]:
    """The number of patches down and across; they must divide the image.

    >>> patch_grid(224, 16)
    (14, 14)
    """
    height, width = height_and_width(where, image)
    check_sizes(where, patch=patch)
    down, across = height // patch, width // patch
    if height % patch or width % patch:
        padded = " x ".join(str(-(-side // patch) * patch) for side in (height, width))
        shared = [p for p in range(1, min(height, width, 4096) + 1) if height % p == width % p == 0]
        nearest = sorted(sorted(shared, key=lambda p: abs(p - patch))[:3])
        crop = f"crop it to {down * patch} x {across * patch}, " if down and across else ""
        raise InputError(
            f"{where}: an image of {height} x {width} (height, width) cannot be cut into squares of {patch}: "
            f"{height % patch} rows and {width % patch} columns are left over. "
            f"Either {crop}pad it to {padded}, "
            f"or choose a patch size that divides both, such as {str(nearest)[1:-1]}."
        )
    return down, across


def patches(image: Size, patch: int, *, channels: int = 3, class_token: bool = True) -> Ledger:
    """An image cut into squares that do not overlap: how many, and how many numbers in each.

    >>> ledger = patches(224, 16)
    >>> ledger["side"], ledger["patches"], ledger["tokens"]
    (14, 196, 197)
    """
    check_sizes("patches", channels=channels)
    down, across = patch_grid(image, patch)
    height, width = height_and_width("patches", image)
    rows = count_rows("patches", {"channel": channels, "height": height, "width": width}, size=patch)
    count, features = rows[-1].shape or ()
    return Ledger(
        title=f"patches: {height} x {width} in squares of {patch} x {patch}",
        rows=(
            rows[0],
            Row(name="grid", shape=(down, across), axes="down across"),
            Row(name="one patch", shape=(channels, patch, patch), axes="channel height width"),
            Row(name="rows", shape=(count, features), axes="patch feature", about="one row per patch"),
        ),
        facts={
            **({"side": down} if down == across else {"down": down, "across": across}),
            "patches": count,
            "tokens": count + class_token,
            "numbers in a patch": features,
        },
        notes=(
            f"{height}/{patch} = {down}, {width}/{patch} = {across}, {down} x {across} = {count:,} patches"
            + (f", {count + 1:,} tokens with the class token." if class_token else "; no class token."),
        ),
    )


def convolution(
    inputs: Size | str,
    *,
    kernel: Size | str,
    filters: int = 1,
    channels: int | None = None,
    stride: int | str = 1,
    padding: int | str = 0,
    groups: int = 1,
) -> Ledger:
    """A convolution, and the same map without sharing and as a dense layer.

    ``inputs``: the length of a signal; height and width of an image; or channels, height and width. With a
    letter for the size of the input, kernel, stride or padding, what is counted is a formula.

    >>> ledger = convolution((3, 256, 256), filters=32, kernel=5, stride=2)
    >>> ledger["output"], ledger["weights"], ledger["dense weights"]
    ((32, 126, 126), 2400, 99883155456)
    """
    if (
        isinstance(inputs, str)
        or isinstance(kernel, str)
        or isinstance(stride, str)
        or isinstance(padding, str)
    ):
        return _symbolic_convolution(inputs, kernel, stride, padding, filters * (channels or 1) // groups)
    channels, lengths = _channels_and_lengths(inputs, channels)
    kernel_sizes = (kernel,) * len(lengths) if isinstance(kernel, int) else tuple(kernel)
    _check(lengths, kernel_sizes, padding, channels=channels, filters=filters, stride=stride, groups=groups)
    axes, taps = AXES[len(lengths)], TAPS[len(lengths)]
    outputs = [
        output_size(n, k, stride, padding, f"convolution, along the {axis}")
        for n, k, axis in zip(lengths, kernel_sizes, axes, strict=True)
    ]
    sizes = {"channel": channels, "group_channel": channels // groups, "output_channel": filters}
    sizes |= dict(zip(axes + taps, lengths + kernel_sizes, strict=True))
    slug = f"convolution-{len(lengths)}d"
    source, kernel_row, bias, output = count_rows(slug, sizes, stride=stride, padding=padding, groups=groups)
    shape, last = kernel_row.shape or (), output.shape or ()
    numbers_in, numbers_out = prod(source.shape or ()), prod(last)
    local, dense = prod(last) * prod(shape[1:]), numbers_in * numbers_out
    work, matrix = output.multiply_adds, f"a matrix {numbers_out:,} x {numbers_in:,}"
    columns = ("name", "weights", "biases", "multiply_adds", "about")
    forms: Any = (
        ("as a convolution", kernel_row.weights, bias.biases, work, "one kernel for all positions"),
        ("locally connected", local, numbers_out, work, "a kernel of its own at each position"),
        ("as a dense layer", dense, numbers_out, dense, matrix),
    )
    about = f"kernel {' x '.join(map(str, kernel_sizes))}, stride {stride}, padding {padding}"
    about += f", {groups} groups" if groups > 1 else ""
    return Ledger(
        title=f"{slug}: {channels} x {' x '.join(map(str, lengths))}, filters {filters}, {about}",
        rows=(
            Row(name="input", shape=source.shape, axes=source.axes),
            Row(name="filter", shape=shape[1:], axes=kernel_row.axes.partition(" ")[2], about="one of them"),
            Row(name="filters", shape=shape, axes=kernel_row.axes, about="all of them"),
            Row(name="output", shape=last, axes=output.axes),
            *(Row(**dict(zip(columns, form, strict=True))) for form in forms),
        ),
        facts={
            "numbers in": numbers_in,
            "numbers out": numbers_out,
            "weights": prod(shape),
            "weights and biases": prod(shape) + filters,
            "locally connected weights": local,
            "dense weights": dense,
        },
        notes=tuple(_notes(lengths, kernel_sizes, outputs, stride, padding)),
    )


SizeOrLetter = int | str


def _symbolic_convolution(
    inputs: Size | str, kernel: Size | str, stride: SizeOrLetter, padding: SizeOrLetter, kernel_count: int
) -> Ledger:
    """The output size and the weights along one axis, as formulas.

    >>> convolution("W", kernel="K", stride="s", padding="p")["output size"]
    'floor((W + 2p - K)/s) + 1'
    >>> convolution("W", kernel=3, padding=1)["output size"]
    'W'
    """
    if not isinstance(inputs, SizeOrLetter) or not isinstance(kernel, SizeOrLetter):
        raise InputError("convolution: in letters every axis is alike: give one size of input and kernel.")
    for name, least, value in (("kernel", 1, kernel), ("stride", 1, stride), ("padding", 0, padding)):
        if isinstance(value, int):
            check_sizes("convolution", least, **{name: value})
    span = _span_formula(inputs, kernel, padding)
    size = formula = _span_formula(inputs, kernel, padding, 1)
    if stride != 1:
        formula = rf"\left\lfloor \frac{{{span}}}{{{stride}}} \right\rfloor + 1"
        size = f"floor(({span})/{stride}) + 1"
    share = "" if kernel_count == 1 else rf"{kernel_count} \cdot "
    rows = {
        "output": ("N", formula, "how often the kernel fits"),
        "weights": ("", f"{share}{kernel}", "one kernel for all positions"),
        "locally connected": ("", rf"{share}{kernel} N", "a kernel of its own at each position"),
        "as a dense layer": ("", rf"{share}{inputs} N", "one weight for each pair of an input and an output"),
    }
    letters = text_of("letters", inputs=inputs, kernel=kernel, stride=stride, padding=padding)
    return Ledger(
        title=f"convolution: input {inputs}, kernel {kernel}, stride {stride}, padding {padding}",
        rows=tuple(
            Row(name=name, formula=f"{symbol} = {formula}" if symbol else formula, about=about)
            for name, (symbol, formula, about) in rows.items()
        ),
        facts={"output size": size},
        notes=tuple(letters.values()),
    )


def _span_formula(inputs: SizeOrLetter, kernel: SizeOrLetter, padding: SizeOrLetter, more: int = 0) -> str:
    """Input + 2 padding - kernel, letters first and numbers added up."""
    letters, number = "", more
    for sign, factor, size in ((1, 1, inputs), (1, 2, padding), (-1, 1, kernel)):
        if isinstance(size, int):
            number += sign * factor * size
        else:
            letters += f" {'+' if sign > 0 else '-'} {factor if factor > 1 else ''}{size}"
    letters = letters.removeprefix(" + ").replace(" - ", "-", 1) if letters.startswith(" - ") else letters
    return letters.removeprefix(" + ") + (f" {'+' if number > 0 else '-'} {abs(number)}" if number else "")


def _channels_and_lengths(inputs: Size, channels: int | None) -> tuple[int, tuple[int, ...]]:
    lengths = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    if len(lengths) == 3 and channels in (None, lengths[0]):
        return lengths[0], lengths[1:]
    if len(lengths) in AXES:
        return 1 if channels is None else channels, lengths
    more = f" and channels {channels} besides" if channels is not None else ""
    raise InputError(
        f"convolution: the input has {len(lengths)} sizes{more}. Give the length of a signal (9), "
        "height x width (28x28), or channels x height x width (3x256x256); "
        "give the channels of a signal separately."
    )


AXES: dict[int, tuple[str, ...]] = {1: ("position",), 2: ("height", "width")}
TAPS: dict[int, tuple[str, ...]] = {1: ("tap",), 2: ("kernel_height", "kernel_width")}


def _check(lengths: tuple[int, ...], kernel_sizes: tuple[int, ...], padding: int, **counts: int) -> None:
    if len(kernel_sizes) != len(lengths):
        raise InputError(
            f"convolution: the kernel has {len(kernel_sizes)} sizes, the input {len(lengths)}. "
            "Give one for all axes, or one for each."
        )
    for axis, length, k in zip(AXES[len(lengths)], lengths, kernel_sizes, strict=True):
        kernel = f"kernel_along_the_{axis}" if len(lengths) > 1 else "kernel"
        check_sizes("convolution", **{axis: length, kernel: k})
    check_sizes("convolution", **counts)
    check_sizes("convolution", 0, padding=padding)
    groups = counts["groups"]
    for name in ("channels", "filters"):
        if remainder := counts[name] % groups:
            raise InputError(
                f"convolution: {groups} groups do not divide {counts[name]} {name} (remainder {remainder}). "
                "Choose a number of groups that divides both channels "
                f"({counts['channels']}) and filters ({counts['filters']})."
            )
    if groups > MAX_GROUPS:
        raise TooLarge(f"convolution: {groups:,} groups; at most {MAX_GROUPS:,} are counted.")


def _notes(
    lengths: tuple[int, ...], kernel_sizes: tuple[int, ...], outputs: list[int], stride: int, padding: int
) -> list[str]:
    notes = []
    for axis, n, k, out in zip(AXES[len(lengths)], lengths, kernel_sizes, outputs, strict=True):
        notes.append(f"output {axis}: floor(({n} + 2*{padding} - {k})/{stride}) + 1 = {out}.")
        if (remainder := (n + 2 * padding - k) % stride - padding) > 0:
            notes.append(text_of("convolution/skipped", axis=axis, rest=remainder, length=n))
    notes.append(text_of("convolution/correlation"))
    return [*notes, text_of("convolution/padding")] if padding else notes


TokensAs = Literal["rows", "columns"]

BIASES = ("b_q", "b_k", "b_v", "b_o")
TOKEN_AXES = ("token", "query", "key")


def attention_ledger(
    *,
    tokens: int,
    width: int,
    heads: int | None = None,
    batch: int | None = None,
    memory: int | None = None,
    biases: bool = False,
    tokens_as: TokensAs = "rows",
) -> Ledger:
    """Shapes, parameters and work through attention; without heads the plain one, without W_o.

    ``memory`` is the number of tokens attended to, where they are others than the queries'.

    >>> ledger = attention_ledger(tokens=5, width=768, heads=12, batch=1)
    >>> ledger["queries"], ledger["attention matrices"], ledger["joined"]
    ((1, 5, 12, 64), (1, 12, 5, 5), (1, 5, 768))
    >>> attention_ledger(tokens=6, width=768, tokens_as="columns")["query"]
    (768, 6)
    """
    given = {name: size for name, size in (("batch", batch), ("memory", memory)) if size is not None}
    check_sizes("attention", tokens=tokens, width=width, **given)
    if heads is not None:
        check_sizes("attention", heads=heads)
        check_heads("attention", width, heads)
    elif biases:
        raise InputError(
            "attention: plain attention has no biases. Give the number of heads (1 will do) to count them."
        )
    check_known("tokens_as", tokens_as, ("rows", "columns"))
    sizes = {"token": tokens, "key": memory or tokens}
    sizes |= dict.fromkeys(("width", "key_width", "value_width", "joined_width"), width)
    options: dict[str, Any] = {}
    if heads is None:
        slug = "self-attention" if memory is None else "cross-attention"
    else:
        slug, options = "multi-head-attention", {"heads": heads, "without": () if biases else BIASES}
        sizes |= {} if memory is None else {"memory": 1}
    tokens_as_columns = tokens_as == "columns"
    counted = count_rows(slug, sizes, batch=batch, tokens_as_columns=tokens_as_columns, **options)
    rows = [_describe(row, tokens_as_columns) for row in counted]
    notes = {"biases": biases, "no_biases": heads is not None and not biases, "columns": tokens_as_columns}
    about = f", {heads} heads of {width // heads}" if heads else ""
    about += f" attending to {memory}" if memory else ""
    about += ", tokens as columns" if tokens_as_columns else ""
    warning = text_of("attention/warning", features=[width] * 2, tokens=[tokens] * 2)
    return Ledger(
        title=f"{slug}: {tokens} tokens of width {width}{about}",
        rows=tuple(rows),
        facts={
            **({} if heads is None else {"heads": heads, "width of a head": width // heads}),
            "parameters": sum_rows("total", rows).parameters or 0,
        },
        notes=tuple(text_of(f"attention/notes/{name}") for name, applies in notes.items() if applies),
        warnings=(warning,) * tokens_as_columns,
        summed=True,
    )


def _describe(row: Row, tokens_as_columns: bool) -> Row:
    """A row with its description, in the layout asked for: with tokens as columns the token axis is last."""
    row = replace(row, about=text_of("attention/about").get(row.name, ""))
    if not tokens_as_columns or row.shape is None or row.parameters is not None:
        return row
    axes, shape = row.axes.split(), row.shape
    # One column per query: in scores and weights the keys run down.
    last_axes = ("query",) if row.name in ("scores", "weights") else TOKEN_AXES
    order = sorted(range(len(axes)), key=lambda axis: axes[axis] in last_axes)
    return replace(row, shape=tuple(shape[i] for i in order), axes=" ".join(axes[i] for i in order))
