"""Attention that shares no code with ours."""

import numpy as np
import pytest


def other_attention(data, content):
    """Multi-head attention in plain numpy, from nothing but the JSON; content is batch x token x width."""
    positions = np.array(data["positions"]).reshape(data["tokens"], -1)
    tokens = np.concatenate(
        [content, np.broadcast_to(positions, (*content.shape[:-1], positions.shape[1]))], axis=-1
    )
    queries = np.array(data["queries"])
    total = 0
    for W_q, W_k, W_v, W_o in zip(
        *(map(np.array, data[name]) for name in ("W_q", "W_k", "W_v", "W_o")), strict=True
    ):
        query = np.einsum("kw,btw->btk", W_q, tokens[:, queries])
        key = np.einsum("kw,btw->btk", W_k, tokens)
        if data["rotary"]:
            query, key = (
                rotate(query, queries, data["rotary"]["base"]),
                rotate(key, np.arange(data["tokens"]), data["rotary"]["base"]),
            )
        scores = np.einsum("bik,bjk->bij", query * data["beta"], key)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("bij,bjc->bic", powers, tokens @ W_v.T) / powers.sum(-1)[..., None]
        total = total + np.einsum("oc,bic->bio", W_o, mixed)
    return total


def rotate(vectors, positions, base):
    """Rotary positions with complex numbers."""
    pairs = vectors[..., 0::2] + 1j * vectors[..., 1::2]
    width = vectors.shape[-1]
    frequencies = np.exp(-np.log(base) * np.arange(width // 2) * 2 / width)
    pairs = pairs * np.exp(1j * positions[:, None] * frequencies)
    return np.stack([pairs.real, pairs.imag], -1).reshape(vectors.shape)


def error(data, content):
    off = other_attention(data, content) - np.einsum("ij,bjc->bic", np.array(data["matrix"]), content)
    return float(np.sqrt((off**2).sum(-1)).max())


@pytest.fixture
def other_error():
    """The largest error of the matrices in this JSON, on a batch of contents."""
    return error
