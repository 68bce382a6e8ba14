"""The race of benchmarks.time_to_accuracy: in turn, each with its own clock, stopped when it should be."""

from __future__ import annotations

from types import SimpleNamespace

from benchmarks.time_to_accuracy import Contender, race, summary


class Rehearsed(Contender):
    """One that needs so many seconds per epoch and reaches these accuracies."""

    def __init__(self, who, seconds, accuracies, order):
        super().__init__(who, SimpleNamespace(run=SimpleNamespace(epochs=len(accuracies))), None)
        self.each, self.accuracies, self.order = seconds, accuracies, order

    def epochs(self):
        for accuracy in self.accuracies:
            self.accuracy = accuracy
            self.seconds += self.each
            self.order.append(self.who)
            self.rows.append((self.who,))
            yield


def test_the_contenders_train_in_turn_and_are_stopped():
    order = []
    contenders = [
        Rehearsed("ours", 10.0, [0.5, 0.9, 1.0], order),
        Rehearsed("late", 10.0, [0.1, 0.2, 0.3, 0.95, 1.0], order),
        Rehearsed("never", 20.0, [0.1] * 99, order),
        Rehearsed("short", 5.0, [0.1, 0.2], order),
    ]
    race(contenders, 0.9, 5.0)
    assert order[:8] == ["ours", "late", "never", "short"] * 2
    # Ours took 20 s, so the others may have 100: "never" has five epochs of 20 s.
    assert [order.count(one.who) for one in contenders] == [2, 4, 5, 2]
    assert [row[1:5] for row in summary(contenders, 0.9)] == [
        ("90% after 20 s", "2 of 3", "90.00%", "1.0"),
        ("90% after 40 s", "4 of 5", "95.00%", "2.0"),
        ("stopped after 1:40", "5 of 99", "10.00%", "over 5.0"),
        ("not by the end, 10 s", "2 of 2", "20.00%", "never"),
    ]
