"""The list of mechanisms, in the terminal and in the docs, is made from the cards."""

from pathlib import Path

from benchmarks.mechanisms import page
from headwork.note import MECHANISMS
from headwork.readings.explaining import mechanism_list


def test_the_docs_are_what_the_cards_say():
    docs = Path(__file__).parents[2] / "docs" / "mechanisms.md"
    # Made anew by: python -m benchmarks.mechanisms > docs/mechanisms.md
    assert docs.read_text().rstrip() == page().rstrip()


def test_every_mechanism_is_listed_with_its_steps():
    listed = mechanism_list().to_text()
    for slug, what in MECHANISMS.items():
        assert f"\n  {slug} " in listed
        assert all(step.name in listed for step in what.steps)


def test_no_formula_keeps_its_latex():
    assert "\\" not in "".join(line.split("|")[3] for line in page().splitlines() if line.count("|") == 5)
