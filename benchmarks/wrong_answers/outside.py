"""``python -m benchmarks.wrong_answers.outside``: what is said of the answers that outside examiners wrote.

They saw the questions alone and worked out every number themselves. ``judged`` answers were kept from
everybody who changed the causes; ``seen`` ones had been looked at. Whether a cause says what was done is for
a reader to judge: each mistake is printed with the causes beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.wrong_answers.making import FOLDER
from headwork.exercises import generate
from headwork.grading import Mark, grade

DATA = FOLDER / "outside_answers.jsonl"
# Accepted by rules that hold for all: 1.5 for 1.4011 is off by one in its last digit; heads after tokens;
# beta written with the weights, not the scores; all sines before all cosines. With it the step that counts.
ACCEPTED: dict[str, str | None] = dict.fromkeys(
    ("a-113", "b-075", "f-012", "f-202", "g-265", "h-111", "h-222", "i-109")
)
ACCEPTED |= {"h-116": "weights", "j-210": "per head"}


def read(path: Path = DATA) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def graded(row: dict[str, Any]) -> Mark:
    kind, seed, difficulty = row["exercise"]
    return grade(generate(kind, seed=seed, difficulty=difficulty), row["steps"])


def holds(row: dict[str, Any], mark: Mark) -> bool:
    """Full marks for a right answer; of a wrong one the first wrong step is the examiner's."""
    first = ACCEPTED.get(row["id"], next(iter(row["wrong"]), None))
    if row["group"] == "right" or first is None:
        return mark.points == mark.max_points
    return mark.first_wrong is not None and mark.first_wrong.path == first


def charged_once(mark: Mark) -> bool:
    return mark.max_points - mark.points <= max(step.max_points for step in mark.steps)


def main() -> int:
    counts, seconds = Counter[tuple[str, str, bool]](), []
    for row in read():
        started = time.process_time()
        mark = graded(row)
        seconds.append(time.process_time() - started)
        counts[row["set"], "right" if row["group"] == "right" else "first step", holds(row, mark)] += 1
        if row["group"] == "each time":
            counts[row["set"], "charged once", charged_once(mark)] += 1
        for mistake in row["mistakes"]:
            causes = [cause.sentence for cause in mark.step(mistake["step"]).causes]
            print(
                f"{row['id']} {row['group']} {mistake['step']}: {mistake['what']}\n    = {' | '.join(causes)}"
            )
    for name, what in sorted({(name, what) for name, what, _ in counts}):
        held = counts[name, what, True]
        print(f"{name}: {what} {held} of {held + counts[name, what, False]}")
    print(f"time per answer: median {median(seconds):.3f} s, worst {max(seconds):.3f} s (processor time)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
