"""Reports on a finished run: curves, page, notebook, predictions, export, the estimator, the main job."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from headwork import training
from headwork.errors import InputError
from headwork.inspection import figures, run_report
from headwork.inspection.estimator import Classifier
from headwork.inspection.predictions import predict
from headwork.inspection.run_comparison import compare_curves, compare_results
from headwork.inspection.run_report import evaluate_run
from headwork.training import export
from headwork.training.progress import quiet


def test_the_page_is_whole_and_offline(finished):
    page = (finished / "report.html").read_text()
    for word in (
        "test accuracy",
        "confusion matrix",
        "The most confident mistakes",
        "used once, at the end",
        "model.width",
        "shifted",
    ):
        assert word in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert run_report.write_report(finished, finished.parent / "again.html").read_text() == page


def test_the_caption_says_why_training_lies_below_validation():
    run = training.changed(training.vision(), ["augmentation.erase=0.1"])
    assert "flipped and shifted and partly erased" in figures.curves_caption(run)
    assert "below validation's" in figures.curves_caption(run)
    plain = training.changed(run, ["augmentation.flip=no", "augmentation.shift=0", "augmentation.erase=0"])
    assert "below validation's" not in figures.curves_caption(plain)
    assert "10% of the values and 50% of the tokens are dropped" in figures.curves_caption(training.text())


def test_the_curves_are_the_metrics(finished):
    metrics = training.load_metrics(finished)
    picture = figures.curves({"run": metrics})
    loss, accuracy = picture.axes
    ended = [line for line in metrics if line.get("ended")]
    assert loss.lines[0].get_ydata().tolist() == [line["training"]["loss"] for line in ended]
    assert accuracy.lines[1].get_ydata().tolist() == [100 * line["validation"]["accuracy"] for line in ended]
    assert loss.lines[0].get_xdata().tolist() == [1, 2]
    assert loss.lines[0].get_label() == f"training: {ended[-1]['training']['loss']:.4g} at the end"
    assert all(tick == int(tick) for axes in picture.axes for tick in axes.get_xticks())


def test_names_that_matplotlib_would_read_otherwise(finished):
    metrics = training.load_metrics(finished)
    picture = figures.curves({"a$x^{$": metrics, "_hidden": metrics}, "b$x^{$")
    assert len(picture.axes[0].get_legend().get_texts()) == 2
    picture.draw_without_rendering()


def legend_of(runs, monkeypatch):
    """The legend of the validation accuracy, as compare_curves draws it."""
    drawn = []
    monkeypatch.setattr(
        "headwork.inspection.run_comparison.save_figure", lambda picture, out: drawn.append(picture)
    )
    compare_curves(runs, "nowhere.svg")
    monkeypatch.undo()
    assert [axes.get_ylabel() for axes in drawn[0].axes][3] == "validation accuracy in %"
    return [text.get_text() for text in drawn[0].axes[3].get_legend().get_texts()]


def test_several_runs_on_one_picture(finished, tmp_path, monkeypatch):
    other = tmp_path / "other"
    shutil.copytree(finished, other)
    (other / "result.json").unlink()
    written = compare_curves([finished, other], tmp_path / "both.svg")
    assert written.read_text().startswith("<?xml")
    legend = legend_of([finished, other], monkeypatch)
    assert [entry.partition(":")[0] for entry in legend] == ["finished", "other"]
    shutil.rmtree(other / "checkpoints")  # which would tell that the config was changed
    changed = json.loads((other / "config.json").read_text()) | {"epochs": 7, "learning_rate": 0.5}
    (other / "config.json").write_text(json.dumps(changed))
    legend = legend_of([finished, other], monkeypatch)
    assert [entry.partition(":")[0] for entry in legend] == [
        "2 epochs, learning_rate 0.003",
        "7 epochs, learning_rate 0.5",
    ]
    rows = compare_results([finished, other]).rows
    assert [row[0] for row in rows] == ["finished", "other"]
    assert rows[1][4] == "not finished"
    with pytest.raises(InputError, match="named twice"):
        compare_curves(
            [finished, finished.parent / ".." / finished.parent.name / "finished"], tmp_path / "both.svg"
        )
    with pytest.raises(InputError, match=r"Known: \.png, \.svg"):
        compare_curves([finished], tmp_path / "both.pdf")


def test_a_run_on_all_of_the_training_examples(small, finished, tmp_path):
    """Without a validation part every report works, and says that there is none."""
    result = training.train(small("validation=0", "epochs=1"), tmp_path / "all", log=quiet)
    info, held = training.load_data_info(result.folder), training.load_data_info(finished).counts
    assert info.counts == {"training": sum(held.values()), "validation": 0}
    assert "validation: none" in info.notes
    assert result.record["validation"] is None
    assert 0 < result.test_accuracy <= 1
    assert "validation loss" not in run_report.write_report(result).read_text()
    assert "0 held out for validation" in run_report.run_document(result, None).to_notebook()
    legend = figures.curves({"all": result.metrics}).axes[0].get_legend().get_texts()
    assert legend[1].get_text() == "validation: none"
    assert compare_results([finished, result.folder]).rows[1][3] == "none"
    with pytest.raises(InputError, match="this part of the data is empty"):
        evaluate_run(result.folder, part="validation")


def test_the_notebook_is_valid_and_its_code_runs(finished):
    import nbformat

    text = run_report.run_document(training.Result.read(finished), None, folder=str(finished)).to_notebook()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in codes] == list(range(1, len(codes) + 1))
    kinds = [kind for cell in codes for kind in shown(cell)]
    assert kinds == ["html", "png", "html", "png", "html", "html"]
    assert "accuracy" in notebook.cells[0].source, "it opens with the result"
    assert "confusion" in codes[3].source
    space: dict[str, object] = {}
    for cell in codes:
        assert cell.outputs, cell.source
        # The magic that a kernel needs to show figures.
        exec(compile(cell.source.replace("%matplotlib inline", ""), "cell", "exec"), space)
    assert space["result"].test_accuracy == training.Result.read(finished).test_accuracy


def shown(cell):
    """The kinds of a cell's outputs, as far as they matter."""
    kinds = {"image/png": "png", "text/html": "html"}
    for output in cell.outputs:
        yield next((kinds[name] for name in output.get("data", {}) if name in kinds), output.output_type)


@pytest.mark.soak
def test_a_kernel_shows_what_the_notebook_shows_already(finished, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    path = tmp_path / "run.ipynb"
    path.write_text(
        run_report.run_document(training.Result.read(finished), None, folder=str(finished)).to_notebook()
    )
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(nbformat.read(path, as_version=4), timeout=300, coalesce_streams=True)
    ran = client.execute()
    for before, after in zip(notebook.cells, ran.cells, strict=True):
        if before.cell_type == "code":
            assert list(shown(after)) == list(shown(before)), before.source
            for one, two in zip(before.outputs, after.outputs, strict=True):
                assert one.get("text") == two.get("text")
                assert one.get("data", {}).get("text/html") == two.get("data", {}).get("text/html")


def test_an_evaluation_by_hand():
    from headwork.inspection.run_report import class_table

    # Class 0 twice, once taken for 1 and surely so; class 1 once, right.
    rows = torch.tensor([[0.6, 0.4], [0.1, 0.9], [0.3, 0.7]])
    found = training.Evaluation(rows, torch.tensor([0, 0, 1]), 0.5)
    assert found.confusion == [[1, 1], [0, 1]]
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.mistakes() == [{"place": 1, "label": 0, "said": 1, "probability": 0.9}]
    assert class_table(found, ("a", "b"), "").rows == [
        ("a", 2, "50.0%", "100.0%"),
        ("b", 1, "100.0%", "50.0%"),
    ]
    # The ends of Wilson's interval are the shares p with (2/3 - p)^2 = 1.96^2 p (1 - p) / 3.
    lower, upper = found.summary()["interval"]
    assert lower < 2 / 3 < upper
    for p in (lower, upper):
        assert (2 / 3 - p) ** 2 == pytest.approx(1.96**2 * p * (1 - p) / 3)


def test_an_accuracy_of_all_or_nothing_is_not_certain():
    from headwork.training.evaluation import wilson_interval

    assert wilson_interval(1.0, 359) == (pytest.approx(359 / (359 + 1.96**2)), 1.0)
    assert wilson_interval(0.0, 359) == (0.0, pytest.approx(1.96**2 / (359 + 1.96**2)))


def test_a_run_is_measured_again(finished):
    told = json.loads((finished / "result.json").read_text())
    evaluation, facts, what = evaluate_run(finished, log=quiet)
    assert what == "test of digits"
    assert evaluation.confusion == told["confusion"]
    assert evaluation.loss == pytest.approx(told["test"]["loss"])
    held, _, _ = evaluate_run(finished, part="validation", log=quiet)
    assert held.accuracy == pytest.approx(training.load_metrics(finished)[-1]["validation"]["accuracy"])
    assert facts.classes == tuple("0123456789")


def test_an_unfinished_run_is_not_tested(stopped, tmp_path):
    folder = stopped(tmp_path / "run", 12)
    with pytest.raises(InputError, match="used once, at the end"):
        evaluate_run(folder, part="test", log=quiet)
    lines = []
    _, _, what = evaluate_run(folder, log=lines.append)
    assert what == "validation of digits"
    assert any("not finished: this is its model at step 12" in line for line in lines)
    with pytest.raises(InputError, match="not finished yet"):
        run_report.write_report(folder)


def test_other_data_of_other_classes_is_refused(finished, tmp_path):
    images = np.zeros((40, 8, 8), np.uint8)
    np.savez(
        tmp_path / "two.npz",
        x_train=images,
        y_train=np.arange(40) % 2,
        x_test=images,
        y_test=np.arange(40) % 2,
    )
    with pytest.raises(InputError, match="Give data of the same classes"):
        evaluate_run(finished, data=str(tmp_path / "two.npz"), log=quiet)


def test_other_images_are_measured_whole(finished, digits, tmp_path):
    from PIL import Image

    images, labels = digits.test.images[:200], digits.test.labels[:200]
    np.savez(tmp_path / "some.npz", images=images, labels=labels)
    found, _, told = evaluate_run(finished, data=str(tmp_path / "some.npz"), log=quiet)
    assert told == "all 200 of some"
    with torch.no_grad():
        scores = training.load_model(finished)(digits.normalise(torch.from_numpy(images)))
    truth = torch.from_numpy(labels)
    assert found.accuracy == pytest.approx(float((scores.argmax(-1) == truth).double().mean()))
    assert found.loss == pytest.approx(
        float(torch.nn.functional.cross_entropy(scores.double(), truth)), rel=1e-5
    )
    np.savez(tmp_path / "large.npz", images=images.repeat(2, 2).repeat(2, 3), labels=labels)
    with pytest.raises(InputError, match=r"large\.npz: images of 1 x 16 x 16 .* the run takes 1 x 8 x 8"):
        evaluate_run(finished, data=str(tmp_path / "large.npz"), log=quiet)
    for place, label in enumerate(labels[:60]):
        (tmp_path / "photos" / str(label)).mkdir(parents=True, exist_ok=True)
        side = 8 + place % 3
        Image.new("L", (side, side)).save(tmp_path / "photos" / str(label) / f"{place}.png")
    assert evaluate_run(finished, data=str(tmp_path / "photos"), log=quiet)[2] == "all 60 of photos", (
        "scaled to 8 x 8"
    )


def test_a_picture_is_recognised(finished, digits, tmp_path):
    from PIL import Image

    for number in range(3):
        Image.fromarray(digits.test.images[number, 0]).save(tmp_path / f"{number}.png")
    table = predict(finished, images=[tmp_path / f"{number}.png" for number in range(3)])
    inputs = digits.normalise(torch.from_numpy(digits.test.images[:3]))
    said = training.load_model(finished)(inputs).argmax(-1).tolist()
    assert [int(row[1]) for row in table.rows] == said


# --- export -------------------------------------------------------------------------------------


def test_a_pretrained_folder(finished, tmp_path):
    from headwork.models import from_pretrained

    assert export.export_run(finished, "pretrained", tmp_path / "out")[0].startswith("wrote ")
    ours, theirs = training.load_model(finished).state_dict(), from_pretrained(tmp_path / "out").state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def onnx_scores(path, inputs):
    import onnxruntime

    trainer = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [given.name for given in trainer.get_inputs()]
    return trainer.run(None, dict(zip(names, (one.numpy() for one in inputs), strict=True)))[0]


def test_onnx_of_a_run(finished, digits, tmp_path):
    lines = export.export_run(finished, "onnx", tmp_path / "model.onnx")
    assert "at most" in lines[1]
    inputs = digits.normalise(torch.from_numpy(digits.train.images[:1000]))
    with torch.no_grad():
        ours = training.load_model(finished)(inputs)
    theirs = torch.from_numpy(onnx_scores(tmp_path / "model.onnx", (inputs,)))
    assert (ours - theirs).abs().max() < 1e-4
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))
    import onnx

    told = {
        p.key: json.loads(p.value)
        for p in onnx.load(tmp_path / "model.onnx").metadata_props
        if "headwork" in p.key
    }
    assert told["headwork.classes"] == list("0123456789")
    assert told["headwork.mean"] == list(digits.mean)


def test_an_onnx_file_that_differs_is_not_left_behind(finished, tmp_path, monkeypatch):
    before = export.fused_copy

    def wrong(model):
        twin = before(model)
        with torch.no_grad():
            twin.head.bias[0] += 0.01
        return twin

    monkeypatch.setattr(export, "fused_copy", wrong)
    with pytest.raises(
        export.MismatchError, match=r"not written: its logits differ from the model's by 1\.0e-02"
    ):
        export.export_run(finished, "onnx", tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


SIZE = {"width": 16, "hidden": 24, "heads": 2, "depth": 2}
FAMILIES = [
    ("VisionTransformer", {**SIZE, "image": 8}),
    (
        "VisionTransformer",
        {**SIZE, "image": 8, "attention": "linear", "pooling": "mean", "positions": "sinusoidal"},
    ),
    ("ConvolutionalClassifier", {"image": 8, "width": 6, "depth": 2}),
    *[
        ("RecurrentClassifier", {"image": 8, "width": 12, "cell": cell, "bidirectional": both})
        for cell in ("plain", "lstm", "gru")
        for both in (False, True)
    ],
    *[
        (
            "TextClassifier",
            {**SIZE, "vocabulary": 50, "max_length": 24, "encoder": kind, "bidirectional": kind == "lstm"},
        )
        for kind in ("transformer", "plain", "lstm", "gru", "convolution")
    ],
]


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "fields"), FAMILIES, ids=lambda value: str(value)[:60])
def test_onnx_of_every_family(kind, fields, tmp_path):
    from headwork import models

    config = getattr(models, kind).definition.config_class
    torch.manual_seed(0)
    model = getattr(models, kind)(config(**fields)).eval()
    assert export.export_onnx(model, tmp_path / "model.onnx") < 1e-4
    inputs = export.random_inputs(model, 1000, fields.get("max_length"))
    with torch.no_grad():
        ours = model(*inputs)
    assert ours.argmax(-1).tolist() == onnx_scores(tmp_path / "model.onnx", inputs).argmax(-1).tolist()


# --- for notebooks and the main job ---------------------------------------------------------------


def test_the_estimator_learns_images(digits, tmp_path):
    labels = np.array(["even" if n % 2 == 0 else "odd" for n in digits.train.labels])
    small = ["model.width=16", "batch_size=64", "learning_rate=0.01"]
    classifier = Classifier("cnn", epochs=4, settings=small, verbose=False, folder=tmp_path / "run")
    assert classifier.fit(digits.train.images[:, 0], labels) is classifier
    assert classifier.classes_.tolist() == ["even", "odd"]
    test = np.array(["even" if n % 2 == 0 else "odd" for n in digits.test.labels])
    assert classifier.score(digits.test.images, test) > 0.7
    probabilities = classifier.predict_proba(digits.test.images[:300])
    assert probabilities.shape == (300, 2)
    assert np.allclose(probabilities.sum(1), 1)
    assert (
        classifier.predict(digits.test.images[:3].astype(float) / 255).tolist()
        == classifier.predict(digits.test.images[:3]).tolist()
    )
    assert (tmp_path / "run" / "result.json").exists()
    assert "The most confident mistakes" in (tmp_path / "run" / "report.html").read_text()
    assert classifier.predict(digits.test.images[:0]).tolist() == []
    with pytest.raises(InputError, match="data was given in memory"):
        evaluate_run(tmp_path / "run", log=quiet)
    with pytest.raises(InputError, match="data was given in memory"):
        run_report.write_report(tmp_path / "run")


def test_the_estimator_goes_through_scikit_learn(digits):
    from sklearn.base import is_classifier
    from sklearn.model_selection import cross_val_score

    small = ["model.width=4", "batch_size=64"]
    classifier = Classifier("cnn", epochs=1, settings=small, verbose=False)
    assert is_classifier(classifier)
    scores = cross_val_score(
        classifier, digits.train.images[:100], digits.train.labels[:100], cv=2, error_score="raise"
    )
    assert scores.shape == (2,)


def test_the_estimator_learns_texts():
    texts = ["good film", "great plot", "fine story"] * 12 + ["bad film", "dull plot", "weak story"] * 12
    small = [
        "model.width=8",
        "model.hidden=8",
        "model.heads=2",
        "model.vocabulary=300",
        "batch_size=8",
        "model.dropout=0",
        "model.word_dropout=0",
        "learning_rate=0.02",
    ]
    classifier = Classifier(epochs=6, settings=small, verbose=False).fit(texts, [1] * 36 + [0] * 36)
    assert classifier.predict(["a good plot", "a weak film"]).tolist() == [1, 0]


def test_the_estimator_refuses_what_it_cannot_use():
    classifier = Classifier()
    with pytest.raises(InputError, match="not fitted yet"):
        classifier.predict(np.zeros((1, 8, 8), np.uint8))
    with pytest.raises(InputError, match="3 examples but 2 labels"):
        classifier.fit(np.zeros((3, 8, 8), np.uint8), [0, 1])
    with pytest.raises(InputError, match="every label is the same"):
        classifier.fit(np.zeros((3, 8, 8), np.uint8), [1, 1, 1])
    with pytest.raises(InputError, match=r"images is 4 x 8\. Expected image x height x width"):
        classifier.fit(np.zeros((4, 8), np.uint8), [0, 1, 0, 1])
    with pytest.raises(InputError, match=r"Expected bytes 0 to 255, or 0\.0 to 1\.0"):
        classifier.fit(np.full((4, 8, 8), 7.0), [0, 1, 0, 1])
    with pytest.raises(InputError, match="from nan to nan"):
        classifier.fit(np.full((4, 8, 8), np.nan), [0, 1, 0, 1])
    with pytest.raises(InputError, match="Did you mean 'epochs'"):
        classifier.set_params(epoch=3)
    assert Classifier(epochs=3).set_params(seed=4).get_params()["seed"] == 4


def test_the_main_job_on_a_smaller_model(small, tmp_path, monkeypatch):
    from headwork.inspection import estimator as job

    monkeypatch.setattr(job, "vision", lambda data: small())
    result, picture = job.train_digits(tmp_path, log=quiet)
    assert result.test_accuracy == training.Result.read(tmp_path / "digits").test_accuracy
    assert len(picture.figure.axes) == 12
    assert (tmp_path / "digits" / "report.html").exists()
    assert "are correct" in picture.caption


def test_calibration_is_counted_by_confidence():
    from headwork.training.evaluation import Evaluation

    rows = torch.tensor([[0.95, 0.05], [0.91, 0.09], [0.4, 0.6], [1.0, 0.0]], dtype=torch.float64)
    found = Evaluation(rows, torch.tensor([0, 1, 1, 0]), 0.0).calibration()
    assert [(part["from"], part["count"], part["accuracy"]) for part in found] == [
        (0.6, 1, 1),
        (0.9, 3, 0.6667),
    ]
    assert found[1]["confidence"] == 0.9533


def test_the_report_shows_where_it_looked_and_explains_confidence(tmp_path):
    from headwork.inspection.run_report import run_document
    from headwork.training import changed, train, vision

    settings = [
        "model.depth=1",
        "model.width=16",
        "model.heads=2",
        "model.hidden=16",
        "compiled=false",
        "epochs=1",
    ]
    result = train(changed(vision("digits"), settings), tmp_path / "run", log=lambda _: None)
    text = run_document(result, result.data).to_text()
    looked = text[text.index("Where it looked") : text.index("Calibration")]
    assert looked.count("Test image") == 6
    assert looked.count("; true: ") == 3
    assert "random orders reach" in looked
    assert "label smoothing 0.1" in text
    assert "1 - 0.1 + 0.1/10 = 91.0%" in text
