"""Mistakes in sinusoidal positions: frequencies, angles, and which columns hold sines and cosines."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView


def _in_pairs(sines: Any, cosines: Any) -> Any:
    """Columns of sines and of cosines in turn."""
    return np.stack([sines, cosines], -1).reshape(len(sines), -1)


def _pairs(run: RunView) -> Any:
    """The numbers of the pairs: 0, 1, 2."""
    return np.arange(run.width // 2)


def _with_more(pairs: int, value: Any, run: RunView) -> Any:
    """A value, where there are at least so many pairs: with fewer it is another mistake, too."""
    return value if run.width // 2 >= pairs else None


def sine_and_cosine_swapped(run: RunView) -> Any:
    return _in_pairs(np.cos(run.angles), np.sin(run.angles))


def exponent_without_two(run: RunView) -> Any:
    return run.current**0.5


def column_for_pair(run: RunView) -> Any:
    return run.current**2


def frequencies_rising(run: RunView) -> Any:
    return 1 / run.current


def positions_from_one(run: RunView) -> Any:
    return {"places": run.places + 1}


def pairs_from_one(run: RunView) -> Any:
    return float(run.base) ** (-2 * (_pairs(run) + 1) / run.width)


def angles_in_degrees(run: RunView) -> Any:
    return np.degrees(run.current)


def places_counted_from_1(run: RunView) -> Any:
    return np.arange(1, len(run.places) + 1)[:, None] * run.frequencies


def cosines_first(run: RunView) -> Any:
    return np.hstack([np.cos(run.angles), np.sin(run.angles)])


def frequency_for_each_column(run: RunView) -> Any:
    return _in_pairs(np.sin(run.angles), np.cos(run.angles * float(run.base) ** (-1 / run.width)))


def base_10000(run: RunView) -> Any:
    return 10000.0 ** (-2 * _pairs(run) / run.width) if run.base != 10000 else None


def degrees_for_radians(run: RunView) -> Any:
    angles = np.deg2rad(run.angles)
    return _in_pairs(np.sin(angles), np.cos(angles))


def power_zero_as_zero(run: RunView) -> Any:
    return np.where(_pairs(run) == 0, 0, run.current)


def base_alone_after_the_first(run: RunView) -> Any:
    return _with_more(3, np.where(_pairs(run) == 0, 1, 1 / run.base), run)


def exponent_is_the_pair(run: RunView) -> Any:
    return _with_more(3, float(run.base) ** (-_pairs(run).astype(float)), run)


def one_exponent_after_the_first(run: RunView) -> Any:
    return _with_more(3, np.where(_pairs(run) == 0, 1, float(run.base) ** (-0.5)), run)


def divided_by_the_number_of_the_pair(run: RunView) -> Any:
    return 1 / (_pairs(run) + 1)


def wavelengths_for_frequencies(run: RunView) -> Any:
    return 2 * np.pi / run.current


def exponents_without_base(run: RunView) -> Any:
    return 2 * _pairs(run) / run.width


def frequencies_all_1(run: RunView) -> Any:
    return np.ones_like(run.current)


def sines_at_even_positions(run: RunView) -> Any:
    return np.where(
        run.places[:, None] % 2 == 0, np.repeat(np.sin(run.angles), 2, 1), np.repeat(np.cos(run.angles), 2, 1)
    )


def sines_in_even_pairs(run: RunView) -> Any:
    return np.repeat(np.where(_pairs(run) % 2 == 0, np.sin(run.angles), np.cos(run.angles)), 2, 1)


def cosine_of_zero_as_zero(run: RunView) -> Any:
    return _in_pairs(np.sin(run.angles), np.where(run.angles == 0, 0, np.cos(run.angles)))


def frequencies_not_used(run: RunView) -> Any:
    return _in_pairs(*(f(run.places[:, None] + 0 * run.angles) for f in (np.sin, np.cos)))


def only_the_first_position(run: RunView) -> Any:
    return np.tile(run.current[:1], (len(run.current), 1))


def width_less_two(run: RunView) -> Any:
    return _with_more(3, float(run.base) ** (-2 * _pairs(run) / (run.width - 2)), run)


def frequencies_halved_each_time(run: RunView) -> Any:
    return 0.5 ** _pairs(run)


def angles_times_pi(run: RunView) -> Any:
    return np.pi * run.current


def angles_times_pair(run: RunView) -> Any:
    return run.current * _pairs(run)


def angles_to_degrees_in_the_sine(run: RunView) -> Any:
    return _in_pairs(np.sin(np.degrees(run.angles)), np.cos(np.degrees(run.angles)))


def angles_times_two_pi(run: RunView) -> Any:
    return _in_pairs(np.sin(2 * np.pi * run.angles), np.cos(2 * np.pi * run.angles))


def one_less_the_sine(run: RunView) -> Any:
    return _in_pairs(np.sin(run.angles), 1 - np.sin(run.angles))


def positions_added_to_the_encoding(run: RunView) -> Any:
    return run.current + run.places[:, None]
