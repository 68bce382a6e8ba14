"""Mistakes in the limits of beta, in the change of a key, and in copying."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts


def _products(run: RunView) -> Any:
    return run.query @ run.key.T


def _winners(run: RunView) -> Any:
    products = _products(run)
    return (np.abs(products - products.max(-1, keepdims=True)) < 1e-9).astype(float)


def _shared(chosen: Any) -> Any:
    return attention_parts.normalise(np.asarray(chosen, float))


def _for_all(row: Any, run: RunView) -> Any:
    """One row of output for every query."""
    return np.tile(row, (len(run.query), 1))


# --- beta -> 0 and beta -> infinity -----------------------------------------------------------------


def limit_not_taken(run: RunView) -> Any:
    return attention_parts.normalise(np.exp(_products(run)))


def softmax_for_limit_0(run: RunView) -> Any:
    return attention_parts.normalise(np.exp(_products(run)))


def softmax_for_limit_infinity(run: RunView) -> Any:
    return attention_parts.normalise(np.exp(_products(run)))


def scaled_softmax_for_limit(run: RunView) -> Any:
    return attention_parts.normalise(np.exp(_products(run) / np.sqrt(run.query.shape[-1])))


def infinity_for_zero(run: RunView) -> Any:
    return _shared(_winners(run))


def zero_for_infinity(run: RunView) -> Any:
    return np.full_like(run.current, 1 / run.current.shape[-1])


def ties_not_divided(run: RunView) -> Any:
    return _winners(run)


def values_added_up(run: RunView) -> Any:
    return (run.weights > 0) @ run.value


def tie_to_the_last(run: RunView) -> Any:
    return _last_winner(_winners(run))


def tie_to_nobody(run: RunView) -> Any:
    return _winners(run) * (_winners(run).sum(-1, keepdims=True) == 1)


def smallest_for_largest_limit(run: RunView) -> Any:
    return attention_parts.hardmax(-_products(run), -1)


def smallest_in_limit_0(run: RunView) -> Any:
    return attention_parts.hardmax(-_products(run), -1)


def scores_over_their_sum(run: RunView) -> Any:
    return _shared(_products(run))


def scores_over_their_sum_in_limit_0(run: RunView) -> Any:
    return _shared(_products(run))


def scores_over_their_sum_in_limit_infinity(run: RunView) -> Any:
    return _shared(_products(run))


def scores_for_weights_in_limit_0(run: RunView) -> Any:
    return _products(run)


def values_averaged_over_coordinates(run: RunView) -> Any:
    return np.broadcast_to(run.value.mean(-1, keepdims=True), run.current.shape)


def median_of_values(run: RunView) -> Any:
    return _for_all(np.median(run.value, 0), run)


def largest_of_values(run: RunView) -> Any:
    return _for_all(run.value.max(0), run)


def longest_value_for_all(run: RunView) -> Any:
    return _for_all(run.value[np.linalg.norm(run.value, axis=1).argmax()], run)


def positive_scores_share(run: RunView) -> Any:
    return _shared(_products(run) > 0)


def positive_scores_share_limit_0(run: RunView) -> Any:
    return _shared(_products(run) > 0)


def positive_scores_share_limit_infinity(run: RunView) -> Any:
    return _shared(_products(run) > 0)


def positive_scores_get_1(run: RunView) -> Any:
    return (_products(run) > 0) * 1.0


def scores_not_zero_share(run: RunView) -> Any:
    return _shared(_products(run) != 0)


def winners_keep_their_score(run: RunView) -> Any:
    return _winners(run) * _products(run)


def nearest_key_wins(run: RunView) -> Any:
    return attention_parts.hardmax(-((run.query[:, None] - run.key[None]) ** 2).sum(-1), -1)


def largest_size_wins(run: RunView) -> Any:
    return attention_parts.hardmax(np.abs(_products(run)), -1)


def _last_winner(winners: Any) -> Any:
    columns = winners.shape[-1]
    return np.eye(columns)[columns - 1 - winners[:, ::-1].argmax(-1)]


# --- a key that moves -------------------------------------------------------------------------------


def _before(run: RunView, factor: float) -> Any:
    """The weights before the move, of Q K^T times a factor."""
    return attention_parts.normalise(np.exp(factor * (run.query @ run.key.T)))


def _scores_with(run: RunView, moved: Any) -> Any:
    """The scores of the queries with these changes of the keys."""
    return attention_parts.scale(run) * (run.query @ (run.key + moved).T)


def _is_moved(run: RunView) -> Any:
    """Which keys are moved."""
    return np.any(run.delta != 0, axis=-1)


def _keys_averaged(run: RunView) -> Any:
    """The keys in place of the values: as they are before, and moved after."""
    if run.path == "before/output":
        return run.recorded["before/weights"] @ run.key
    return run.recorded["after/weights"] @ (run.key + run.delta) - run.recorded["before/output"]


def _change_of(run: RunView, before: Any, after: Any) -> Any:
    """The change with other rows for the values, where the output before was right."""
    weights, output = run.recorded["before/weights"], run.recorded["before/output"]
    if not np.allclose(output, weights @ run.value, atol=2e-3):
        return None
    return run.recorded["after/weights"] @ after - weights @ before


def beta_left_out_before(run: RunView) -> Any:
    return _before(run, 1.0)


def beta_for_temperature_before(run: RunView) -> Any:
    return _before(run, 1 / attention_parts.scale(run))


def beta_twice_before(run: RunView) -> Any:
    return _before(run, attention_parts.scale(run) ** 2)


def moved_already_before(run: RunView) -> Any:
    return attention_parts.normalise(np.exp(_scores_with(run, run.delta)))


def every_key_moved(run: RunView) -> Any:
    return _scores_with(run, run.delta.sum(0))


def keys_for_values_throughout(run: RunView) -> Any:
    return _keys_averaged(run)


def keys_for_values_in_the_change(run: RunView) -> Any:
    return _change_of(run, run.key, run.key)


def moved_keys_for_values_in_the_change(run: RunView) -> Any:
    return _change_of(run, run.key, run.key + run.delta)


def only_the_moved_weight(run: RunView) -> Any:
    return np.where(_is_moved(run), run.current, run.recorded["before/weights"])


def weights_before_again(run: RunView) -> Any:
    return run.recorded["before/weights"]


def sum_of_the_move_added(run: RunView) -> Any:
    return run.recorded["before/scores"] + run.delta.sum(-1)


def scores_added_to_weights(run: RunView) -> Any:
    return run.recorded["before/weights"] + run.recorded["after/scores"] - run.recorded["before/scores"]


def change_of_all_tokens_averaged(run: RunView) -> Any:
    return np.broadcast_to(run.current.mean(0, keepdims=True), run.current.shape)


def difference_of_weights_given(run: RunView) -> Any:
    return run.recorded["after/weights"] - run.recorded["before/weights"]


# --- copying ----------------------------------------------------------------------------------------


def _counts(run: RunView) -> Any:
    """How many of the orthogonal vectors each token is the sum of."""
    return (run.tokens != 0).sum(-1, keepdims=True).astype(float)


def _lengths(rows: Any) -> Any:
    return np.sqrt((rows**2).sum(-1, keepdims=True))


def _errors(run: RunView) -> Any:
    return run.output - run.tokens


def vectors_counted(run: RunView) -> Any:
    return _counts(run)


def root_of_the_count(run: RunView) -> Any:
    return np.sqrt(_counts(run))


def norm_of_one_vector(run: RunView) -> Any:
    return np.full_like(run.current, run.norm)


def root_mean_square(run: RunView) -> Any:
    return np.sqrt((run.tokens**2).mean(-1, keepdims=True))


def cosines_for_scores(run: RunView) -> Any:
    return attention_parts.quotient(run.current, _lengths(run.tokens) * _lengths(run.tokens).T)


def common_vectors_counted(run: RunView) -> Any:
    return (run.tokens != 0) @ (run.tokens != 0).T.astype(float)


def error_of_the_token_itself(run: RunView) -> Any:
    return attention_parts.quotient(_lengths(_errors(run)), _lengths(run.tokens))


def absolute_differences_added(run: RunView) -> Any:
    return np.abs(_errors(run)).sum(-1, keepdims=True) / run.norm


def differences_of_norms(run: RunView) -> Any:
    return np.abs(_lengths(run.output) - _lengths(run.tokens)) / run.norm


def error_squared(run: RunView) -> Any:
    return _lengths(_errors(run)) ** 2 / run.norm**2


def error_of_the_token_itself_or_1(run: RunView) -> Any:
    return _lengths(_errors(run)) / np.where(_lengths(run.tokens) == 0, 1, _lengths(run.tokens))


def differences_added(run: RunView) -> Any:
    return _errors(run).sum(-1, keepdims=True) / run.norm


def weight_of_others(run: RunView) -> Any:
    return 1 - np.diagonal(run.weights)[:, None]


def error_of_the_output(run: RunView) -> Any:
    return attention_parts.quotient(_lengths(_errors(run)), _lengths(run.output))


def mean_absolute_error(run: RunView) -> Any:
    return np.abs(_errors(run)).mean(-1, keepdims=True) / run.norm


def own_token_not_added(run: RunView) -> Any:
    return run.weights * (1 - np.eye(len(run.weights))) @ run.tokens
