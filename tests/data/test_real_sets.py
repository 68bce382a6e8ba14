"""The real data sets, from the cache: their sizes, balance and published figures."""

from __future__ import annotations

import numpy as np
import pytest

from headwork.data import load


@pytest.mark.real("fashion-mnist")
def test_fashion_mnist() -> None:
    data = load("fashion-mnist")
    images = np.concatenate([data.train.images, data.validation.images])
    assert len(images) == 60_000
    assert images.mean() / 255 == pytest.approx(0.2860, abs=5e-5)
    assert images.std() / 255 == pytest.approx(0.3530, abs=5e-5)
    test = data.test
    assert np.bincount(test.labels).tolist() == [1000] * 10


@pytest.mark.real("imdb")
def test_imdb() -> None:
    data = load("imdb")
    labels = np.concatenate([data.train.labels, data.validation.labels])
    assert np.bincount(labels).tolist() == [12_500, 12_500]
    test = data.test
    assert np.bincount(test.labels).tolist() == [12_500, 12_500]
    assert not set(test.texts[:100]) & set(data.train.texts)


@pytest.mark.real("rotten-tomatoes")
def test_rotten_tomatoes() -> None:
    data = load("rotten-tomatoes")
    sizes = [len(part.texts) for part in (data.train, data.validation, data.test)]
    assert sum(sizes) == 8_530
    assert np.bincount(data.test.labels).tolist() == [427, 427]  # a tenth of each class
