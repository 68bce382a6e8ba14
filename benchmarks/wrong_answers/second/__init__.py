"""A second set of mistakes, written from the questions alone after the first had been looked at."""

from dataclasses import replace

from benchmarks.wrong_answers import KINDS as FIRST
from benchmarks.wrong_answers.second import attention, counts, layers, other_attention

MISTAKES = {**attention.MISTAKES, **other_attention.MISTAKES, **layers.MISTAKES, **counts.MISTAKES}
KINDS = {
    name: replace(FIRST[name], mistakes=mistakes, slips="", copied="", misread="")
    for name, mistakes in MISTAKES.items()
}
