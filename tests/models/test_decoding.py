"""Generation: beside transformers', with and without a cache; beam search against all sequences; sampling."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError
from weft.models import from_pretrained
from weft.models.supervised import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from weft.models.text.decoding import beam_search, generate, greedy_search, recomputing, sample
from weft.models.text.processors import keep_top_k, keep_top_p, penalize_repetition
from weft.models.transformers.causal import DecoderState

from . import hf_cases
from .hf_cases import CASES, GPT2, LLAMA, needs_transformers, save

PADDED = np.array([[0, 0, 0, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15], [0, 0, 0, 0, 0, 0, 30]])


def prepared(name: str, folder: Path, seed: int = 0) -> tuple[Any, Any]:
    """Their model and ours, with tokens for end and padding."""
    theirs = save(CASES[name], folder, seed)
    theirs.generation_config.pad_token_id, theirs.generation_config.eos_token_id = 0, 2
    theirs.save_pretrained(folder)
    return theirs, from_pretrained(folder)


def both(theirs: Any, ours: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    import torch

    mask = (PADDED != 0).astype(np.int64)
    names = {"max_new_tokens": 8, **options}
    expected = theirs.generate(torch.tensor(PADDED), attention_mask=torch.tensor(mask), do_sample=False, **names)
    return ours.generate(weft.tensor(PADDED), weft.tensor(mask), **names).numpy(), expected.numpy()


GENERATORS = ("gpt2", "llama", "mistral", "qwen3", "t5", "t5-v1.1")


@needs_transformers
@pytest.mark.parametrize("name", GENERATORS)
def test_greedy_and_beam_search_write_what_transformers_writes(name: str, tmp_path: Path) -> None:
    theirs, ours = prepared(name, tmp_path)
    for options in ({}, {"num_beams": 3}, {"repetition_penalty": 1.7}):
        found, expected = both(theirs, ours, **options)
        np.testing.assert_array_equal(found, expected, err_msg=str(options))


BEAMS = [
    {"num_beams": 4, "length_penalty": penalty, "early_stopping": early, "num_return_sequences": 1 + 2 * (penalty > 0)}
    for penalty, early in itertools.product((0.0, 2.0, -1.0), (False, True, "never"))
]


@needs_transformers
@pytest.mark.parametrize("seed", range(2))
def test_beam_search_has_the_rules_of_transformers(seed: int, tmp_path: Path) -> None:
    theirs, ours = prepared("gpt2", tmp_path, seed)
    for options, ends in itertools.product(BEAMS, (2, [2, 7, 30, 31])):
        found, expected = both(theirs, ours, **options, eos_token_id=ends, pad_token_id=1)  # they take 0 for none
        np.testing.assert_array_equal(found, expected, err_msg=f"{options} {ends}")


@needs_transformers
@pytest.mark.parametrize("name", GENERATORS)
def test_every_cached_step_has_the_scores_of_the_whole(name: str, tmp_path: Path) -> None:
    ours = prepared(name, tmp_path)[1]
    mask, tokens = weft.tensor((PADDED != 0).astype(np.int64)), weft.tensor(PADDED)
    new = weft.tensor(np.random.default_rng(0).integers(3, 40, (3, 6)))
    with weft.no_grad():
        if name.startswith("t5"):
            state, whole = ours.start(tokens, mask), ours(tokens, mask, new).logits
        else:
            scores, state = ours.step(tokens, DecoderState(mask=mask))
            whole_mask = weft.cat([mask, weft.ones_like(new)], 1)
            positions = (whole_mask.cumsum(1) - 1).clamp(min=0)
            whole = ours(weft.cat([tokens, new], 1), whole_mask, position_ids=positions).logits
            np.testing.assert_allclose(scores, whole[:, 6], atol=2e-5)
            whole = whole[:, 7:]
        for piece in (slice(0, 1), slice(1, 2), slice(2, 5), slice(5, 6)):  # one by one, and several at once
            scores, state = ours.step(new[:, piece], state)
            np.testing.assert_allclose(scores, whole[:, piece.stop - 1], atol=2e-5)
    for beams in (1, 3):
        runs = [
            ours.generate(tokens, mask, num_beams=beams, use_cache=cached, max_new_tokens=6) for cached in (True, False)
        ]
        np.testing.assert_array_equal(runs[0], runs[1])


# ------------------------------------------------------------------------------------------- without transformers


def table(seed: int = 0, tokens: int = 4) -> weft.Tensor:
    """Scores of the next token given the last two: a model small enough to look at all sequences."""
    return weft.tensor(np.random.default_rng(seed).standard_normal((tokens, tokens, tokens)).astype(np.float32) * 2)


def second_order(scores: weft.Tensor) -> Any:
    return recomputing(lambda x: scores[x[:, :-1], x[:, 1:]])  # (B, T − 1, V)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(seed: int, penalty: float) -> None:
    scores, length, end = table(seed), 4, 3
    log_p = scores.log_softmax(-1).numpy()
    best = (-np.inf, ())
    for tail in itertools.product(range(4), repeat=length):
        tail = tail[: tail.index(end) + 1] if end in tail else tail
        row = (0, 1, *tail)
        total = sum(log_p[row[i], row[i + 1], row[i + 2]] for i in range(len(tail)))
        best = max(best, (total / len(tail) ** penalty, tail))
    found = beam_search(
        second_order(scores),
        weft.tensor([[0, 1]]),
        num_beams=4**length,
        max_new_tokens=length,
        eos_token_id=end,
        length_penalty=penalty,
        early_stopping="never",
    )
    assert found.scores.item() == pytest.approx(best[0], abs=1e-5)
    assert found.sequences[0, 2 : 2 + len(best[1])].tolist() == list(best[1])


def test_one_beam_is_greedy_and_rows_do_not_touch_each_other() -> None:
    step, start = second_order(table(1, 6)), weft.tensor([[0, 1], [4, 2], [3, 3]])
    greedy = greedy_search(step, start, max_new_tokens=6, eos_token_id=5)
    one = beam_search(step, start, num_beams=1, max_new_tokens=6, eos_token_id=5, early_stopping=True).sequences
    np.testing.assert_array_equal(greedy, one)
    for row in range(3):
        alone = greedy_search(step, start[row : row + 1], max_new_tokens=6, eos_token_id=5)[0]
        np.testing.assert_array_equal(greedy[row, : len(alone)], alone)
        assert set(greedy[row, len(alone) :].tolist()) <= {5}  # after the end, padding


def test_ends_padding_and_lengths() -> None:
    step = recomputing(lambda x: weft.nn.functional.one_hot((x + 1) % 8, 8).float())  # counts
    start = weft.tensor([[1], [4]])
    assert greedy_search(step, start, max_new_tokens=5, eos_token_id=5, pad_token_id=7).tolist() == [
        [1, 2, 3, 4, 5],
        [4, 5, 7, 7, 7],
    ]
    assert greedy_search(step, start, max_new_tokens=2).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert greedy_search(step, start, max_new_tokens=0).tolist() == [[1], [4]]
    assert greedy_search(step, start, max_new_tokens=3, eos_token_id=[2, 7]).tolist() == [[1, 2, 2, 2], [4, 5, 6, 7]]


def test_samples_have_the_probabilities_of_the_model() -> None:
    scores = weft.tensor([0.3, 1.7, -0.5, 0.9, -2.0])
    step = recomputing(lambda x: scores.expand(*x.shape, 5))
    rows = weft.zeros(4000, 1, dtype=weft.int64)
    best_two = scores.masked_fill(weft.tensor([1, 0, 1, 0, 1]) == 1, -np.inf).softmax(-1)
    for options, expected in (
        ({}, scores.softmax(-1)),
        ({"temperature": 0.5}, (scores / 0.5).softmax(-1)),
        ({"top_k": 2}, best_two),
        ({"top_p": 0.7}, best_two),  # their mass is 0.76, that of the best alone 0.53
    ):
        drawn = sample(step, rows, max_new_tokens=1, generator=weft.Generator().manual_seed(3), **options)[:, 1]
        shares = np.bincount(drawn.numpy(), minlength=5) / 4000
        np.testing.assert_allclose(shares, expected.numpy(), atol=0.025)


def test_the_same_seed_draws_the_same_text() -> None:
    step, start = second_order(table(2, 9)), weft.tensor([[0, 1], [2, 3]])
    a, b, c = (
        sample(step, start, max_new_tokens=12, generator=weft.Generator().manual_seed(seed)).tolist()
        for seed in (1, 1, 2)
    )
    assert a == b != c


@needs_transformers
def test_cuts_of_scores_are_those_of_transformers() -> None:
    import torch

    library = hf_cases.load_transformers()
    scores = np.random.default_rng(0).standard_normal((5, 50)).astype(np.float32) * 3
    seen = np.random.default_rng(1).integers(0, 50, (5, 9))
    processors = library.generation.logits_process
    for k in (1, 3, 50, 70):
        expected = processors.TopKLogitsWarper(min(k, 50))(torch.tensor(seen), torch.tensor(scores))
        np.testing.assert_array_equal(keep_top_k(weft.tensor(scores), k), expected)
    for p in (0.01, 0.5, 0.9, 0.999):
        expected = processors.TopPLogitsWarper(p)(torch.tensor(seen), torch.tensor(scores))
        np.testing.assert_array_equal(keep_top_p(weft.tensor(scores), p), expected)
    for penalty in (0.5, 1.3):
        expected = processors.RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor(seen), torch.tensor(scores))
        np.testing.assert_allclose(
            penalize_repetition(weft.tensor(scores), weft.tensor(seen), penalty), expected, rtol=1e-6
        )


# ------------------------------------------------------------------------------------------- prefix decoder


@pytest.mark.parametrize(
    "make", [lambda: GPT2LMHeadModel(GPT2Config(**GPT2)), lambda: LlamaForCausalLM(LlamaConfig(**LLAMA))]
)
def test_a_prefix_is_read_in_both_directions_and_the_rest_is_not(make: Any) -> None:
    weft.manual_seed(0)
    model = make().eval()
    with weft.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * weft.randn_like(parameter)
    tokens = weft.tensor([[5, 6, 7, 8, 9, 10]])

    def changed(place: int, prefix: weft.Tensor | None) -> list[bool]:
        """Which places see a change of the token at this place."""
        other = tokens.clone()
        other[0, place] = 30
        a, b = (model(x, prefix_lengths=prefix).logits.detach() for x in (tokens, other))
        return ((a - b).abs().amax(-1)[0] > 1e-6).tolist()

    assert changed(2, weft.tensor([3])) == [True] * 6  # inside the prefix: all see it, those before it too
    assert changed(2, None) == [False, False, True, True, True, True]
    assert changed(4, weft.tensor([3])) == [False] * 4 + [True] * 2
    prefix = weft.tensor([3])
    runs = [
        model.generate(tokens[:, :3], prefix_lengths=prefix, use_cache=cached, max_new_tokens=5, eos_token_id=None)
        for cached in (True, False)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])


def test_wrong_arguments_are_named() -> None:
    step, start = second_order(table()), weft.tensor([[0, 1]])
    for options, words in (
        ({"temperature": 0.0}, "temperature"),
        ({"top_k": -1}, "k >= 0"),
        ({"top_p": 0.0}, "p in"),
        ({"repetition_penalty": 0.0}, "penalty"),
        ({"max_new_tokens": -1}, "max_new_tokens"),
    ):
        with pytest.raises(OptionError, match=words):
            sample(step, start, **options)
    for forced in (-1, 99, [], [0, 99]):
        with pytest.raises(OptionError, match="forced tokens"):
            greedy_search(step, start, forced_eos_token_id=forced)
    for options in ({"num_beams": 0}, {"num_beams": 2, "num_return_sequences": 3}, {"early_stopping": "soon"}):
        with pytest.raises(OptionError, match="beam_search"):
            beam_search(step, start, **options)
    with pytest.raises(OptionError, match="exclude"):
        generate(step, start, do_sample=True, num_beams=2)
    with pytest.raises(ShapeError, match="T >= 1"):
        greedy_search(step, start[0])
    with pytest.raises(ShapeError, match="T >= 1"):
        greedy_search(step, start[:, :0])
    with pytest.raises(ShapeError, match="scores after the last token"):
        greedy_search(lambda tokens, state: (weft.zeros(1, 2, 4), state), start)
    with pytest.raises(ShapeError, match="at most 20 tokens"):
        GPT2LMHeadModel(GPT2Config(**GPT2))(weft.zeros(1, 21, dtype=weft.int64))
    with pytest.raises(ShapeError, match="attention_mask"):
        GPT2LMHeadModel(GPT2Config(**GPT2))(start, weft.ones(1, 3))
