"""Group F: training on real data; pointers to the commands that do it."""

from __future__ import annotations

from headwork.problems.book import Worked, problem


@problem(
    "F1",
    "A vision transformer on Fashion-MNIST",
    "Patch 4 x 4, 6 layers, 4 heads: accuracy and loss over 10, 30 and 50 epochs.",
)
def f1(worked: Worked) -> None:
    worked.say("Training comes as `headwork train vision`; it is not part of this version yet.")
    worked.answer = "to come: headwork train vision"


@problem("F2", "Sentiment of reviews", "Classify reviews with a transformer from scratch, and on a pretrained encoder.")
def f2(worked: Worked) -> None:
    worked.say("Training comes as `headwork train text`; it is not part of this version yet.")
    worked.answer = "to come: headwork train text"
