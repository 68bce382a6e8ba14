"""What is asked of each operation and tensor of a pass: which it is, what it writes, where it lies."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

SAME_AS = {"unbind": "select", "split_with_sizes": "split", "unsafe_split": "split"}


class TorchOperation(NamedTuple):
    name: str
    is_torch: bool  # and of no other library
    composite: bool  # made of others: only under torch.inference_mode does it come whole
    writes: tuple[tuple[int, str], ...]  # the arguments that it writes to


_operations: dict[Any, TorchOperation] = {}


def operation_of(func: Any) -> TorchOperation:
    if func not in _operations:
        arguments = enumerate(func._schema.arguments)
        writes = tuple(
            (at, a.name) for at, a in arguments if a.alias_info is not None and a.alias_info.is_write
        )
        name = func.overloadpacket.__name__
        name = name[:-1] if writes and name.endswith("_") else name
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
        is_torch = func.namespace in ("aten", "prim", "prims")
        _operations[func] = TorchOperation(SAME_AS.get(name, name), is_torch, composite, writes)
    return _operations[func]


def view_key(tensor: Tensor) -> tuple[Any, tuple[int, ...], Any]:
    """Equal for two views of the same numbers in the same order."""
    try:
        return tensor.data_ptr() or id(tensor), tuple(tensor.shape), tensor.stride()
    except RuntimeError:  # nested or sparse, or a subclass without memory of its own
        return id(tensor), () if tensor.is_nested else tuple(tensor.shape), None


def storage_key(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def tensors_in(value: Any, depth: int) -> list[Tensor]:
    """The tensors in a structure, or in the attributes of an object that is not a structure."""
    if isinstance(value, Tensor):
        return [value]
    if depth == 0 or value is None or isinstance(value, (str, int, float, nn.Module)):
        return []
    if not isinstance(value, (list, tuple)):
        value = (value if isinstance(value, Mapping) else getattr(value, "__dict__", {})).values()
    return [tensor for item in list(value) for tensor in tensors_in(item, depth - 1)]


def arguments_by_name(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}
