"""Padding, buckets and packed rows: PyTorch's padding, attention over whole and packed sequences, nothing lost."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.data import DataLoader
from weft.data.text import (
    BucketBatchSampler,
    causal_mask,
    length_mask,
    next_token_targets,
    pack_rows,
    pad_batch,
    padding_mask,
    segment_mask,
    unpack_rows,
)
from weft.errors import OptionError, ShapeError
from weft.nn.functional import scaled_dot_product_attention
from weft.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SEQUENCES = st.lists(st.lists(st.integers(1, 99), max_size=9), min_size=1, max_size=12)


# ---------------------------------------------------------------------------------------- padding


@settings(max_examples=60, deadline=None)
@given(SEQUENCES, st.integers(1, 5), st.sampled_from(["left", "right"]))
def test_padding_as_pytorch_pads(sequences, multiple, side):
    batch = pad_batch(sequences, -1, multiple=multiple, padding_side=side)
    theirs = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row, dtype=torch.int64) for row in sequences], True, -1, padding_side=side
    )
    longest, size = theirs.shape[1], batch.data.shape[1]
    assert batch.data.dtype is weft.int64 and size % multiple == 0 and longest <= size < longest + multiple
    kept = slice(size - longest, None) if side == "left" else slice(longest)
    np.testing.assert_array_equal(np.asarray(batch.data[:, kept]), theirs.numpy())
    assert batch.mask.tolist() == (batch.data != -1).tolist()
    assert batch.lengths.tolist() == [len(row) for row in sequences] == batch.mask.sum(1).tolist()


@pytest.mark.parametrize("kind", [list, np.array, weft.tensor])
def test_rows_of_any_kind_and_shape(kind):
    rows = [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]
    batch = pad_batch([kind(row) for row in rows], 9.0)
    assert batch.data.tolist() == [[[1, 2], [9, 9]], [[3, 4], [5, 6]]] and batch.mask.tolist() == [
        [True, False],
        [True] * 2,
    ]


def test_types_are_kept():
    assert pad_batch([np.zeros(2, np.int32), np.zeros(0, np.int32)]).data.dtype is weft.int32
    assert pad_batch([[], [0.5]]).data.dtype is weft.float32
    assert pad_batch([[], []]).data.shape == (2, 0) and pad_batch([[], []]).data.dtype is weft.int64
    strided = weft.arange(10)[::3]
    assert pad_batch([strided, strided[:1]]).data.tolist() == [[0, 3, 6, 9], [0, 0, 0, 0]]


def test_gradients_flow_through_padding():
    x = weft.ones(3, requires_grad=True)
    (pad_batch([x, x[:1]]).data * weft.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])).sum().backward()
    assert x.grad.tolist() == [11, 2, 3]


def test_cut_at_the_end():
    assert pad_batch([[1, 2, 3], [4]], max_length=2).data.tolist() == [[1, 2], [4, 0]]
    assert pad_batch([[1, 2, 3]], max_length=0).data.shape == (1, 0)


def test_padded_batches_are_packed_for_recurrent_layers():
    batch = pad_batch([[1], [2, 3, 4], [5, 6]], multiple=4)
    packed = pack_padded_sequence(batch.data, batch.lengths, batch_first=True, enforce_sorted=False)
    assert packed.data.tolist() == [2, 5, 1, 3, 6, 4]  # step by step, the longest first
    padded, lengths = pad_packed_sequence(packed, batch_first=True, total_length=4)
    assert padded.tolist() == batch.data.tolist() and lengths.tolist() == batch.lengths.tolist()


def test_masks():
    assert length_mask([2, 0, 3]).tolist() == [[True, True, False], [False] * 3, [True] * 3]
    assert padding_mask(weft.tensor([1]), 3).tolist() == [[False, True, True]]
    assert length_mask([]).shape == (0, 0) and length_mask([5], 2).tolist() == [[True, True]]
    expected = torch.nn.Transformer.generate_square_subsequent_mask(4) == 0
    assert causal_mask(4).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pad_batch([]), ShapeError, "at least one sequence"),
        (lambda: pad_batch([[1]], multiple=0), OptionError, "multiple to be at least 1, got 0"),
        (lambda: pad_batch([[1]], max_length=-1), OptionError, "max_length"),
        (lambda: pad_batch([weft.ones(2, 3), weft.ones(2)]), ShapeError, r"differ in L alone.*\(2,\), \(2, 3\)"),
        (lambda: pad_batch([weft.tensor(1)]), ShapeError, "differ in L alone"),
        (lambda: pad_batch([[1]], padding_side="up"), ValueError, "'left' or 'right', got 'up'"),
        (lambda: length_mask(weft.ones(2, 2)), ShapeError, r"\(B,\), got \(2, 2\)"),
    ],
)
def test_what_padding_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---------------------------------------------------------------------------------------- buckets

LENGTHS = np.random.default_rng(0).integers(1, 100, 1003)


@pytest.mark.parametrize("limit", [{"batch_size": 16}, {"max_tokens": 400}, {"batch_size": 2000}, {"batch_size": 1}])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("pool", [1, 5, 10**6])
def test_each_sequence_once(limit, shuffle, pool):
    sampler = BucketBatchSampler(LENGTHS, **limit, shuffle=shuffle, pool_batches=pool, seed=0)
    expected = len(sampler)
    batches = list(sampler)
    assert len(batches) == expected and sorted(i for batch in batches for i in batch) == list(range(1003))
    if "batch_size" in limit:
        assert sum(len(batch) != limit["batch_size"] for batch in batches) <= 1
    else:
        assert all(len(batch) * LENGTHS[batch].max() <= 400 for batch in batches)


def waste(batches):
    padded = sum(len(batch) * LENGTHS[batch].max() for batch in batches)
    return 1 - LENGTHS.sum() / padded


def test_buckets_pad_little():
    wasted = [waste(BucketBatchSampler(LENGTHS, 16, pool_batches=pool, seed=0)) for pool in (1, 10, 10**6)]
    assert wasted[0] > 0.4 and wasted[1] < 0.12 and wasted[2] < 0.02
    assert waste(BucketBatchSampler(LENGTHS, 16, shuffle=False)) <= wasted[2] + 1e-9


def test_epochs_are_pure_functions_of_the_seed():
    first, second = BucketBatchSampler(LENGTHS, 16, seed=7), BucketBatchSampler(weft.tensor(LENGTHS), 16, seed=7)
    epochs = [list(first) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] and epochs[2] == second.batches(2)
    second.set_epoch(1)
    assert list(second) == epochs[1] and list(second) == epochs[2]
    assert BucketBatchSampler(LENGTHS, 16, seed=8).batches(0) != epochs[0]


def test_incomplete_batches_are_left_out():
    batches = list(BucketBatchSampler(LENGTHS, 16, drop_last=True, seed=0))
    assert {len(batch) for batch in batches} == {16} and len(batches) == 1003 // 16
    assert len(BucketBatchSampler(LENGTHS, 16, drop_last=True)) == 1003 // 16
    assert list(BucketBatchSampler([], 4)) == [] and len(BucketBatchSampler([], 4)) == 0


def test_in_a_loader():
    texts = [[1] * length for length in LENGTHS[:50]]
    sampler = BucketBatchSampler(LENGTHS[:50], 8, seed=0)
    loader = DataLoader(texts, batch_sampler=sampler, collate_fn=pad_batch)
    for epoch in range(2):
        found = [batch.lengths.tolist() for batch in loader]
        assert found == [LENGTHS[batch].tolist() for batch in sampler.batches(epoch)] and len(loader) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "batch_size or max_tokens, got both or neither"),
        ({"batch_size": 2, "max_tokens": 9}, "both or neither"),
        ({"batch_size": 0}, "batch_size to be at least 1"),
        ({"batch_size": 2, "pool_batches": 0}, "pool_batches to be at least 1"),
        ({"max_tokens": 50}, "a sequence of 99 tokens exceeds max_tokens=50"),
        ({"max_tokens": 500, "drop_last": True}, "drop_last needs batch_size"),
    ],
)
def test_what_buckets_refuse(options, message):
    with pytest.raises(OptionError, match=message):
        BucketBatchSampler(LENGTHS, **options)


# ---------------------------------------------------------------------------------------- packed rows


@settings(max_examples=80, deadline=None)
@given(SEQUENCES, st.integers(9, 14), st.sampled_from(["best_fit", "in_order"]))
def test_no_token_is_lost(sequences, length, order):
    rows = pack_rows(sequences, length, padding_value=-1, order=order)
    data, segments, positions = (np.asarray(x) for x in rows[:3])
    assert data.shape == segments.shape == positions.shape == (len(rows.sources), length)
    assert Counter(data[segments > 0].tolist()) == Counter(token for row in sequences for token in row)
    assert (data[segments == 0] == -1).all() and not positions[segments == 0].any()
    kept = [row for row in sequences if row]
    assert [row.tolist() for row in unpack_rows(rows.data, rows.segments, rows.sources)] == kept
    for row, numbers in enumerate(rows.sources):
        starts = np.flatnonzero(positions[row][segments[row] > 0] == 0)
        assert len(starts) == len(numbers) == segments[row].max()
        assert sorted(segments[row][segments[row] > 0]) == segments[row][segments[row] > 0].tolist()
    if order == "in_order":
        assert [n for numbers in rows.sources for n in numbers] == [i for i, row in enumerate(sequences) if row]


def fewest_rows(lengths, room):
    """The best packing, by trying them all: each sequence goes into one of the open rows or a new one."""
    if not lengths:
        return 0
    best = len(lengths)

    def place(number, spaces):
        nonlocal best
        if len(spaces) >= best and number < len(lengths):
            return
        if number == len(lengths):
            best = min(best, len(spaces))
            return
        size = lengths[number]
        for i, space in enumerate(spaces):
            if space >= size:
                place(number + 1, [*spaces[:i], space - size, *spaces[i + 1 :]])
        place(number + 1, [*spaces, room - size])

    place(0, [])
    return best


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=7))
def test_hardly_more_rows_than_needed(lengths):
    """11/9 of the fewest rows and 2/3 of one (Dósa, 2007): one row more, as long as there are few."""
    rows = pack_rows([[1] * n for n in lengths], 20)
    assert fewest_rows(lengths, 20) <= len(rows.sources) <= fewest_rows(lengths, 20) + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 20), max_size=60))
def test_at_most_one_row_is_half_empty(lengths):
    """Of two, the first sequence of the later one would have gone into the other."""
    rows = pack_rows([[1] * n for n in lengths], 20)
    assert ((np.asarray(rows.segments) > 0).sum(1) <= 10).sum() <= 1


@settings(max_examples=40, deadline=None)
@given(SEQUENCES.filter(lambda rows: any(rows)), st.booleans())
def test_the_mask_is_block_diagonal(sequences, causal):
    rows = pack_rows(sequences, 12)
    mask = np.asarray(segment_mask(rows.segments, causal))
    for row, numbers in enumerate(rows.sources):
        expected, start = np.zeros((12, 12), bool), 0
        for size in (len(sequences[number]) for number in numbers):
            block = np.ones((size, size), bool)
            expected[start : start + size, start : start + size] = np.tril(block) if causal else block
            start += size
        np.testing.assert_array_equal(mask[row], expected)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_in_packed_rows_is_attention_of_each_sequence(causal):
    """PyTorch's attention of every sequence alone, against one call over packed rows."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(50, 2, 4)) for _ in range(3))  # a vector a token and head
    sequences = [rng.integers(0, 50, size=n) for n in (7, 3, 5, 1, 9, 4)]
    rows = pack_rows(sequences, 12)
    at = lambda x: weft.tensor(x)[rows.data].transpose(1, 2)  # (R, H, T, E)
    packed = scaled_dot_product_attention(at(q), at(k), at(v), segment_mask(rows.segments, causal).unsqueeze(1))
    found = unpack_rows(packed.transpose(1, 2), rows.segments, rows.sources)
    for sequence, output in zip(sequences, found, strict=True):
        alone = [torch.tensor(x[sequence]).transpose(0, 1) for x in (q, k, v)]
        expected = torch.nn.functional.scaled_dot_product_attention(*alone, is_causal=causal).transpose(0, 1)
        np.testing.assert_allclose(np.asarray(output), expected.numpy(), atol=1e-12)


def test_targets_stay_in_their_segment():
    rows = pack_rows([[1, 2, 3], [4], [5, 6]], 5, order="in_order")
    assert rows.data.tolist() == [[1, 2, 3, 4, 0], [5, 6, 0, 0, 0]]
    targets = next_token_targets(rows.data, rows.segments)
    assert targets.tolist() == [[2, 3, -100, -100, -100], [6, -100, -100, -100, -100]]


def test_nothing_to_pack():
    rows = pack_rows([], 4)
    assert rows.data.shape == (0, 4) and rows.sources == [] and segment_mask(rows.segments).shape == (0, 4, 4)
    assert pack_rows([[], []], 4).data.shape == (0, 4)
    assert next_token_targets(rows.data, rows.segments).shape == (0, 4)


def test_type_of_rows_is_kept():
    rows = pack_rows([np.array([1], np.int32), weft.tensor([2, 3], dtype=weft.int32)], 3)
    assert rows.data.dtype is weft.int32 and rows.data.tolist() == [[2, 3, 1]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pack_rows([[1], [1, 2, 3]], 2), ShapeError, "sequence 1 has 3 tokens, a row has 2; cut it"),
        (lambda: pack_rows([[1]], 0), OptionError, "length to be at least 1"),
        (lambda: pack_rows([[1]], 4, order="random"), OptionError, "best_fit, in_order, got 'random'"),
        (lambda: pack_rows([[[1, 2]]], 4), ShapeError, r"shape \(L,\)"),
        (lambda: segment_mask(weft.ones(3)), ShapeError, r"\(R, T\), got \(3,\)"),
        (lambda: next_token_targets(weft.ones(2, 3), weft.ones(3, 2)), ShapeError, "differ"),
    ],
)
def test_what_packing_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()
