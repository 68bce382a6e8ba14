"""Group F: training on real data; pointers to the commands that do it."""

from __future__ import annotations

from headwork.problems.book import Worked, problem


@problem(
    "F1",
    "A vision transformer on Fashion-MNIST",
    "Patch 4 x 4, 6 layers, 4 heads: accuracy and loss over 10, 30 and 50 epochs.",
)
def f1(worked: Worked) -> None:
    worked.say("""headwork train vision --epochs 10 --out runs/v10, then 30 and 50 epochs, then headwork curves runs/v10 runs/v30 runs/v50:
    one recipe, only the number of epochs differs. headwork run trains a small one on the embedded digits.""")
    worked.answer = "headwork train vision; headwork curves"


@problem(
    "F2",
    "Sentiment of reviews",
    "Classify reviews with a transformer from scratch, and on a pretrained encoder.",
)
def f2(worked: Worked) -> None:
    worked.say("""headwork train text --data imdb from scratch; headwork train text --data rotten-tomatoes --encoder minilm on a pretrained
    encoder.""")
    worked.answer = "headwork train text, with --encoder minilm"
