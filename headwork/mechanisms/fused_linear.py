r"""Linear attention block by block: time and memory linear in T, and little of it at once.

Forward and backward pass are written by hand, because what automatic differentiation saves for the backward
pass (features, sums, quotients, each as large as the input) costs more time than the products. Here only the
inputs, the output and the denominators are saved, and the features of one block of tokens are computed again.

With phi the feature map, y_i = phi(q_i) S / (phi(q_i) . z), S = sum_j phi(k_j)^T v_j, z = sum_j phi(k_j).
For a gradient g of y, write h = g / (phi(q) . z) and r = h . y for each row. Then phi(q) gets h S^T - r z,
S gets phi(q)^T h, z gets -phi(q)^T r, and from those phi(k) gets v dS^T + dz and v gets phi(k) dS.
In the causal form S and z are sums up to the token itself: chunks before it through S and z, its own chunk
through the products up to the diagonal.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from headwork.mechanisms.linear import Features

BLOCK = 2048  # tokens at a time, so that intermediate values stay in the processor's cache


def _features(rows: Tensor, features: Features) -> Tensor:
    return rows if features == "none" else functional.elu(rows) + 1


def _feature_gradient(gradient: Tensor, phi: Tensor, features: Features) -> Tensor:
    """Through the feature map: elu(x) + 1 has slope 1 above 1 and its own value below."""
    return gradient if features == "none" else gradient * phi.clamp(max=1)


def _blocks(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


class LinearAttentionFunction(torch.autograd.Function):
    """Every query sees every key; ``mask`` (key, one) has 0 where a key is hidden from all."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, features: Features
    ) -> Tensor:
        state: Any = 0.0
        total: Any = 0.0
        for block in _blocks(key.shape[-2], BLOCK):
            phi = _features(key[..., block, :], features)
            phi = phi if mask is None else phi * mask[..., block, :]
            state = state + phi.mT @ value[..., block, :]
            total = total + phi.sum(-2, keepdim=True)
        output = query.new_empty(*state.shape[:-2], query.shape[-2], value.shape[-1])
        for block in _blocks(query.shape[-2], BLOCK):
            phi = _features(query[..., block, :], features)
            output[..., block, :] = (phi @ state) / (phi @ total.mT)
        ctx.save_for_backward(query, key, value, mask, state, total, output)
        ctx.features = features
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask, state, total, output = ctx.saved_tensors
        grad_query, grad_key, grad_value = map(torch.empty_like, (query, key, value))
        grad_state, grad_total = torch.zeros_like(state), torch.zeros_like(total)
        for block in _blocks(query.shape[-2], BLOCK):
            phi = _features(query[..., block, :], ctx.features)
            h = gradient[..., block, :] / (phi @ total.mT)
            r = (h * output[..., block, :]).sum(-1, keepdim=True)
            grad_query[..., block, :] = _feature_gradient(h @ state.mT - r * total, phi, ctx.features)
            grad_state = grad_state + phi.mT @ h
            grad_total = grad_total - r.mT @ phi
        for block in _blocks(key.shape[-2], BLOCK):
            phi = _features(key[..., block, :], ctx.features)
            grad_phi = value[..., block, :] @ grad_state.mT + grad_total
            grad_rows = phi @ grad_state
            if mask is not None:
                grad_phi, grad_rows = grad_phi * mask[..., block, :], grad_rows * mask[..., block, :]
            grad_key[..., block, :] = _feature_gradient(grad_phi, phi, ctx.features)
            grad_value[..., block, :] = grad_rows
        return grad_query, grad_key, grad_value, None, None


def _chunks(rows: Tensor, chunk: int) -> Tensor:
    """Rows (..., token, width) as chunks (..., chunk, token, width), the last filled up with zeros."""
    missing = -rows.shape[-2] % chunk
    rows = functional.pad(rows, (0, 0, 0, missing)) if missing else rows
    return rows.reshape(*rows.shape[:-2], -1, chunk, rows.shape[-1])


def _unchunk(chunks: Tensor, length: int) -> Tensor:
    return chunks.flatten(-3, -2)[..., :length, :]


def _exclusive_cumsum(start: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of all chunks before each one, and the sum with which the next block starts."""
    running = start.unsqueeze(-3) + sums.cumsum(-3)
    return torch.cat([start.unsqueeze(-3), running[..., :-1, :, :]], -3), running[..., -1, :, :]


def _reverse_exclusive_cumsum(start: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
    """The same from the other end: the sum of all chunks after each one."""
    sums_after, end = _exclusive_cumsum(start, sums.flip(-3))
    return sums_after.flip(-3), end


class CausalLinearAttentionFunction(torch.autograd.Function):
    """Every query sees its own key and those before it; as many queries as keys."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, features: Features, chunk: int
    ) -> Tensor:
        length, size = query.shape[-2], max(BLOCK // chunk, 1) * chunk
        output, divisors = torch.empty_like(value), torch.empty_like(value[..., :1])
        state = value.new_zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])
        total = key.new_zeros(*key.shape[:-2], 1, key.shape[-1])
        states, totals = [], []
        for block in _blocks(length, size):
            states.append(state)
            totals.append(total)
            q, k = (_chunks(_features(rows[..., block, :], features), chunk) for rows in (query, key))
            v = _chunks(value[..., block, :], chunk)
            before, state = _exclusive_cumsum(state, k.mT @ v)
            totals_before, total = _exclusive_cumsum(total, k.sum(-2, keepdim=True))
            scores = (q @ k.mT).tril()
            count = block.stop - block.start
            sums = _unchunk(q @ totals_before.mT + scores.sum(-1, keepdim=True), count)
            divisors[..., block, :] = sums
            output[..., block, :] = _unchunk(q @ before + scores @ v, count) / sums
        ctx.save_for_backward(query, key, value, output, divisors, torch.stack(states), torch.stack(totals))
        ctx.features, ctx.chunk, ctx.size = features, chunk, size
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, divisors, states, totals = ctx.saved_tensors
        grad_query, grad_key, grad_value = map(torch.empty_like, (query, key, value))
        later_state, later_total = torch.zeros_like(states[0]), torch.zeros_like(totals[0])
        blocks = _blocks(query.shape[-2], ctx.size)
        for index in reversed(range(len(blocks))):
            block = blocks[index]
            count = block.stop - block.start
            phi = [_features(rows[..., block, :], ctx.features) for rows in (query, key)]
            h = gradient[..., block, :] / divisors[..., block, :]
            r = (h * output[..., block, :]).sum(-1, keepdim=True)
            q, k, v, h, r = (_chunks(rows, ctx.chunk) for rows in (*phi, value[..., block, :], h, r))
            before, _ = _exclusive_cumsum(states[index], k.mT @ v)
            totals_before, _ = _exclusive_cumsum(totals[index], k.sum(-2, keepdim=True))
            after, later_state = _reverse_exclusive_cumsum(later_state, q.mT @ h)
            totals_after, later_total = _reverse_exclusive_cumsum(later_total, -(r.mT @ q))
            scores, grad_scores = (q @ k.mT).tril(), (h @ v.mT - r).tril()
            grad_phi_q = _unchunk(h @ before.mT - r * totals_before + grad_scores @ k, count)
            grad_phi_k = _unchunk(grad_scores.mT @ q + v @ after.mT + totals_after, count)
            grad_query[..., block, :] = _feature_gradient(grad_phi_q, phi[0], ctx.features)
            grad_key[..., block, :] = _feature_gradient(grad_phi_k, phi[1], ctx.features)
            grad_value[..., block, :] = _unchunk(scores.mT @ h + k @ after, count)
        return grad_query, grad_key, grad_value, None, None
