"""Group F: training on real data; the commands that do it."""

from headwork.problems.book import Solution, problem


@problem("A vision transformer on Fashion-MNIST")
def f1(solution: Solution) -> None:
    """Patch 4 x 4, 6 layers, 4 heads: accuracy and loss over 10, 30 and 50 epochs."""
    solution.say("""headwork train vision --epochs 10 --out runs/v10, then 30 and 50 epochs, then headwork
    curves runs/v10 runs/v30 runs/v50: one recipe, only the number of epochs differs. headwork run trains a
    small model on the embedded digits.""")


@problem("Sentiment of reviews")
def f2(solution: Solution) -> None:
    """Classify reviews with a transformer from scratch, and on a pretrained encoder."""
    solution.say("""headwork train text --data imdb trains from scratch; headwork train text --data
    rotten-tomatoes --encoder minilm trains on a pretrained encoder.""")
