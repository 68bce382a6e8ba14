"""Recipes: whole configs, any field set by name, kept as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwork.errors import InputError
from headwork.training import Result, changed, load_run_config, run_to_json, text, vision
from headwork.training.recipes import RunConfig, read_run, settable

RESULTS = Path(__file__).parents[2] / "results"


def test_the_default_is_the_course_s_model_and_only_epochs_differ():
    run = vision()
    assert (run.data, run.model.patch_size, run.model.depth, run.model.heads, run.epochs) == (
        "fashion-mnist",
        4,
        6,
        4,
        10,
    )
    assert changed(run, ["epochs=50"]) == vision(epochs=50)
    assert {name for name in vars(run) if vars(run)[name] != vars(vision(epochs=50))[name]} == {"epochs"}


def test_a_known_name_written_otherwise_gets_the_same_recipe():
    assert vision("Digits") == vision("digits")
    assert vision("Fashion_MNIST", "cnn") == vision(model="cnn")
    assert vision("My_Pictures").data == "My_Pictures"


@pytest.mark.parametrize(
    "run",
    [
        vision(),
        vision("digits", "cnn"),
        vision(model="gru"),
        text(),
        text(model="lstm"),
        text(encoder="minilm"),
        text("a.csv", columns=("review", "stars")),
    ],
)
def test_a_run_goes_through_json(run):
    assert read_run(run_to_json(run), "config.json") == run


def test_fields_are_set_together():
    run = changed(vision(), ["model.width=90", "model.heads=5", "augmentation.flip=no", "learning_rate=1e-4"])
    assert (run.model.width, run.model.heads, run.augmentation.flip, run.learning_rate) == (
        90,
        5,
        False,
        1e-4,
    )
    assert changed(vision(), ["model.final_normalisation=none"]).model.final_normalisation is None


def test_every_field_can_be_set_to_its_own_value():
    for run in (vision(), text(columns=("a", "b"))):
        flat = {n: v for n, v in json.loads(run_to_json(run)).items() if not isinstance(v, dict)}
        for part in ("model", "augmentation"):
            flat |= {f"{part}.{n}": v for n, v in json.loads(run_to_json(run)).get(part, {}).items()}
        for name in settable(run):
            if name != "encoder":
                value = ",".join(flat[name]) if isinstance(flat[name], list) else flat[name]
                assert changed(run, [f"{name}={value}"]) == run, name


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.widht=3", "Did you mean 'model.width'"),
        ("learning_rat=3", "Did you mean 'learning_rate'"),
        ("nonsense.width=3", "unknown field to --set"),
        ("model.width", "expected field=value"),
        ("model.width=wide", "Expected a whole number"),
        ("learning_rate=fast", "Expected a number"),
        ("learning_rate=0", "above 0"),
        ("learning_rate=nan", "learning_rate is nan"),
        ("epochs=0", "at least 1"),
        ("seed=-1", "at least 0"),
        ("warm_up=1", "below 1"),
        ("validation=1", "below 1"),
        ("precision=float16", "unknown precision 'float16'"),
        ("compiled=perhaps", "true or false"),
        ("model.classes=3", "the data decides"),
        ("model.width=63", "cannot be cut into 4 heads"),
        ("augmentation.shift=-1", "at least 0"),
        ("augmentation.erase=2", "at least 0 and at most 1"),
        ("augmentation=none", "set its fields"),
        ("data=digits", "--data"),
    ],
)
def test_wrong_settings_are_refused(setting, said):
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        changed(vision(), [setting])


def test_ngrams_are_an_option_of_texts():
    """The transformer alone is the recipe; with n-grams it is that of the run which is kept."""
    assert text().model.ngrams == text(model="lstm").model.ngrams == 0
    assert text(ngrams=True) == load_run_config(RESULTS / "imdb-ngrams")
    with pytest.raises(InputError, match="--ngrams with --encoder minilm"):
        text(encoder="minilm", ngrams=True)


def test_old_names_of_model_fields_are_read():
    assert changed(text(), ["model.phrases=7"]).model.ngrams == 7
    assert changed(vision(), ["model.patch=7", "model.kernel=plain"]).model.patch_size == 7
    older = run_to_json(text()).replace("ngrams", "phrases").replace('"max_length"', '"longest"')
    assert read_run(older.replace('"backend"', '"kernel"'), "config.json") == text()
    older = run_to_json(vision()).replace('"patch_size"', '"patch"').replace('"initialisation"', '"start"')
    assert read_run(older, "config.json") == vision()


OLD = {"batch": 8, "smoothing": 0.2, "clipping": 2.0, "keep": 5}


@pytest.mark.parametrize(
    ("recipe", "old"), [(vision, {**OLD, "size": 16, "start": "random"}), (text, {**OLD, "longest": 99})]
)
def test_old_names_of_a_run_s_fields_are_read(recipe, old):
    names = {**RunConfig.OLD_NAMES, **type(recipe()).OLD_NAMES}
    assert set(old) == set(names)
    run = recipe(**{names[name]: value for name, value in old.items()})
    assert run == recipe(**old)
    assert run == changed(recipe(), [f"{name}={value}" for name, value in old.items()])
    data = json.loads(run_to_json(run))
    for name in old:
        data[name] = data.pop(names[name])
    assert read_run(json.dumps(data), "config.json") == run
    with pytest.raises(InputError, match="both batch and batch_size are set"):
        read_run(json.dumps({**data, "batch_size": 3}), "config.json")


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/config.json")), ids=lambda path: path.parent.name)
def test_the_kept_runs_are_read(path):
    data, run = json.loads(path.read_text()), load_run_config(path.parent)
    kept = {**data, "batch_size": data.get("batch"), "label_smoothing": data.get("smoothing")} | data
    assert (run.batch_size, run.label_smoothing) == (kept["batch_size"], kept["label_smoothing"])
    assert Result.read(path.parent).test_accuracy > 0.8


def test_what_a_pretrained_encoder_decides_is_not_set():
    with pytest.raises(InputError, match="'minilm' decides that"):
        changed(text(encoder="minilm"), ["model.width=64"])
    assert changed(text(encoder="minilm"), ["model.dropout=0.2"]).model.dropout == 0.2
    with pytest.raises(InputError, match="set max_length"):
        changed(text(), ["model.max_length=64"])
    with pytest.raises(InputError, match="Leave one out"):
        text(model="lstm", encoder="minilm")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(format="other"), "not the config of a run"),
        (lambda d: d.update(task="audio"), "its model is unknown"),
        (lambda d: d.update(epoch=3), "Did you mean 'epochs'"),
        (lambda d: d["model"].update(widht=3), "Did you mean 'width'"),
        (lambda d: d.update(batch_size="many"), "batch_size is 'many'"),
    ],
)
def test_a_config_that_is_wrong_is_refused(change, said):
    data = json.loads(run_to_json(vision()))
    change(data)
    with pytest.raises(InputError, match=said):
        read_run(json.dumps(data), "config.json")
    with pytest.raises(InputError, match="not valid JSON"):
        read_run("{", "config.json")
