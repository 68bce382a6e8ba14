"""The list of mechanisms, in the terminal and in the docs, is made from the cards."""

from pathlib import Path

from headwork.note import MECHANISMS
from headwork.readings.listing import mechanism_list, mechanism_table


def test_the_docs_are_what_the_cards_say():
    docs = Path(__file__).parents[2] / "docs" / "mechanisms.md"
    # Made anew by: python -m headwork.readings.listing > docs/mechanisms.md
    assert docs.read_text().rstrip() == mechanism_table().rstrip()


def test_every_mechanism_is_listed_with_its_steps():
    listed = mechanism_list().to_text()
    for slug, what in MECHANISMS.items():
        assert f"\n  {slug} " in listed
        assert all(step.name in listed for step in what.steps)


def test_no_formula_keeps_its_latex():
    assert "\\" not in "".join(
        line.split("|")[3] for line in mechanism_table().splitlines() if line.count("|") == 5
    )
