"""Augmentation against plain loops, and drawn from (seed, step) alone."""

from __future__ import annotations

import numpy as np
import torch

from headwork.training.examples import draw_augmentation, erase, flip_and_shift
from headwork.training.recipes import Augmentation
from headwork.training.seeds import derive_seed, generator


def test_flips_and_shifts_are_what_a_loop_does():
    images = torch.randint(1, 256, (40, 3, 7, 6), dtype=torch.uint8)
    chosen = Augmentation(flip=True, shift=2)
    draws = draw_augmentation(chosen, 40, generator(0, 5))
    result = flip_and_shift(images, draws, chosen).numpy()
    for number, image in enumerate(images.numpy()):
        if draws["flip"][number]:
            image = image[:, :, ::-1]
        down, right = draws["shift"][number].tolist()
        expected = np.zeros_like(image)
        for row in range(7):
            for column in range(6):
                if 0 <= row - down < 7 and 0 <= column - right < 6:
                    expected[:, row, column] = image[:, row - down, column - right]
        assert (result[number] == expected).all()
    assert 0 < draws["flip"].sum() < 40
    assert set(draws["shift"].flatten().tolist()) == {-2, -1, 0, 1, 2}


def test_one_rectangle_of_some_images_is_erased():
    images = torch.ones(200, 1, 28, 28)
    chosen = Augmentation(erase=0.5)
    draws = draw_augmentation(chosen, 200, generator(1, 1))
    result = erase(images, draws, chosen)
    assert (images == 1).all()
    for number in range(200):
        gone = (result[number, 0] == 0).numpy()
        assert gone.any() == bool(draws["erase"][number])
        if gone.any():
            rows, columns = gone.any(1), gone.any(0)
            assert (gone == np.outer(rows, columns)).all()
            assert max(rows.sum(), columns.sum()) <= 12
            assert np.diff(np.flatnonzero(rows)).max(initial=1) == 1


def test_draws_depend_on_seed_and_step_only():
    chosen = Augmentation()
    first, again = (draw_augmentation(chosen, 9, generator(3, 0, 7)) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    other = draw_augmentation(chosen, 9, generator(3, 0, 8))
    assert not torch.equal(first["rectangle"], other["rectangle"])


def test_mixed_seeds_do_not_meet():
    found = {derive_seed(a, b, c) for a in range(12) for b in range(12) for c in range(12)}
    assert len(found) == 12**3
    assert all(0 <= seed < 2**63 for seed in found)


def test_a_part_of_a_batch_is_drawn_like_the_whole(digits, small):
    from headwork.training.preparation import prepare
    from headwork.training.progress import quiet

    training = prepare(small("augmentation.erase=0.5"), log=quiet, data=digits).training
    chosen = np.arange(50)
    (whole,), labels = training.batch(chosen, augmentation_seed=(0, 3))
    for rank in range(3):
        (part,), some = training.batch(chosen, part=slice(rank, None, 3), augmentation_seed=(0, 3))
        assert torch.equal(part, whole[rank::3])
        assert torch.equal(some, labels[rank::3])
    (plain,), _ = training.batch(chosen)
    assert not torch.equal(plain, whole)
    torch.testing.assert_close(plain, digits.normalise(torch.from_numpy(digits.train.images[:50])))
