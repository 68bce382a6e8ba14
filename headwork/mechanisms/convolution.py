r"""Convolution and its relatives: the cross-correlation that every framework calls convolution.

y[i] = sum_j k[j] x[i s + j - p], the kernel not flipped. The output has floor((n + 2p - k)/s) + 1 positions.
Several channels: each output channel sums over all input channels of its group.

A patch of an image is laid out as one row: channel, then row, then column. That is the order of a kernel, so
a patch embedding is a convolution whose stride equals its kernel (Dosovitskiy et al. 2020, arXiv 2010.11929).
"""

from collections.abc import Sequence
from math import prod

from headwork.errors import InputError, TooLarge, format_shape
from headwork.mechanisms.attention import Tensor
from headwork.note import Input, Note, Step, mechanism, silent
from headwork.numbers import cat, stack

MAX_ROWS = 10_000  # of a Toeplitz matrix, made one by one
SIGNAL = Input("signal", "x", "channel position", "one channel may be given as a plain row")
IMAGE = Input("image", "I", "channel height width", "one channel may be given as a plain matrix")


def pad(values: Tensor, padding: int, dim: int) -> Tensor:
    """Zeros put before and after along one axis."""
    if padding == 0:
        return values
    shape = list(values.shape)
    shape[dim] = padding
    zeros = values.new_zeros(*shape)
    return cat([zeros, values, zeros], dim)


def output_length(name: str, length: int, size: int, stride: int, padding: int) -> int:
    """The number of positions of the kernel, where it fits."""
    if stride < 1 or padding < 0:
        raise InputError(
            f"{name}: stride {stride} and padding {padding}. "
            "The stride is at least 1, the padding at least 0."
        )
    if size > length + 2 * padding:
        raise InputError(
            f"{name}: a kernel of {size} does not fit into {length} positions with padding {padding}. Use a "
            f"kernel of at most {length + 2 * padding}, or a padding of at least {-(-(size - length) // 2)}."
        )
    return (length + 2 * padding - size) // stride + 1


def _grouped_product(windows: Tensor, kernel: Tensor, groups: int, name: str) -> Tensor:
    """Windows (..., channel, position, tap) times a kernel (output, channel, tap), group by group."""
    channels, taps = windows.shape[-3], windows.shape[-1]
    outputs, inner, kernel_taps = kernel.shape
    if groups < 1 or (inner * groups, outputs % groups, kernel_taps) != (channels, 0, taps):
        raise InputError(
            f"{name}: {channels} input channels in {groups} groups need a kernel "
            f"of {channels // max(groups, 1)} input channels, and a number of output channels "
            f"that {groups} divides; the kernel has {outputs} output and {inner} input channels."
        )
    inputs_each, outputs_each = channels // groups, outputs // groups
    results = []
    for g in range(groups):
        rows = windows[..., g * inputs_each : (g + 1) * inputs_each, :, :].transpose(-3, -2)
        rows = rows.reshape(*rows.shape[:-2], inputs_each * taps)
        matrix = kernel[g * outputs_each : (g + 1) * outputs_each].reshape(outputs_each, inputs_each * taps)
        results.append((rows @ matrix.mT).mT)
    return results[0] if groups == 1 else cat(results, -2)


@mechanism(
    SIGNAL,
    Input("kernel", "k", "output_channel channel tap", "a plain row for one channel", trainable=True),
    Input("bias", "b", "output_channel", "none is 0", trainable=True),
    Step("output", "y", r"\textstyle\sum_{c,j} k_{c,j}\, x_{c,\, s i + j - p}", "output_channel output"),
)
def convolution_1d(
    signal: Tensor,
    kernel: Tensor,
    bias: Tensor = None,
    *,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    note: Note = silent,
) -> Tensor:
    """Slides a kernel along a signal (cross-correlation: the kernel is not flipped).

    >>> signal = HandTensor(np.array([1.0, 2.0, 4.0]))
    >>> convolution_1d(signal, HandTensor(np.array([1.0, -1.0]))).array.tolist()
    [-1.0, -2.0]
    """
    return note("output", _convolve("convolution-1d", signal, kernel, bias, stride, padding, groups))


@mechanism(
    IMAGE,
    Input(
        "kernel",
        "K",
        "output_channel channel kernel_height kernel_width",
        "a plain matrix for one channel",
        trainable=True,
    ),
    Input("bias", "b", "output_channel", "none is 0", trainable=True),
    Step(
        "output",
        "Y",
        r"\textstyle\sum_{c,u,v} K_{c,u,v}\, I_{c,\, s i + u - p,\, s j + v - p}",
        "output_channel output_height output_width",
    ),
)
def convolution_2d(
    image: Tensor,
    kernel: Tensor,
    bias: Tensor = None,
    *,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    note: Note = silent,
) -> Tensor:
    """Slides a kernel over an image (cross-correlation: the kernel is not flipped).

    >>> image = HandTensor(np.arange(1.0, 10.0).reshape(3, 3))
    >>> convolution_2d(image, HandTensor(np.full((2, 2), 0.25))).array.tolist()
    [[3.0, 4.0], [6.0, 7.0]]
    """
    return note("output", _convolve("convolution-2d", image, kernel, bias, stride, padding, groups))


def _convolve(
    name: str, values: Tensor, kernel: Tensor, bias: Tensor, stride: int, padding: int, groups: int
) -> Tensor:
    """The convolution along the last axis, or the last two; a kernel of so many axes has one channel."""
    axes = 1 if name == "convolution-1d" else 2
    single_channel = len(kernel.shape) == axes
    if single_channel and len(values.shape) == axes:
        values = values.unsqueeze(0)
    if single_channel:
        kernel = kernel.unsqueeze(0).unsqueeze(0)
    sizes = kernel.shape[2:]
    for axis, size in enumerate(sizes, -axes):
        output_length(name, values.shape[axis], size, stride, padding)
        values = pad(values, padding, axis)
    windows = _windows(values, sizes, stride)
    output_sizes = windows.shape[-2 * axes : -axes]
    flat = windows.reshape(*windows.shape[: -2 * axes], prod(output_sizes), prod(sizes))
    result = _grouped_product(flat, kernel.reshape(*kernel.shape[:2], prod(sizes)), groups, name)
    result = result if bias is None else result + bias.unsqueeze(-1)
    result = result.reshape(*result.shape[:-1], *output_sizes)
    return result.squeeze(-1 - axes) if single_channel else result


def _windows(values: Tensor, sizes: Sequence[int], stride: int) -> Tensor:
    """Every window along the last axes: (..., row, column, inner row, inner column) of an image."""
    for size in sizes:
        values = values.unfold(-len(sizes), size, stride)
    return values


@mechanism(
    Input("signal", "x", "position", "one channel"),
    Input("kernel", "k", "tap", "one row of taps", trainable=True),
    Step("matrix", "T", r"T_{i,\, s i + j - p} = k_j", "output position"),
    Step("output", "y", r"T x", "output"),
)
def toeplitz(
    signal: Tensor, kernel: Tensor, *, stride: int = 1, padding: int = 0, note: Note = silent
) -> Tensor:
    """The same convolution as one matrix: each row holds the kernel, shifted.

    >>> toeplitz(HandTensor(np.array([1.0, 2.0, 4.0])), HandTensor(np.array([1.0, -1.0]))).array.tolist()
    [-1.0, -2.0]
    """
    count = output_length("toeplitz", signal.shape[-1], kernel.shape[-1], stride, padding)
    if count > MAX_ROWS:
        raise TooLarge(f"toeplitz: a matrix of {count:,} rows; at most {MAX_ROWS:,}. Take less padding.")
    return _apply_banded(signal, [kernel] * count, stride, padding, note)


def _apply_banded(signal: Tensor, kernels: Sequence[Tensor], stride: int, padding: int, note: Note) -> Tensor:
    """A matrix with one kernel per row, each shifted by the stride, times the signal."""
    length = signal.shape[-1]
    rows = [_shifted_kernel_row(kernel, i * stride - padding, length) for i, kernel in enumerate(kernels)]
    return note("output", note("matrix", stack(rows, 0)) @ signal)


def _shifted_kernel_row(kernel: Tensor, start: int, length: int) -> Tensor:
    """A row of zeros with the kernel from ``start`` on; what lies beyond the ends is cut off."""
    size = kernel.shape[-1]
    first, last = max(0, -start), size - max(0, start + size - length)
    inner = kernel[min(first, size) : max(first, last)] if first < last else kernel[:0]
    leading = min(max(0, start), length)
    parts = [kernel.new_zeros(leading), inner, kernel.new_zeros(length - leading - inner.shape[-1])]
    return cat([part for part in parts if part.shape[-1]], 0)


@mechanism(
    Input("signal", "x", "position", "one channel"),
    Input("kernels", "k", "output tap", "a row of taps for each output", trainable=True),
    Step("matrix", "T", r"T_{i,\, s i + j - p} = k_{i,j}", "output position"),
    Step("output", "y", r"T x", "output"),
)
def locally_connected(
    signal: Tensor, kernels: Tensor, *, stride: int = 1, padding: int = 0, note: Note = silent
) -> Tensor:
    """Like a convolution, but without sharing: each output has taps of its own.

    >>> taps = HandTensor(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> locally_connected(HandTensor(np.array([1.0, 2.0, 4.0])), taps).array.tolist()
    [1.0, 8.0]
    """
    count = output_length("locally-connected", signal.shape[-1], kernels.shape[-1], stride, padding)
    if kernels.shape[-2] != count:
        shape = format_shape(kernels.shape, "output tap")
        raise InputError(f"locally-connected: {count} outputs need {count} rows of taps; kernels is {shape}.")
    return _apply_banded(signal, [kernels[i] for i in range(count)], stride, padding, note)


@mechanism(IMAGE, Step("output", "Y", r"\text{mean of each window}", "channel output_height output_width"))
def average_pooling(image: Tensor, *, size: int, stride: int | None = None, note: Note = silent) -> Tensor:
    """The mean of each window; the stride is the size unless given.

    >>> average_pooling(HandTensor(np.arange(1.0, 10.0).reshape(3, 3)), size=2, stride=1).array.tolist()
    [[3.0, 4.0], [6.0, 7.0]]
    """
    return note("output", _pooling_windows(image, size, stride, "average-pooling").mean(-1))


@mechanism(IMAGE, Step("output", "Y", r"\text{maximum of each window}", "channel output_height output_width"))
def max_pooling(image: Tensor, *, size: int, stride: int | None = None, note: Note = silent) -> Tensor:
    """The largest of each window; the stride is the size unless given.

    >>> max_pooling(HandTensor(np.arange(1.0, 10.0).reshape(3, 3)), size=2, stride=1).array.tolist()
    [[5.0, 6.0], [8.0, 9.0]]
    """
    return note("output", _pooling_windows(image, size, stride, "max-pooling").amax(-1))


def _pooling_windows(image: Tensor, size: int, stride: int | None, name: str) -> Tensor:
    stride = size if stride is None else stride
    for length in image.shape[-2:]:
        output_length(name, length, size, stride, 0)
    windows = _windows(image, (size, size), stride)
    return windows.reshape(*windows.shape[:-2], size * size)


@mechanism(IMAGE, Step("output", "X", r"\text{one row per patch}", "patch feature"))
def patches(image: Tensor, *, size: int, note: Note = silent) -> Tensor:
    """Cuts an image into squares that do not overlap, one row per patch.

    >>> patches(HandTensor(np.arange(8.0).reshape(2, 4)), size=2).array.tolist()
    [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]
    """
    image = image if len(image.shape) > 2 else image.unsqueeze(0)
    *batch, channels, height, width = image.shape
    if size < 1 or height % size or width % size:
        shape = format_shape((height, width), "height width")
        raise InputError(
            f"patches: an image of {shape} cannot be cut into squares of {size}. "
            "Choose a size that divides both."
        )
    rows, columns = height // size, width // size
    grid = image.reshape(*batch, channels, rows, size, columns, size)
    # channel, row, inner row, column, inner column -> row, column, channel, inner row, inner column
    permuted = grid.transpose(-5, -4).transpose(-4, -2).transpose(-3, -2)
    return note("output", permuted.reshape(*batch, rows * columns, channels * size * size))


@mechanism(
    Input("rows", "X", "patch feature", "one row per patch"),
    Step("output", "I", r"\text{patches put back}", "channel height width"),
)
def patches_inverse(rows: Tensor, *, size: int, columns: int, note: Note = silent) -> Tensor:
    """Puts patches back together; ``columns`` is the number of patches along one row of the image.

    >>> patches_inverse(HandTensor(np.arange(8.0).reshape(2, 4)), size=2, columns=2).array.tolist()
    [[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]]
    """
    *batch, count, features = rows.shape
    if size < 1 or columns < 1 or count % columns or features % (size * size):
        shape = format_shape(rows.shape, "patch feature")
        raise InputError(
            f"patches inverse: {shape} cannot be laid out with {columns} patches of {size} x {size} per row. "
            f"The features are channels x {size} x {size}."
        )
    channels = features // (size * size)
    grid = rows.reshape(*batch, count // columns, columns, channels, size, size)
    permuted = grid.transpose(-3, -2).transpose(-4, -2).transpose(-5, -4)
    return note("output", permuted.reshape(*batch, channels, count // columns * size, columns * size))
