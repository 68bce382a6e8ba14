"""Texts: a file of one's own, every kind of model, resumed, asked; a pretrained encoder fine-tuned."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headwork import training
from headwork.errors import InputError
from headwork.inspection.predictions import predict
from headwork.inspection.run_report import evaluate_run, write_report
from headwork.training import loop
from headwork.training.progress import quiet

SMALL = [
    "model.width=8",
    "model.hidden=8",
    "model.depth=1",
    "model.heads=2",
    "model.vocabulary=300",
    "max_length=12",
    "model.ngrams=500",
    "batch_size=16",
    "epochs=4",
    "learning_rate=0.02",
    "save_every=5",
]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Sentences with a good or a bad word in them."""
    draw = random.Random(0)
    lines = ["review,stars"]
    for _ in range(150):
        label = draw.choice(["one", "five"])
        word = draw.choice(["awful", "dull", "weak"] if label == "one" else ["lovely", "great", "fine"])
        filling = [
            draw.choice(["the", "film", "was", "a", "story", "plot"]) for _ in range(draw.randrange(2, 9))
        ]
        filling.insert(draw.randrange(len(filling) + 1), word)
        lines.append(f'"{" ".join(filling)}",{label}')
    path = tmp_path_factory.mktemp("texts") / "reviews.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def recipe(path, model="transformer", *settings):
    run = training.text(str(path), model, columns=("review", "stars"))
    return training.changed(run, [*SMALL, *settings])


@pytest.fixture(scope="module")
def trained(reviews, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "reviews"
    training.train(recipe(reviews), folder, log=quiet)
    return folder


def test_a_file_of_one_s_own(trained):
    result = training.Result.read(trained)
    assert result.test_accuracy > 0.8
    facts = training.load_data_info(trained)
    assert facts.classes == ("five", "one")
    assert training.load_run_config(trained).model.max_length == 12
    table = predict(trained, texts=["a great film", "the plot was awful"])
    assert [row[1] for row in table.rows] == ["five", "one"]
    assert sum(table.extra_data["probabilities"][0].values()) == pytest.approx(1)
    evaluation, _, told = evaluate_run(trained, log=quiet)
    assert told == "test of reviews"
    assert evaluation.accuracy == pytest.approx(result.test_accuracy)
    assert evaluation.confusion == result.record["confusion"]


def test_other_texts_are_measured_whole_unless_they_come_with_a_test_part(trained, reviews, tmp_path):
    rows = ["a great film,five", "an awful plot,one", "the fine story was great,five"] * 20
    (tmp_path / "rev2.csv").write_text("\n".join(["words,verdict", *rows]) + "\n")
    found, _, told = evaluate_run(
        trained, data=str(tmp_path / "rev2.csv"), columns=("words", "verdict"), log=quiet
    )
    assert told == "all 60 of rev2"
    assert [sum(row) for row in found.confusion] == [40, 20]
    chosen, _, told = evaluate_run(
        trained, data=str(tmp_path / "rev2.csv"), columns=("words", "verdict"), part="test", log=quiet
    )
    assert (len(chosen.labels), told) == (6, "test of rev2")
    parted = tmp_path / "parted"
    parted.mkdir()
    for part, count in (("train", 60), ("test", 9)):
        (parted / f"{part}.csv").write_text("\n".join(["review,stars", *rows[:count]]) + "\n")
    found, _, told = evaluate_run(trained, data=str(parted), log=quiet)
    assert (len(found.labels), told) == (9, "test of parted"), "the columns are the run's own unless named"
    with pytest.raises(InputError, match=r"unknown column of .*rev2\.csv 'review'"):
        evaluate_run(trained, data=str(tmp_path / "rev2.csv"), log=quiet)
    with pytest.raises(InputError, match="--columns needs --data FILE"):
        evaluate_run(trained, columns=("words", "verdict"), log=quiet)
    own, _, told = evaluate_run(trained, data=str(reviews), log=quiet)
    assert (len(own.labels), told) == (15, "test of reviews"), "what the run was trained on is not measured"


def test_a_text_is_shown_without_its_control_characters(trained):
    row = predict(trained, texts=["a \x1b[31mgreat\nfilm " + "indeed " * 20]).rows[0]
    assert row[0].startswith("a ·[31mgreat film indeed")
    assert len(row[0]) == 60


def test_mistakes_are_sentences(reviews, tmp_path):
    result = training.train(
        recipe(reviews, "transformer", "epochs=1", "learning_rate=1e-9"), tmp_path / "run", log=quiet
    )
    wrong = result.record["mistakes"]
    assert wrong
    assert all(m["text"] and m["label"] != m["said"] for m in wrong)
    assert [m["probability"] for m in wrong] == sorted((m["probability"] for m in wrong), reverse=True)
    assert wrong[0]["text"] in write_report(result.folder).read_text()


@pytest.mark.parametrize("model", ["cnn", "lstm", "gru", "rnn"])
def test_every_text_model_trains(model, reviews, tmp_path):
    result = training.train(recipe(reviews, model), tmp_path / "run", log=quiet)
    losses = [line["training"]["loss"] for line in result.metrics if line.get("ended")]
    assert losses[-1] < losses[0]


def test_resumed_to_the_bit_with_the_tokenizer_it_began_with(reviews, trained, tmp_path, monkeypatch):
    before = loop.Trainer.step

    def step(self, chosen, at):
        if at == 12:
            raise KeyboardInterrupt
        return before(self, chosen, at)

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "step", step)
        with pytest.raises(KeyboardInterrupt):
            training.train(recipe(reviews), folder, log=quiet)
    lines = []
    training.resume(folder, log=lines.append)
    assert not any("training a tokenizer" in line for line in lines)
    parameters = [(place / "model" / "model.safetensors").read_bytes() for place in (folder, trained)]
    assert parameters[0] == parameters[1]


def test_a_tokenizer_that_changed_is_refused(reviews, tmp_path, monkeypatch):
    before = loop.Trainer.step

    def step(self, chosen, at):
        if at == 6:
            raise KeyboardInterrupt
        return before(self, chosen, at)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "step", step)
        with pytest.raises(KeyboardInterrupt):
            training.train(recipe(reviews), tmp_path / "run", log=quiet)
    path = tmp_path / "run" / "tokenizer.json"
    path.write_text(path.read_text().replace('"[CLS]"', '"[CLZ]"'))
    with pytest.raises(InputError, match=r"tokenizer\.json: damaged or changed|not a tokenizer"):
        training.resume(tmp_path / "run", log=quiet)


def test_wrong_questions_are_answered_clearly(trained, finished):
    with pytest.raises(InputError, match="trained on texts: give --text"):
        predict(trained, images=["a.png"])
    with pytest.raises(InputError, match="trained on images: give --image"):
        predict(finished, texts=["good"])
    with pytest.raises(InputError, match="no input given"):
        predict(trained)
    with pytest.raises(InputError, match="an empty text"):
        predict(trained, texts=[" "])
    with pytest.raises(InputError, match="no such run"):
        predict("nowhere", texts=["good"])


def test_a_pretrained_encoder_is_fine_tuned(reviews, tmp_path):
    from headwork.data import load_texts, train_tokenizer
    from headwork.models import TextEncoder, TextEncoderConfig
    from headwork.models.pretrained import to_transformers

    tokenizer = train_tokenizer(load_texts(reviews, columns=("review", "stars")).train.texts, vocabulary=300)
    encoder = TextEncoder(
        TextEncoderConfig(
            vocabulary=tokenizer.vocabulary_size,
            max_length=16,
            width=8,
            hidden=8,
            heads=2,
            depth=1,
            dropout=0.1,
            normalisation="post",
            embedding_normalisation=True,
            token_types=2,
            epsilon=1e-12,
        )
    )
    encoder.tokenizer = tokenizer.inner
    to_transformers(encoder, tmp_path / "encoder")
    run = training.text(str(reviews), encoder=str(tmp_path / "encoder"), columns=("review", "stars"))
    run = training.changed(
        run, ["max_length=12", "batch_size=16", "epochs=1", "learning_rate=1e-9", "weight_decay=0.0"]
    )
    result = training.train(run, tmp_path / "run", log=quiet)
    model = training.load_model(result.folder)
    # At so low a rate the encoder is still what it was.
    for name, value in encoder.state_dict().items():
        assert (model.encoder.state_dict()[name] - value).abs().max() < 1e-5, name
    with pytest.raises(InputError, match="positions for 16 tokens only"):
        training.train(training.changed(run, ["max_length=17"]), tmp_path / "other", log=quiet)
    with pytest.raises(InputError, match="Did you mean 'minilm'"):
        training.train(replace(run, encoder="minilmm"), tmp_path / "other", log=quiet)
