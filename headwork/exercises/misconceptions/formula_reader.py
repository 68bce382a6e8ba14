"""Reads the formulas of mistakes: arithmetic, comparisons, slices and calls of what is listed here.

A formula is parsed as a Python expression and turned into functions of the names that it may use; nothing is
evaluated as code.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Any

import numpy as np

from headwork.files import load_package_toml

Scope = Mapping[str, Any]
Value = Callable[[Scope], Any]

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Is: operator.is_,
}
LISTED = load_package_toml(__file__, "formula_names.toml")


def read_formula(text: str) -> Value:
    """What a formula gives, as a function of the names in it.

    >>> read_formula("2 * rows.sum(-1) if rows.shape[0] > 1 else None")({"rows": np.eye(2)})
    array([2., 2.])
    >>> read_formula("rows.dump('file')")
    Traceback (most recent call last):
    ...
    ValueError: "rows.dump" in a formula: only names, numbers, arithmetic and listed functions are read
    """
    return _value(ast.parse(text, mode="eval").body)


def _value(node: ast.AST) -> Value:
    match node:
        case ast.Constant(value=constant) if isinstance(constant, int | float | str | EllipsisType | None):
            return lambda names: constant
        case ast.Name(id=name):
            return lambda names: names[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return _applied(OPERATORS[type(op)], operand)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in OPERATORS:
            return _applied(OPERATORS[type(op)], left, right)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATORS:
            return _applied(OPERATORS[type(op)], left, right)
        case ast.BoolOp(op=ast.And(), values=parts):
            conditions = [_value(part) for part in parts]
            return lambda names: all(condition(names) for condition in conditions)
        case ast.IfExp(test=test, body=body, orelse=other):
            test_value, body_value, other_value = _value(test), _value(body), _value(other)
            return lambda names: (body_value if test_value(names) else other_value)(names)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return _applied(lambda *values: values, *parts)
        case ast.Slice(lower=lower, upper=upper, step=step):
            return _applied(slice, *(part or ast.Constant(None) for part in (lower, upper, step)))
        case ast.Subscript(value=owner, slice=index):
            return _applied(operator.getitem, owner, index)
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in LISTED["of_numpy"]:
            number_or_function = getattr(np, name)
            return lambda names: number_or_function
        case ast.Attribute(value=ast.Name(id="run"), attr=name) if not name.startswith("_"):
            return lambda names: getattr(names["run"], name)
        case ast.Attribute(value=owner, attr=name) if name in LISTED["of_an_array"]:
            return _applied(operator.attrgetter(name), owner)
        case ast.Call(func=ast.Name() | ast.Attribute() as called, args=arguments, keywords=keywords):
            return _called(_value(called), arguments, keywords)
        case ast.Lambda(args=ast.arguments(args=[ast.arg(arg=name)]), body=body):
            body_value = _value(body)
            return lambda names: lambda argument: body_value(_ScopeWithArgument(names, name, argument))
    what = ast.unparse(node)
    raise ValueError(f'"{what}" in a formula: only names, numbers, arithmetic and listed functions are read')


def _applied(function: Callable[..., Any], *parts: ast.AST) -> Value:
    values = [_value(part) for part in parts]
    return lambda names: function(*[value(names) for value in values])


def _called(function: Value, arguments: list[ast.expr], keywords: list[ast.keyword]) -> Value:
    values = [_value(part) for part in arguments]
    named = {str(keyword.arg): _value(keyword.value) for keyword in keywords}

    def value(names: Scope) -> Any:
        given = {name: part(names) for name, part in named.items()}
        return function(names)(*[part(names) for part in values], **given)

    return value


class _ScopeWithArgument(dict[str, Any]):
    """Names with one more, that of a function's argument."""

    def __init__(self, names: Scope, name: str, value: Any) -> None:
        super().__init__({name: value})
        self.names = names

    def __missing__(self, name: str) -> Any:
        return self.names[name]
