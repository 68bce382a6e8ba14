"""One option as a person types or passes it, read by the type hint of its parameter or field."""

import math
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from headwork.errors import InputError, format_shape, unknown_name
from headwork.numbers.parsing import read_tensor

MAX_INTEGER = 10**9
YES, NO = ("true", "yes"), ("false", "no")


def read_option(hint: Any, value: Any, *, where: str, exact: bool = False) -> Any:
    """The value that the hint asks for: a choice, a whole number, a number, a bool, a mask, names or text.

    >>> read_option(int, "12", where="heads"), read_option(bool, "yes", where="compiled")
    (12, True)
    """
    if choices := literal_choices(hint):
        if value not in choices and not (value == "none" and NoneType in get_args(hint)):
            raise unknown_name(where, value, choices)
        return value if value in choices else None
    arguments = get_args(hint)
    if NoneType in arguments:
        if isinstance(value, str) and value.lower() == "none":
            return None
        hint = next(kind for kind in arguments if kind is not NoneType)
    metadata = getattr(hint, "__metadata__", ())
    if "mask" in metadata:
        return _read_mask(value, exact, where)
    if "number" in metadata:
        return _read_number(value, exact, where)
    if hint is bool:
        if str(value).lower() not in YES + NO:
            raise InputError(f"{where} is {value}. Expected true or false.")
        return str(value).lower() in YES
    if hint is int:
        return _read_integer(value, where)
    if hint is float:
        try:
            return float(read_tensor(value, where=where).array)
        except (InputError, TypeError):
            raise InputError(f"{where} is {value}. Expected a number.") from None
    if get_origin(hint) is tuple:
        names = tuple(name.strip() for name in value.split(","))
        if len(names) != len(get_args(hint)):
            raise InputError(
                f"{where} is {value}. Expected {len(get_args(hint))} names with a comma between."
            )
        return names
    return value


def literal_choices(hint: Any) -> list[Any]:
    """The choices of a ``Literal``, also of one that may be None."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [choice for part in get_args(hint) if get_origin(part) is Literal for choice in get_args(part)]


def _read_integer(value: Any, where: str) -> int:
    error = InputError(f"{where} is {value}. Expected a whole number, at most {MAX_INTEGER:,}.")
    try:
        number = read_tensor(value, where=where).array
    except InputError:
        raise error from None
    if number.shape != () or not abs(number) <= MAX_INTEGER or number != int(number):
        raise error
    return int(number)


def _read_number(value: Any, exact: bool, where: str) -> Any:
    """A tensor of one number; infinity as a plain float, because it picks hard attention."""
    tensor = read_tensor(value, exact=exact, where=where)
    if tensor.shape != ():
        raise InputError(f"{where} is {format_shape(tensor.shape, '')}. Expected a single number.")
    if str(tensor.array) in ("-oo", "-inf"):
        raise InputError(f"{where} is minus infinity. Expected a number, or oo.")
    return math.inf if str(tensor.array) in ("oo", "inf") else tensor


def _read_mask(value: Any, exact: bool, where: str) -> Any:
    if isinstance(value, str) and value.isalpha():
        if value == "none":
            return None
        if value != "causal":
            raise InputError(
                f"{where} is '{value}'. Expected causal, or a matrix of 1 (may attend) and 0 (may not)."
            )
        return value
    tensor = read_tensor(value, exact=exact, where=where)
    if any(x not in (0, 1) for x in tensor.array.flat):
        raise InputError(
            f"{where} holds numbers other than 0 and 1. "
            "Give 1 where a query may attend and 0 where it may not."
        )
    return tensor
