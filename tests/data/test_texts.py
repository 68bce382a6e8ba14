"""Texts: own files with named columns and the errors in them; IMDB's official split from its two tables."""

import csv
import hashlib
import io
import json
import random
import tarfile

import numpy as np
import pytest

from headwork.data import CATALOG, load, load_texts
from headwork.data.catalog import Entry, File, Variant
from headwork.errors import InputError

ROWS = [(f"text {number}, with a comma", ("bad", "good")[number % 2]) for number in range(20)]


def written(path, rows=ROWS, columns=("text", "label")):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([columns, *rows])
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_own_files(tmp_path, kind):
    data = load_texts(
        written(tmp_path / f"own.{kind}", columns=("Review", "stars")), columns=("Review", "stars")
    )
    assert data.classes == ("bad", "good")
    assert [len(part) for part in (data.train, data.validation, data.test)] == [16, 2, 2]
    everything = [
        (text, data.classes[label])
        for part in (data.train, data.validation, data.test)
        for text, label in zip(part.texts, part.labels, strict=True)
    ]
    assert sorted(everything) == sorted(ROWS)
    assert data.digest == load(tmp_path / f"own.{kind}", columns=("Review", "stars")).digest


def test_usual_names_of_columns_are_found(tmp_path):
    assert load(written(tmp_path / "own.csv", columns=("Sentence", "Sentiment"))).classes == ("bad", "good")


def test_a_folder_with_parts(tmp_path):
    written(tmp_path / "train.csv")
    written(tmp_path / "test.csv", ROWS[:3])
    data = load_texts(tmp_path)
    assert len(data.train) + len(data.validation) == 20
    assert data.test.texts == [text for text, _ in ROWS[:3]]
    written(tmp_path / "test.csv", [("new", "ugly")])
    with pytest.raises(InputError, match=r"test\.csv, line 2: unknown label 'ugly'"):
        load_texts(tmp_path)


def test_numbers_are_classes_in_their_order(tmp_path):
    rows = [(f"t{number}", str(number % 11)) for number in range(33)]
    assert load_texts(written(tmp_path / "own.jsonl", rows)).classes == tuple(map(str, range(11)))


GOOD = b"text,label\n" + b"fine,good\nawful,bad\n" * 5
BAD = {
    "empty": ("csv", b"", "bad.csv: is empty"),
    "white": ("csv", b" \n\n", "bad.csv: is empty"),
    "head only": ("csv", b"text,label\n", "bad.csv: holds no rows"),
    "columns": ("csv", b"a,b\n1,2\n", "Its columns: a, b. Name the two"),
    "no head": ("csv", GOOD[11:], "Its columns: fine, good"),
    "one class": ("csv", b"text,label\nx,good\ny,good\n", "every row has the label 'good'"),
    "no label": ("csv", GOOD + b"more,\nagain,good\neven more, \n", "no label in line 12, 14. Fill it in"),
    "no text": ("csv", GOOD + b",good\n", "no text in line 12"),
    "fields": ("csv", GOOD + b"a, b,good\n", "bad.csv, line 12: 3 fields; the header has 2"),
    "quote": ("csv", GOOD + b'"never closed,good\nfine,good\n', "bad.csv, line 12: not well-formed"),
    "latin": (
        "csv",
        GOOD + "café,good\n".encode("latin-1"),
        "line 12: byte 0xe9 is not UTF-8. The lines before",
    ),
    "utf-16": ("csv", GOOD.decode().encode("utf-16"), "is UTF-16. Save it as UTF-8"),
    "zero": ("csv", GOOD + b"a\0b,good\n", "line 12: holds a zero byte"),
    "classes": (
        "csv",
        b"text,label\n" + b"".join(b"t,%d\n" % n for n in range(1500)),
        "1,500 different labels",
    ),
    "semicolons": ("csv", b"text;label\nfine, indeed;good\n", "Is ';' the separator? Save it with commas"),
    "tabs": ("csv", b"text\tlabel\nfine\tgood\n", "Is a tab the separator?"),
    "commas": ("tsv", GOOD, "Is ',' the separator? Save it with tabs, or name it .csv"),
    "tsv": ("tsv", b"text\tlabel\na\tb\tc\n", "bad.tsv, line 2: 3 fields"),
    "json": ("jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "bad.jsonl, line 2: not JSON"),
    "deep": ("jsonl", b"[" * 100_000, "line 1: not JSON"),
    "list": ("jsonl", b"[1, 2]\n", "line 1: expected an object"),
    "null": (
        "jsonl",
        b'{"text": "a", "label": 1}\n{"text": "b", "label": null}\n{"text": "c"}',
        "no label in line 2",
    ),
    "half": (
        "jsonl",
        b'\n{"text": "\\ud83d!", "label": 2}\n',
        "line 2: 'text' holds \\ud83d, half of a character",
    ),
    "half label": ("jsonl", b'{"text": "a", "label": "\\udc00"}\n', "line 1: 'label' holds \\udc00"),
    "kind": ("jsonl", b'{"text": ["a"], "label": 1}\n', "line 1: 'text' is list. Expected text"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_told_by_file_and_line(tmp_path, name):
    kind, data, expected = BAD[name]
    (tmp_path / f"bad.{kind}").write_bytes(data)
    with pytest.raises(InputError) as error:
        load(tmp_path / f"bad.{kind}")
    assert expected in str(error.value)
    assert f"bad.{kind}" in str(error.value)


def test_too_few_examples_are_met_with_advice_that_helps(tmp_path):
    for each in (1, 2):
        (tmp_path / "own.csv").write_bytes(b"text,label\n" + b"fine,good\nawful,bad\n" * each)
        with pytest.raises(
            InputError, match=r"one of each class, leave none to hold out\. Give three or more of each"
        ):
            load(tmp_path / "own.csv")
    (tmp_path / "own.csv").write_bytes(b"text,label\n" + b"fine,good\nawful,bad\n" * 3)
    assert len(load(tmp_path / "own.csv").train) == 2


def test_columns_that_are_not_there(tmp_path):
    path = written(tmp_path / "own.csv", columns=("review", "stars"))
    with pytest.raises(InputError, match=r"unknown column of .*own\.csv 'star'\. Did you mean 'stars'"):
        load(path, columns=("review", "star"))
    with pytest.raises(InputError, match="expected two"):
        load(path, columns=("review",))
    with pytest.raises(InputError, match="2 columns are called 'label'"):
        load(written(tmp_path / "twice.csv", columns=("label", "label")), columns=("label", "label"))


def test_a_quoted_text_with_line_breaks_and_a_mark_at_the_start(tmp_path):
    data = b'\xef\xbb\xbftext,label\r\n"two\r\nlines, ""quoted""",good\r\n' + GOOD[11:]
    (tmp_path / "own.csv").write_bytes(data)
    texts = load_texts(tmp_path / "own.csv", validation=0)
    assert 'two\r\nlines, "quoted"' in [*texts.train.texts, *texts.test.texts]
    (tmp_path / "own.csv").write_bytes(data + b"short\r\n")
    with pytest.raises(InputError, match="line 14: 1 fields"):
        load(tmp_path / "own.csv")


def test_blank_lines_before_the_head_and_a_very_long_text(tmp_path):
    limit = csv.field_size_limit()
    (tmp_path / "own.csv").write_bytes(b"\n  \n,\n" + GOOD + b'"' + b"x" * 200_000 + b'",good\n')
    texts = load_texts(tmp_path / "own.csv")
    assert max(map(len, [*texts.train.texts, *texts.validation.texts, *texts.test.texts])) == 200_000
    assert csv.field_size_limit() == limit, "the limit of others is as it was"
    (tmp_path / "own.csv").write_bytes(b"\n\n" + GOOD + b"short\n")
    with pytest.raises(InputError, match="line 14: 1 fields"):
        load(tmp_path / "own.csv")


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Sets under their own names whose files, made up, lie in the cache."""
    monkeypatch.setenv("HEADWORK_CACHE", str(tmp_path))

    def put(name, **files):
        entries = []
        (tmp_path / "films").mkdir(exist_ok=True)
        for file, data in files.items():
            (tmp_path / "films" / file).write_bytes(data)
            entries.append(File(file, "sha256:" + hashlib.sha256(data).hexdigest(), len(data)))
        monkeypatch.setitem(
            CATALOG,
            name,
            Entry(name, "texts", "", "", "", "films", (Variant(tuple(entries), ()),), CATALOG[name].classes),
        )

    return put


def table(columns, rows):
    file = io.StringIO()
    csv.writer(file).writerows([columns, *rows])
    return file.getvalue().encode()


def test_imdb_test_part_is_what_the_training_table_lacks(cached):
    train = [(f"review  {n}<br /><br />end", n // 20, "imdb") for n in range(40)]
    train += [
        ("the same", 1, "imdb"),
        ("the same", 1, "imdb"),
        ("the same", 0, "imdb"),
        ("one more", 0, "imdb"),
    ]
    others = [(f"sentence {n}", n % 2, "rotten_tomatoes") for n in range(10)]
    test = [(f"other {n}", ("negative", "positive")[n % 2]) for n in range(43)] + [("the same", "positive")]
    everything = [
        (text.replace("  ", " ") + " ", ("negative", "positive")[label]) for text, label, _ in train
    ] + test
    cached(
        "imdb",
        reviews=table(("text", "label", "source"), train + others),
        all=table(("review", "sentiment"), everything),
    )
    data = load_texts("imdb", log=lambda _: None)
    assert data.classes == ("negative", "positive")
    assert len(data.train) + len(data.validation) == 44
    assert "review 7 end" in {*data.train.texts, *data.validation.texts}
    read = [
        (text, data.classes[label]) for text, label in zip(data.test.texts, data.test.labels, strict=True)
    ]
    assert sorted(read) == sorted(test)
    assert len(set(data.train.labels[:20].tolist())) == 2, "the table is sorted by label, the part is not"


def test_rotten_tomatoes_has_a_test_tenth_for_every_seed(cached):
    rows = [(f"sentence {n}", n // 50, "rotten_tomatoes") for n in range(100)] + [("no", 1, "imdb")]
    cached("rotten-tomatoes", reviews=table(("text", "label", "source"), rows))
    first, second = (load_texts("rotten-tomatoes", seed=seed, log=lambda _: None) for seed in (0, 1))
    assert [len(part) for part in (first.train, first.validation, first.test)] == [80, 10, 10]
    assert first.test.texts == second.test.texts
    assert set(first.validation.texts) != set(second.validation.texts)
    assert np.bincount(first.test.labels).tolist() == [5, 5]


def test_imdb_from_its_authors_archive(cached):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for part in ("train", "test"):
            for kind in ("neg", "pos", "unsup"):
                for number in random.Random(0).sample(range(30), 30):
                    data = (
                        f"{part} {kind} {7 * number % 30} {number}<br />".encode()
                    )  # by text in another order
                    entry = tarfile.TarInfo(f"aclImdb/{part}/{kind}/{number}_1.txt")
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))
    cached("imdb", **{"aclImdb_v1.tar.gz": file.getvalue()})
    data = load_texts("imdb", log=lambda _: None)
    assert len(data.train) + len(data.validation) == 60
    for kind in ("neg", "pos"):
        held = sorted(int(text.split()[3]) for text in data.validation.texts if kind in text)
        gaps = [(after - before) % 30 for before, after in zip(held, held[1:] + held[:1], strict=True)]
        assert sorted(gaps) == [1, 1, 28], "one stretch of the archive's numbers"
    assert sorted(data.test.texts)[0] == "test neg 0 0"
    assert not any("unsup" in text for text in data.train.texts)
