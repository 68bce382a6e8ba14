r"""Linear attention block by block: time and memory linear in T, and little of it at once.

Written with both directions by hand, because what automatic differentiation keeps for the way back (features,
sums, quotients, each as large as the input) costs more time than the products. Here only the inputs, the output and
the sums below the fraction are kept, and the features of one block of tokens are worked out again on the way back.

With phi the feature map, y_i = phi(q_i) S / (phi(q_i) . z), S = sum_j phi(k_j)^T v_j, z = sum_j phi(k_j).
For a gradient g of y, write h = g / (phi(q) . z) and r = h . y for each row. Then phi(q) gets h S^T - r z,
S gets phi(q)^T h, z gets -phi(q)^T r, and from those phi(k) gets v dS^T + dz and v gets phi(k) dS.
In the causal form S and z are sums up to the token itself: chunks before it through S and z, its own chunk through
the products up to the diagonal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from headwork.mechanisms.linear import Features

BLOCK = 2048  # tokens at a time: what is in the making stays near the processor


def _mapped(rows: Tensor, features: Features) -> Tensor:
    return rows if features == "none" else functional.elu(rows) + 1


def _sloped(gradient: Tensor, mapped: Tensor, features: Features) -> Tensor:
    """Through the feature map: elu(x) + 1 has slope 1 above 1 and its own value below."""
    return gradient if features == "none" else gradient * mapped.clamp(max=1)


def _blocks(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


class Whole(torch.autograd.Function):
    """Every query sees every key; ``kept`` (key, one) has 0 where a key is hidden from all."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, kept: Tensor | None, features: Features
    ) -> Tensor:
        state: Any = 0.0
        total: Any = 0.0
        for at in _blocks(key.shape[-2], BLOCK):
            mapped = _mapped(key[..., at, :], features)
            mapped = mapped if kept is None else mapped * kept[..., at, :]
            state = state + mapped.mT @ value[..., at, :]
            total = total + mapped.sum(-2, keepdim=True)
        output = query.new_empty(*state.shape[:-2], query.shape[-2], value.shape[-1])
        for at in _blocks(query.shape[-2], BLOCK):
            mapped = _mapped(query[..., at, :], features)
            output[..., at, :] = (mapped @ state) / (mapped @ total.mT)
        ctx.save_for_backward(query, key, value, kept, state, total, output)
        ctx.features = features
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, kept, state, total, output = ctx.saved_tensors
        to_query, to_key, to_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        to_state, to_total = torch.zeros_like(state), torch.zeros_like(total)
        for at in _blocks(query.shape[-2], BLOCK):
            mapped = _mapped(query[..., at, :], ctx.features)
            h = gradient[..., at, :] / (mapped @ total.mT)
            r = (h * output[..., at, :]).sum(-1, keepdim=True)
            to_query[..., at, :] = _sloped(h @ state.mT - r * total, mapped, ctx.features)
            to_state = to_state + mapped.mT @ h
            to_total = to_total - r.mT @ mapped
        for at in _blocks(key.shape[-2], BLOCK):
            mapped = _mapped(key[..., at, :], ctx.features)
            to_mapped = value[..., at, :] @ to_state.mT + to_total
            to_values = mapped @ to_state
            if kept is not None:
                to_mapped, to_values = to_mapped * kept[..., at, :], to_values * kept[..., at, :]
            to_key[..., at, :] = _sloped(to_mapped, mapped, ctx.features)
            to_value[..., at, :] = to_values
        return to_query, to_key, to_value, None, None


def _cut(rows: Tensor, chunk: int) -> Tensor:
    """Rows (..., token, width) as chunks (..., chunk, token, width), the last filled up with zeros."""
    short = -rows.shape[-2] % chunk
    rows = functional.pad(rows, (0, 0, 0, short)) if short else rows
    return rows.reshape(*rows.shape[:-2], -1, chunk, rows.shape[-1])


def _joined(chunks: Tensor, length: int) -> Tensor:
    return chunks.flatten(-3, -2)[..., :length, :]


def _before(start: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """What each chunk finds (the sum of all before it), and what the next block starts from."""
    running = start.unsqueeze(-3) + sums.cumsum(-3)
    return torch.cat([start.unsqueeze(-3), running[..., :-1, :, :]], -3), running[..., -1, :, :]


def _after(start: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """The same from the other end: the sum of all chunks after each one."""
    found, left = _before(start, sums.flip(-3))
    return found.flip(-3), left


class Causal(torch.autograd.Function):
    """Every query sees its own key and those before it; as many queries as keys."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, features: Features, chunk: int
    ) -> Tensor:
        length, size = query.shape[-2], max(BLOCK // chunk, 1) * chunk
        output, below = torch.empty_like(value), torch.empty_like(value[..., :1])
        state = value.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])
        total = key.new_zeros(*key.shape[:-2], 1, key.shape[-1])
        states, totals = [], []
        for at in _blocks(length, size):
            states.append(state)
            totals.append(total)
            q, k = (_cut(_mapped(rows[..., at, :], features), chunk) for rows in (query, key))
            v = _cut(value[..., at, :], chunk)
            before, state = _before(state, k.mT @ v)
            totals_before, total = _before(total, k.sum(-2, keepdim=True))
            scores = (q @ k.mT).tril()
            count = at.stop - at.start
            sums = _joined(q @ totals_before.mT + scores.sum(-1, keepdim=True), count)
            below[..., at, :] = sums
            output[..., at, :] = _joined(q @ before + scores @ v, count) / sums
        ctx.save_for_backward(query, key, value, output, below, torch.stack(states), torch.stack(totals))
        ctx.features, ctx.chunk, ctx.size = features, chunk, size
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, below, states, totals = ctx.saved_tensors
        to_query, to_key, to_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        later, later_total = torch.zeros_like(states[0]), torch.zeros_like(totals[0])
        blocks = _blocks(query.shape[-2], ctx.size)
        for block in reversed(range(len(blocks))):
            at = blocks[block]
            count = at.stop - at.start
            mapped = [_mapped(rows[..., at, :], ctx.features) for rows in (query, key)]
            h = gradient[..., at, :] / below[..., at, :]
            r = (h * output[..., at, :]).sum(-1, keepdim=True)
            q, k, v, h, r = (_cut(rows, ctx.chunk) for rows in (*mapped, value[..., at, :], h, r))
            before, _ = _before(states[block], k.mT @ v)
            totals_before, _ = _before(totals[block], k.sum(-2, keepdim=True))
            after, later = _after(later, q.mT @ h)
            totals_after, later_total = _after(later_total, -(r.mT @ q))
            scores, to_scores = (q @ k.mT).tril(), (h @ v.mT - r).tril()
            to_q = _joined(h @ before.mT - r * totals_before + to_scores @ k, count)
            to_k = _joined(to_scores.mT @ q + v @ after.mT + totals_after, count)
            to_query[..., at, :] = _sloped(to_q, mapped[0], ctx.features)
            to_key[..., at, :] = _sloped(to_k, mapped[1], ctx.features)
            to_value[..., at, :] = _joined(scores.mT @ h + k @ after, count)
        return to_query, to_key, to_value, None, None
