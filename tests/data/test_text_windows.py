"""Windows, streams for truncated BPTT and masked language models: definitions, binomial bounds, loaders."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import weft
from weft.data import DataLoader
from weft.data.text import BPTTDataset, CharTokenizer, WindowDataset, batchify, language_model_windows, mask_tokens
from weft.errors import DtypeError, IndexRangeError, OptionError, ShapeError

# ---------------------------------------------------------------------------------------- windows


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.data())
def test_windows_by_their_definition(count, data):
    length, stride = data.draw(st.integers(1, count - 1)), data.draw(st.integers(1, 9))
    tokens = np.random.default_rng(count).integers(0, 9, count)
    expected = np.lib.stride_tricks.sliding_window_view(tokens, length + 1)[::stride]
    inputs, targets = language_model_windows(tokens, length, stride)
    np.testing.assert_array_equal(np.asarray(inputs), expected[:, :-1])
    np.testing.assert_array_equal(np.asarray(targets), expected[:, 1:])
    dataset = WindowDataset(weft.tensor(tokens), length, stride)
    assert len(dataset) == len(expected) == (count - length - 1) // stride + 1
    for i in (0, len(dataset) // 2, len(dataset) - 1, -1):
        assert [x.tolist() for x in dataset[i]] == [expected[i, :-1].tolist(), expected[i, 1:].tolist()]


def test_windows_are_views():
    tokens = weft.arange(100)
    inputs, targets = language_model_windows(tokens, 10)
    assert inputs.data_ptr() == tokens.data_ptr() and inputs.shape == targets.shape == (9, 10)
    assert inputs.reshape(-1).tolist() == list(range(90)) and targets.reshape(-1).tolist() == list(range(1, 91))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64])
def test_memory_mapped_tokens(tmp_path, kind):
    """Only the rows of a batch are read."""
    np.arange(200, dtype=kind).tofile(tmp_path / "tokens.bin")
    dataset = WindowDataset(np.memmap(tmp_path / "tokens.bin", kind, "r"), 8)
    inputs, targets = dataset.gather([0, 191, 5])
    assert inputs.dtype is targets.dtype is weft.int64
    assert inputs[:, 0].tolist() == [0, 191, 5] and targets[:, -1].tolist() == [8, 199, 13]


def test_windows_in_a_loader():
    tokens = weft.arange(101)
    loader = DataLoader(WindowDataset(tokens, 10, stride=5), batch_size=4, shuffle=True, seed=0)
    batches = list(loader)
    starts = sorted(s for inputs, _ in batches for s in inputs[:, 0].tolist())
    assert starts == list(range(0, 91, 5)) and len(batches) == 5
    assert all((targets == inputs + 1).all() and inputs.shape[1] == 10 for inputs, targets in batches)


def test_text_to_windows():
    tokenizer = CharTokenizer.train(["to be or not to be"])
    inputs, targets = language_model_windows(tokenizer.tensor("to be or not"), 5, 3)
    assert tokenizer.decode_batch(inputs) == ["to be", "be or", "or no"]
    assert tokenizer.decode_batch(targets) == ["o be ", "e or ", "r not"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WindowDataset(weft.arange(5), 5), ShapeError, "at least 6 tokens .*got 5"),
        (lambda: WindowDataset([], 1), ShapeError, "at least 2 tokens"),
        (lambda: language_model_windows(weft.arange(9), 0), OptionError, "at least 1, got 0"),
        (lambda: language_model_windows(weft.arange(9), 2, 0), OptionError, "got 2 and 0"),
        (lambda: WindowDataset(weft.ones(9), 2), ShapeError, "integer tokens, got float32; encode the text first"),
        (lambda: WindowDataset(weft.zeros(3, 3, dtype=weft.int64), 2), ShapeError, r"\(N,\), got \(3, 3\)"),
        (lambda: WindowDataset(weft.arange(9), 2)[7], IndexRangeError, "index 7 is outside of 7 windows"),
        (lambda: batchify(weft.arange(3), 4), OptionError, r"batch_size in 1 … 3 \(the tokens\), got 4"),
        (lambda: BPTTDataset(weft.arange(9), 2, 0), OptionError, "length to be at least 1"),
        (lambda: BPTTDataset(weft.arange(9), 2, 2)[2], IndexRangeError, "outside of 2 chunks"),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---------------------------------------------------------------------------------------- truncated BPTT


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=80), st.data())
def test_chunks_go_on_where_the_last_ended(tokens, data):
    batch, length = data.draw(st.integers(1, len(tokens))), data.draw(st.integers(1, 9))
    streams = np.array(tokens)[: len(tokens) // batch * batch].reshape(batch, -1)
    np.testing.assert_array_equal(np.asarray(batchify(tokens, batch)), streams)
    chunks = list(BPTTDataset(tokens, batch, length, boundary=0))
    assert len(chunks) == len(BPTTDataset(tokens, batch, length)) == -(-(streams.shape[1] - 1) // length)
    if not chunks:
        return
    inputs, targets, resets = (np.concatenate([np.asarray(c[part]) for c in chunks], 1) for part in range(3))
    np.testing.assert_array_equal(inputs, streams[:, :-1])
    np.testing.assert_array_equal(targets, streams[:, 1:])
    before = np.concatenate([np.zeros((batch, 1), int), streams[:, :-2]], 1)  # a stream begins as after a boundary
    np.testing.assert_array_equal(resets, before == 0)
    assert all(c[0].shape == (batch, length) for c in chunks[:-1])


def test_without_boundaries_only_the_first_token_resets():
    chunks = BPTTDataset(weft.zeros(21, dtype=weft.int64), 2, 4)
    assert [chunk[2].sum().item() for chunk in chunks] == [2, 0, 0] and chunks[-1][0].shape == (2, 1)


def test_chunks_in_a_loader():
    dataset = BPTTDataset(weft.arange(40), 4, 3)
    found = [[part.tolist() for part in chunk] for chunk in DataLoader(dataset, batch_size=None)]
    assert found == [[part.tolist() for part in chunk] for chunk in dataset]


# ---------------------------------------------------------------------------------------- masked tokens

N, VOCABULARY, MASK = 60_000, 1000, 4


@pytest.fixture(scope="module")
def corrupted():
    ids = weft.randint(5, VOCABULARY, (N // 100, 100), generator=weft.Generator().manual_seed(1))
    return ids, *mask_tokens(ids, MASK, VOCABULARY, generator=weft.Generator().manual_seed(2))


def within(count, trials, p):
    return abs(count - trials * p) < 4.5 * np.sqrt(trials * p * (1 - p))


def test_shares_of_15_and_80_10_10(corrupted):
    ids, inputs, labels = (np.asarray(x) for x in corrupted)
    chosen = labels != -100
    assert within(chosen.sum(), N, 0.15)
    masked, same = (inputs == MASK) & chosen, (inputs == ids) & chosen
    assert within(masked.sum(), chosen.sum(), 0.8 + 0.1 / VOCABULARY)
    assert within(same.sum(), chosen.sum(), 0.1 + 0.1 / VOCABULARY)
    other = inputs[chosen & ~masked & ~same]
    assert stats.kstest(other / VOCABULARY, "uniform").pvalue > 1e-3


def test_labels_and_the_rest(corrupted):
    ids, inputs, labels = (np.asarray(x) for x in corrupted)
    chosen = labels != -100
    np.testing.assert_array_equal(labels[chosen], ids[chosen])
    np.testing.assert_array_equal(inputs[~chosen], ids[~chosen])
    assert inputs.shape == labels.shape == ids.shape and labels.dtype == np.int64


def test_reproducible(corrupted):
    ids, inputs, labels = corrupted
    again = mask_tokens(ids, MASK, VOCABULARY, generator=weft.Generator().manual_seed(2))
    other = mask_tokens(ids, MASK, VOCABULARY, generator=weft.Generator().manual_seed(3))
    assert (again[0] == inputs).all() and (again[1] == labels).all() and not (other[0] == inputs).all()


def test_kept_tokens_and_masks():
    ids = weft.tensor([[1, 7, 8, 2, 0, 0]] * 200)
    inputs, labels = mask_tokens(ids, MASK, 10, probability=1.0, replace=1.0, randomize=0.0, keep=(0, 1, 2))
    assert (inputs == weft.tensor([1, MASK, MASK, 2, 0, 0])).all() and (labels[0].tolist() == [-100, 7, 8] + [-100] * 3)
    only = weft.zeros_like(ids, dtype=weft.bool)
    only[:, 1] = True
    inputs, labels = mask_tokens(ids, MASK, 10, probability=1.0, mask=only, ignore_index=-1)
    assert ((labels != -1) == only).all() and (inputs == ids)[~only].all()


@pytest.mark.parametrize("shape", [(0,), (0, 5), (1,), ()])
def test_small_sizes(shape):
    inputs, labels = mask_tokens(weft.ones(shape, dtype=weft.int64), 0, 2, probability=0.0)
    assert inputs.shape == labels.shape == shape and (labels == -100).all() and (inputs == 1).all()


def test_as_the_transform_of_a_loader():
    transform = lambda batch, generator: mask_tokens(batch[0], 0, 50, generator=generator)
    data = weft.data.TensorDataset(weft.arange(1, 41).reshape(20, 2))
    runs = [list(DataLoader(data, batch_size=5, seed=3, batch_transform=transform)) for _ in range(2)]
    for (a, b), (c, d) in zip(*runs, strict=True):
        assert (a == c).all() and (b == d).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mask_id": 10}, OptionError, "mask_id in 0 … 9, got 10"),
        ({"probability": 1.5}, OptionError, "probability=1.5"),
        ({"replace": 0.95}, OptionError, "sum to at most 1"),
        ({"randomize": -0.1}, OptionError, "randomize=-0.1"),
        ({"ids": weft.ones(3)}, DtypeError, "integer ids, got weft.float32"),
        ({"mask": weft.ones(2, dtype=weft.bool)}, ShapeError, r"mask \(2,\) and ids \(3,\) differ"),
    ],
)
def test_what_masking_refuses(options, error, message):
    with pytest.raises(error, match=message):
        mask_tokens(**{"ids": weft.ones(3, dtype=weft.int64), "mask_id": 0, "vocab_size": 10, **options})
