"""Linear attention, at once and as a recurrence: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.attention import softmax
from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- linear attention -------------------------------------------------------------------------------
def seen(s: Work) -> Any:
    return np.tri(len(s.query)) if "mask" in s else np.ones((len(s.query), len(s.key)))


def total(rows: Any) -> Any:
    return rows.sum(-1, keepdims=True)


def right_linear(given: Work) -> Formulas:
    return {
        "scores": lambda s: s.query @ s.key.T * seen(s),
        "sums": lambda s: total(s.scores),
        "weights": lambda s: s.scores / s.sums,
        "output": lambda s: s.weights @ s.value,
    }


LINEAR = [
    m("scores-k-q", "K Q^T instead of Q K^T.", "scores", lambda s: s.key @ s.query.T * seen(s)),
    m(
        "scores-q-q",
        "The queries are multiplied with themselves.",
        "scores",
        lambda s: s.query @ s.query.T * seen(s),
    ),
    m("scores-q-v", "Q V^T instead of Q K^T.", "scores", lambda s: s.query @ s.value.T * seen(s)),
    m(
        "scores-scaled",
        "The scores are divided by sqrt(d) as in softmax attention.",
        "scores",
        lambda s: s.query @ s.key.T * seen(s) / 2**0.5,
    ),
    m(
        "scores-exponential",
        "The exponential of the dot products is taken.",
        "scores",
        lambda s: np.exp(s.query @ s.key.T) * seen(s),
    ),
    m(
        "scores-term-dropped",
        "Only the first component enters the dot products.",
        "scores",
        lambda s: np.outer(s.query[:, 0], s.key[:, 0]) * seen(s),
    ),
    m("mask-forgotten", "The causal mask is left out of the scores.", "scores", lambda s: s.query @ s.key.T),
    m(
        "mask-transposed",
        "Later keys are kept, earlier ones set to 0.",
        "scores",
        lambda s: s.query @ s.key.T * seen(s).T,
    ),
    m(
        "mask-hides-own",
        "The own key is hidden too.",
        "scores",
        lambda s: s.query @ s.key.T * np.tri(len(s.query), k=-1),
    ),
    m(
        "sums-over-columns",
        "The columns are summed instead of the rows.",
        "sums",
        lambda s: s.scores.sum(0)[:, None],
    ),
    m(
        "sums-of-everything",
        "The sum over the whole matrix is taken.",
        "sums",
        lambda s: 0 * total(s.scores) + s.scores.sum(),
    ),
    m(
        "sums-mean",
        "The mean is taken instead of the sum.",
        "sums",
        lambda s: s.scores.mean(-1, keepdims=True),
    ),
    m(
        "sums-largest",
        "The largest score is taken instead of the sum.",
        "sums",
        lambda s: s.scores.max(-1, keepdims=True),
    ),
    m(
        "sums-last-dropped",
        "The last term is left out of the sums.",
        "sums",
        lambda s: total(s.scores[:, :-1]),
    ),
    m("sums-of-exponentials", "The exponentials are summed.", "sums", lambda s: total(np.exp(s.scores))),
    m("sums-of-squares", "The squares are summed.", "sums", lambda s: total(s.scores**2)),
    m("weights-softmax", "The softmax is taken after all.", "weights", lambda s: softmax(s.scores)),
    m(
        "weights-over-column-sums",
        "Each column is divided by the sum of its row number.",
        "weights",
        lambda s: s.scores / s.sums.T,
    ),
    m(
        "weights-over-largest",
        "The scores are divided by the largest of the row.",
        "weights",
        lambda s: s.scores / s.scores.max(-1, keepdims=True),
    ),
    m("weights-inverted", "The sums are divided by the scores.", "weights", lambda s: s.sums / s.scores),
    m(
        "weights-minus-sums",
        "The sums are subtracted instead of divided by.",
        "weights",
        lambda s: s.scores - s.sums,
    ),
    m(
        "weights-over-count",
        "The scores are divided by the number of keys.",
        "weights",
        lambda s: s.scores / len(s.key),
    ),
    m("output-a-k", "The keys are mixed instead of the values.", "output", lambda s: s.weights @ s.key),
    m("output-transposed", "A^T V instead of A V.", "output", lambda s: s.weights.T @ s.value),
    m(
        "output-s-v",
        "The scores mix the values, not divided by the sums.",
        "output",
        lambda s: s.scores @ s.value,
    ),
    m(
        "output-divided-again",
        "The output is divided by the sums once more.",
        "output",
        lambda s: s.weights @ s.value / s.sums,
    ),
    m(
        "output-times-sums",
        "The output is multiplied by the sums.",
        "output",
        lambda s: s.weights @ s.value * s.sums,
    ),
    m(
        "output-last-key-dropped",
        "The last value is left out.",
        "output",
        lambda s: s.weights[:, :-1] @ s.value[:-1],
    ),
]


def state(s: Work, t: int) -> Any:
    return s[f"step {t}/state"] if t >= 0 else np.zeros((2, 2))


def key_sum(s: Work, t: int) -> Any:
    return s[f"step {t}/key sum"] if t >= 0 else np.zeros((1, 2))


def turns(s: Work) -> range:
    return range(len(s.query))


def read_out(s: Work, above: Any, below: Any) -> Any:
    """One row per token from what stands above and below the line for it."""
    return np.array([above(t) / below(t) for t in turns(s)])


def dot(s: Work, t: int) -> float:
    return float(s.query[t] @ key_sum(s, t)[0])


def right_recurrent(given: Work) -> Formulas:
    made: Formulas = {}
    for t in turns(given):
        made[f"step {t}/state"] = lambda s, t=t: state(s, t - 1) + np.outer(s.key[t], s.value[t])
        made[f"step {t}/key sum"] = lambda s, t=t: key_sum(s, t - 1) + s.key[t]
    made["output"] = lambda s: read_out(s, lambda t: s.query[t] @ state(s, t), lambda t: dot(s, t))
    return made


RECURRENT = [
    m(
        "outer-transposed",
        "v_t^T k_t instead of k_t^T v_t.",
        "step */state",
        lambda s, t: state(s, t - 1) + np.outer(s.value[t], s.key[t]),
    ),
    m(
        "state-not-carried",
        "The state before is not added.",
        "step */state",
        lambda s, t: np.outer(s.key[t], s.value[t]),
    ),
    m(
        "state-subtracted",
        "The new product is subtracted from the state before.",
        "step */state",
        lambda s, t: state(s, t - 1) - np.outer(s.key[t], s.value[t]),
    ),
    m(
        "state-of-queries",
        "The query is used instead of the key in the state.",
        "step */state",
        lambda s, t: state(s, t - 1) + np.outer(s.query[t], s.value[t]),
    ),
    m(
        "state-of-keys",
        "k_t^T k_t instead of k_t^T v_t.",
        "step */state",
        lambda s, t: state(s, t - 1) + np.outer(s.key[t], s.key[t]),
    ),
    m(
        "state-elementwise",
        "Only the products of equal positions are taken.",
        "step */state",
        lambda s, t: state(s, t - 1) + np.diag(s.key[t] * s.value[t]),
    ),
    m(
        "state-value-before",
        "The value of the token before is used.",
        "step */state",
        lambda s, t: state(s, t - 1) + np.outer(s.key[t], s.value[t - 1]),
    ),
    m(
        "state-doubled",
        "The state before is added twice.",
        "step */state",
        lambda s, t: 2 * state(s, t - 1) + np.outer(s.key[t], s.value[t]),
    ),
    m(
        "state-times-before",
        "The state before is multiplied with the new product.",
        "step */state",
        lambda s, t: state(s, t - 1) @ np.outer(s.key[t], s.value[t]),
    ),
    m(
        "key-sum-not-carried",
        "The keys before are not added.",
        "step */key sum",
        lambda s, t: s.key[t : t + 1],
    ),
    m(
        "key-sum-of-values",
        "The values are added instead of the keys.",
        "step */key sum",
        lambda s, t: key_sum(s, t - 1) + s.value[t],
    ),
    m(
        "key-sum-of-queries",
        "The queries are added instead of the keys.",
        "step */key sum",
        lambda s, t: key_sum(s, t - 1) + s.query[t],
    ),
    m(
        "key-sum-subtracted",
        "The key is subtracted.",
        "step */key sum",
        lambda s, t: key_sum(s, t - 1) - s.key[t],
    ),
    m(
        "key-sum-mean",
        "The mean of the keys so far instead of their sum.",
        "step */key sum",
        lambda s, t: s.key[: t + 1].mean(0, keepdims=True),
    ),
    m(
        "output-of-last-state",
        "The last state is used for every token.",
        "output",
        lambda s: read_out(
            s,
            lambda t: s.query[t] @ state(s, len(s.query) - 1),
            lambda t: s.query[t] @ key_sum(s, len(s.query) - 1)[0],
        ),
    ),
    m(
        "output-not-divided",
        "The output is not divided by q . c.",
        "output",
        lambda s: read_out(s, lambda t: s.query[t] @ state(s, t), lambda t: 1),
    ),
    m(
        "output-over-sum-of-keys",
        "Divided by the sum of c, without the query.",
        "output",
        lambda s: read_out(s, lambda t: s.query[t] @ state(s, t), lambda t: key_sum(s, t).sum()),
    ),
    m(
        "output-over-count",
        "Divided by the number of tokens so far.",
        "output",
        lambda s: read_out(s, lambda t: s.query[t] @ state(s, t), lambda t: t + 1),
    ),
    m(
        "output-state-transposed",
        "The state is transposed: C q instead of q C.",
        "output",
        lambda s: read_out(s, lambda t: state(s, t) @ s.query[t], lambda t: dot(s, t)),
    ),
    m(
        "output-by-keys",
        "The key asks instead of the query.",
        "output",
        lambda s: read_out(s, lambda t: s.key[t] @ state(s, t), lambda t: s.key[t] @ key_sum(s, t)[0]),
    ),
    m(
        "output-last-key-sum",
        "The last key sum divides every token.",
        "output",
        lambda s: read_out(
            s, lambda t: s.query[t] @ state(s, t), lambda t: s.query[t] @ key_sum(s, len(s.query) - 1)[0]
        ),
    ),
    m(
        "output-over-own-key",
        "Divided by q_t . k_t instead of q_t . c_t.",
        "output",
        lambda s: read_out(s, lambda t: s.query[t] @ state(s, t), lambda t: s.query[t] @ s.key[t]),
    ),
    m(
        "output-divided-elementwise",
        "Each entry is divided by that of the key sum.",
        "output",
        lambda s: read_out(s, lambda t: s.query[t] @ state(s, t), lambda t: key_sum(s, t)[0]),
    ),
]

KINDS = [
    Kind(
        "linear-attention",
        right_linear,
        LINEAR,
        slips="scores, sums, output",
        copied="weights",
        misread="scores < query, output < value",
    ),
    Kind(
        "linear-attention-recurrent",
        right_recurrent,
        RECURRENT,
        slips="step 0/state, step 1/key sum, output",
        misread="step 1/state < key",
    ),
]
