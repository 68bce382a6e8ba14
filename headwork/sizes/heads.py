"""The shapes through attention, step by step, with tokens as rows or as columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from headwork.errors import InputError, unknown
from headwork.numbers import OperationCount, ShapeTensor
from headwork.sizes.counting import check_heads_divide_width, check_sizes, count_rows
from headwork.sizes.ledger import Ledger, Row, sum_rows

TokensAs = Literal["rows", "columns"]

ABOUT = {
    "query": "queries",
    "key": "keys",
    "value": "values",
    "weights": "attention matrices",
    "per head": "per-head outputs",
    "joined": "heads side by side",
    "memory": "what is looked at",
}
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
        check_heads_divide_width("attention", width, heads)
    elif biases:
        raise InputError(
            "attention: plain attention has no biases. Give the number of heads (1 will do) to count them."
        )
    if tokens_as not in ("rows", "columns"):
        raise unknown("tokens_as", tokens_as, ("rows", "columns"))
    sizes = {"token": tokens, "key": memory or tokens}
    sizes |= dict.fromkeys(("width", "key_width", "value_width", "joined_width"), width)
    options: dict[str, Any] = {}
    if heads is None:
        slug = "self-attention" if memory is None else "cross-attention"
    else:
        slug, options = "multi-head-attention", {"heads": heads, "without": () if biases else BIASES}
        sizes |= {} if memory is None else {"memory": 1}
    columns = tokens_as == "columns"
    rows = [
        _describe(row, columns) for row in count_rows(slug, sizes, batch=batch, columns=columns, **options)
    ]
    notes = {
        "Projections with biases.": biases,
        "Projections without biases; ask for them to count them.": heads is not None and not biases,
        "Softmax runs down the columns: each column of the weights sums to 1.": columns,
    }
    named = f", {heads} heads of {width // heads}" if heads else ""
    return Ledger(
        title=f"{slug}: {tokens} tokens of width {width}{named}"
        + (f" attending to {memory}" if memory else "")
        + (", tokens as columns" if columns else ""),
        rows=tuple(rows),
        facts={
            **({} if heads is None else {"heads": heads, "width of a head": width // heads}),
            "parameters": sum_rows("total", rows).parameters or 0,
        },
        notes=tuple(text for text, applies in notes.items() if applies),
        warnings=(_columns_warning(tokens, width),) if columns else (),
        summed=True,
    )


def _describe(row: Row, columns: bool) -> Row:
    """A row with its description, in the layout asked for: with tokens as columns the token axis is last."""
    row = replace(row, about=ABOUT.get(row.name, ""))
    if not columns or row.shape is None or row.parameters is not None:
        return row
    words, shape = row.axes.split(), row.shape
    # One column per query: in scores and weights the keys run down.
    late = ("query",) if row.name in ("scores", "weights") else TOKEN_AXES
    order = sorted(range(len(words)), key=lambda axis: words[axis] in late)
    return replace(row, shape=tuple(shape[i] for i in order), axes=" ".join(words[i] for i in order))


def _columns_warning(tokens: int, width: int) -> str:
    work = OperationCount()
    query, key = ShapeTensor((width, tokens), work), ShapeTensor((width, tokens), work)
    wrong, right = (query @ key.mT).shape, (key.mT @ query).shape
    return (
        f"with tokens as columns Q K^T would be {list(wrong)}: it mixes features instead of tokens. "
        f"The scores are K^T Q, {list(right)}, and the output is V A."
    )
