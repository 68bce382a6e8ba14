"""Where the table of n-grams starts, and what a text model is compared with."""

from __future__ import annotations

import builtins
import math

import numpy as np
import pytest
import torch

from headwork import training
from headwork.data import Texts, TextSplit
from headwork.inspection.run_report import write_report
from headwork.models import TextClassifier, TextClassifierConfig
from headwork.models.text import hashed_ngram_rows
from headwork.training.evaluation import baseline
from headwork.training.examples import TextExamples
from headwork.training.initialisation import set_log_ratios
from headwork.training.preparation import prepare
from headwork.training.progress import quiet

GOOD, BAD = (
    ["a fine film", "fine fine acting", "a good fine plot"],
    ["a dull film", "dull dull plot", "a weak film"],
)


def films(count=20):
    texts = (GOOD + BAD) * count
    split = TextSplit(texts, np.array([1, 1, 1, 0, 0, 0] * count))
    return Texts("films", ("no", "yes"), split, split, lambda: split)


def test_ratios_by_hand():
    from headwork.data import train_tokenizer

    data = films(1)
    tokenizer = train_tokenizer(data.train.texts, vocabulary=300, max_length=10)
    examples = TextExamples(tokenizer.encode(data.train))
    model = TextClassifier(
        TextClassifierConfig(
            vocabulary=tokenizer.vocabulary_size,
            max_length=10,
            width=4,
            hidden=4,
            heads=1,
            depth=1,
            ngrams=99991,
        )
    )
    set_log_ratios(model, examples)
    tokens = torch.from_numpy(tokenizer.encode(["fine film"]).ids.astype(np.int64))[None]
    word, pair, _ = hashed_ngram_rows(tokens, None, model.config).unbind(-1)
    ratio = {
        name: model.ngrams.ratios[row].tolist()
        for name, row in (("fine", word[0, 1]), ("film", word[0, 2]), ("fine film", pair[0, 2]))
    }
    # Texts of three and three; "fine" stands in all the good ones and in no other, twice in one of them.
    assert ratio["fine"] == pytest.approx([-math.log(4), math.log(4)])
    assert ratio["film"] == pytest.approx([math.log(3 / 2), -math.log(3 / 2)])
    assert ratio["fine film"] == pytest.approx([-math.log(2), math.log(2)])
    unseen = hashed_ngram_rows(torch.tensor([[9, 9, 9]]), None, model.config)[0, 2, 1]
    assert model.ngrams.ratios[unseen].tolist() == [0, 0]


def recipe(*settings):
    return training.changed(
        training.text("films"),
        [
            "model.width=8",
            "model.hidden=8",
            "model.depth=1",
            "model.heads=2",
            "model.vocabulary=300",
            "max_length=8",
            "batch_size=16",
            "epochs=2",
            "model.ngrams=1000",
            *settings,
        ],
    )


def test_a_run_starts_with_them_and_keeps_them(tmp_path):
    run = recipe()
    start = prepare(run, log=quiet, data=films()).new_model()
    assert start.ngrams.ratios.abs().max() > 1
    result = training.train(run, tmp_path / "run", log=quiet, data=films())
    model = training.load_model(result.folder)
    assert torch.equal(model.ngrams.ratios, start.ngrams.ratios)
    assert not torch.equal(model.ngrams.table, start.ngrams.table)
    assert result.test_accuracy == 1


@pytest.mark.soak
def test_onnx_hashes_alike(tmp_path):
    from headwork.training.export import export_onnx

    model = prepare(recipe(), log=quiet, data=films()).new_model()
    torch.nn.init.normal_(model.ngrams.table)
    assert export_onnx(model.eval(), tmp_path / "model.onnx") < 1e-4


def test_the_baseline_is_printed_and_kept(tmp_path):
    lines = []
    result = training.train(recipe("epochs=1"), tmp_path / "run", log=lines.append, data=films())
    assert result.record["baseline"]["accuracy"] == 1
    assert any("TF-IDF" in line and "100.00%" in line for line in lines)
    assert "TF-IDF" in write_report(result).read_text()


def test_where_there_is_no_baseline_a_word_says_why(monkeypatch):
    lines = []
    unlike = TextSplit(["one", "two", "three", "four"], np.array([0, 1, 0, 1]))
    assert baseline(Texts("words", ("a", "b"), unlike, unlike, lambda: unlike), lines.append) is None
    assert "no word occurs in two texts" in lines[-1]
    before = builtins.__import__

    def without(name, *rest):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return before(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert baseline(films(), lines.append) is None
    assert "scikit-learn is not installed" in lines[-1]
    monkeypatch.setattr("headwork.training.evaluation.MAX_TEXTS", 3)
    assert baseline(films(), lines.append) is None
    assert "more than 3 texts" in lines[-1]
