"""The order of batches is a function of (seed, epoch); tokens are padded, masked and the same every time."""

import subprocess
import sys

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from headwork.data import EncodedTexts, TextSplit, batches, batches_in_order, read_tokenizer, train_tokenizer
from headwork.data.splits import hold_out, permutation
from headwork.errors import InputError


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 40), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_every_epoch_has_each_example_once(count, size, seed, epoch, by_length):
    lengths = permutation(count, 7) % 50 if by_length else None
    cut = batches(count, size, seed=seed, epoch=epoch, lengths=lengths)
    again = batches(count, size, seed=seed, epoch=epoch, lengths=lengths)
    assert sorted(np.concatenate([[], *cut]).tolist()) == list(range(count))
    assert len(cut) == -(-count // size)
    assert all(len(batch) <= size for batch in cut)
    assert all((a == b).all() for a, b in zip(cut, again, strict=True))
    ordered = batches_in_order(count, size, lengths)
    assert sorted(np.concatenate([[], *ordered]).tolist()) == list(range(count))


def test_epochs_and_seeds_differ_and_the_order_is_for_ever():
    first = np.concatenate(batches(1000, 10, seed=0, epoch=0))
    assert (first != np.concatenate(batches(1000, 10, seed=0, epoch=1))).any()
    assert (first != np.concatenate(batches(1000, 10, seed=1, epoch=0))).any()
    # The stream is frozen: a run resumed under a newer NumPy goes on with the same batches.
    assert permutation(8, 3).tolist() == PINNED


PINNED = [1, 0, 2, 7, 5, 3, 6, 4]


def test_batches_by_length_need_little_padding():
    lengths = permutation(20_000, 1) % 400 + 1
    padded = [
        sum(len(b) * lengths[b].max() for b in cut) / lengths.sum()
        for cut in (
            batches(20_000, 32, seed=0, epoch=0, lengths=lengths),
            batches(20_000, 32, seed=0, epoch=0),
        )
    ]
    assert padded[0] < 1.05
    assert padded[1] > 1.5
    means = [lengths[b].mean() for b in batches(20_000, 32, seed=0, epoch=0, lengths=lengths)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.1, "short ones do not all come first"


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=200), st.floats(0.01, 0.9), st.integers(0, 9))
def test_holding_out_parts_each_class(labels, share, seed):
    array = np.array(labels)
    counts = np.bincount(array, minlength=5)
    if counts.max() < 2:
        with pytest.raises(InputError, match="leave none to hold out"):
            hold_out(array, share, seed)
        return
    rest, held = hold_out(array, share, seed)
    assert sorted([*rest, *held]) == list(range(len(labels)))
    for label, count in enumerate(counts):
        here = int((array[held] == label).sum())
        assert here <= max(count - 1, 0)
        assert abs(here - share * count) <= 1 or here in (1, count - 1)


def test_neighbours_are_held_out_together():
    labels = np.array([0] * 50 + [1] * 30 + [0] * 50)
    for seed in range(10):
        rest, held = hold_out(labels, 0.2, seed, contiguous=True)
        assert sorted([*rest, *held]) == list(range(130))
        for label, count in ((0, 20), (1, 6)):
            inside = np.isin(np.flatnonzero(labels == label), held)
            assert inside.sum() == count
            assert (inside != np.roll(inside, 1)).sum() == 2, "one stretch, perhaps over the end"
    assert set(hold_out(labels, 0.2, 0, contiguous=True)[1]) != set(
        hold_out(labels, 0.2, 1, contiguous=True)[1]
    )


def test_parts_are_mixed_from_end_to_end():
    labels = np.array([0] * 20_000 + [1] * 20_000)
    for seed in range(10):
        for part in hold_out(labels, 0.1, seed):
            assert 0.2 < labels[part[:30]].mean() < 0.8
            assert 0.2 < labels[part[-30:]].mean() < 0.8


@pytest.mark.parametrize("call", [lambda: batches(4, 0, seed=0, epoch=0), lambda: permutation(4, -1)])
def test_bad_numbers(call):
    with pytest.raises(InputError, match="expected"):
        call()


TEXTS = ["The film is good, truly good.", "A bad film; a very bad film.", "good good film", "bad"] * 5


def test_tokens_padding_and_mask():
    import torch

    tokenizer = train_tokenizer(TEXTS, vocabulary=300, max_length=6)
    encoded = tokenizer.encode(TextSplit([*TEXTS[:4], ""], np.array([1, 0, 1, 0, 1])))
    assert encoded.lengths.tolist() == [6, 6, 4, 2, 1], "cut at the longest; an empty text keeps [CLS]"
    tokens, mask, labels = encoded.tensors(np.array([3, 0]))
    assert tokens.dtype == torch.int64
    assert mask.dtype == torch.bool
    assert tuple(tokens.shape) == tuple(mask.shape) == (2, 6)
    assert labels.tolist() == [0, 1]
    assert mask.sum(1).tolist() == [2, 6]
    assert tokens[0].tolist() == [1, tokenizer.inner.token_ids["Ġbad"], 0, 0, 0, 0]
    assert tokenizer.tokens("GOOD film") == ["[CLS]", "good", "film"]


def test_a_long_text_loses_its_middle():
    tokenizer = train_tokenizer(TEXTS, vocabulary=300, max_length=5)
    assert tokenizer.tokens("good film film film film bad bad") == ["[CLS]", "good", "film", "bad", "bad"]
    assert tokenizer.encode(["good film film film film bad bad"]).ids.tolist() == [
        tokenizer.inner.token_ids[name] for name in ("[CLS]", "Ġgood", "Ġfilm", "Ġbad", "Ġbad")
    ]
    assert tokenizer.tokens("good film bad bad") == ["[CLS]", "good", "film", "bad", "bad"]


def test_no_text_is_unknown_and_case_does_not_matter():
    tokenizer = train_tokenizer(TEXTS, vocabulary=300)
    for text in ("naïve 😀 日本", "\x00\x01", "[UNK]"):
        assert len(tokenizer.tokens(text)) > 1
    assert (tokenizer.encode(["GOOD"]).ids == tokenizer.encode(["good"]).ids).all()


def test_a_tokenizer_is_the_same_every_time_and_when_read_again(tmp_path):
    saved = tmp_path / "tokenizer.json"
    saved.write_bytes(train_tokenizer(TEXTS, vocabulary=280, max_length=5).to_bytes())
    code = (
        "import pathlib, sys; from headwork.data import train_tokenizer\n"
        f"tokenizer = train_tokenizer({TEXTS!r}, vocabulary=280, max_length=5)\n"
        "pathlib.Path(sys.argv[1]).write_bytes(tokenizer.to_bytes())"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "again.json"], check=True)
    assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()
    read = read_tokenizer(saved, max_length=3)
    assert read.vocabulary_size == 280
    assert read.encode(TEXTS).lengths.max() == 3


def test_the_middle_of_a_very_long_text_is_not_read(within):
    tokenizer = train_tokenizer(["low lower lowest", "low"], vocabulary=262, max_length=8)
    whole = tokenizer.inner.encode("lower low " * 1_000, all_tokens=True)
    assert tokenizer.encode(["lower low " * 1_000]).ids.tolist() == whole[:4] + whole[-4:]
    with within(1):
        assert len(tokenizer.encode(["lower" * 2_000_000]).ids) == 8


def test_a_pretrained_tokenizer_keeps_none_of_its_own_padding(tmp_path):
    tokenizer = train_tokenizer(TEXTS, vocabulary=280)
    theirs = tokenizers.Tokenizer.from_str(tokenizer.inner.to_str())
    theirs.enable_padding(length=128, pad_id=0, pad_token="[PAD]")
    theirs.enable_truncation(4)
    (tmp_path / "tokenizer.json").write_text(theirs.to_str())
    assert (
        read_tokenizer(tmp_path / "tokenizer.json")
        .encode(["bad", "a bad film, a very bad film"])
        .lengths.tolist()[0]
        == 2
    )
    assert read_tokenizer(tmp_path / "tokenizer.json").encode(TEXTS).lengths.max() > 4


def test_what_is_no_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer"):
        read_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match="expected at least 258"):
        train_tokenizer(TEXTS, vocabulary=10)
    with pytest.raises(InputError, match="max_length 1"):
        train_tokenizer(TEXTS, vocabulary=300, max_length=1)


def test_loading_needs_no_torch():
    code = "import sys, headwork.data as d; d.load('digits').digest; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_padding_is_right_for_any_lengths():
    lengths = np.array([3, 1, 7, 2])
    starts = np.concatenate([[0], lengths.cumsum()])
    encoded = EncodedTexts(np.arange(1, 14, dtype=np.int32), starts, np.arange(4), padding_id=0)
    tokens, mask = encoded.pad(np.array([2, 1, 2]))
    assert tokens.tolist() == [[5, 6, 7, 8, 9, 10, 11], [4, 0, 0, 0, 0, 0, 0], [5, 6, 7, 8, 9, 10, 11]]
    assert (mask == (tokens != 0)).all()
