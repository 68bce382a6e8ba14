"""Random numbers that a few whole numbers decide: (purpose, seed, step) and nothing else.

So a run keeps no random state, and a resumed run draws what the uninterrupted one draws.
"""

import torch

# Purposes: the same seed draws differently for each.
AUGMENTATION_STREAM, INITIALISATION_STREAM, DROPOUT_STREAM = 3, 4, 5


def generator(*seeds: int) -> torch.Generator:
    """A generator that the seeds decide.

    >>> torch.rand(1, generator=generator(0, 7)).item() == torch.rand(1, generator=generator(0, 7)).item()
    True
    """
    return torch.Generator().manual_seed(derive_seed(*seeds))


def derive_seed(*seeds: int) -> int:
    """One seed from several; neighbours such as (0, 1) and (1, 0) give different ones.

    >>> derive_seed(0, 1) != derive_seed(1, 0)
    True
    """
    state = 0x9E3779B97F4A7C15
    for seed in seeds:
        # The mixing step of SplitMix64 (Steele, Lea and Flood 2014).
        state = (state + seed * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) % 2**64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        state ^= state >> 31
    return state % 2**63
