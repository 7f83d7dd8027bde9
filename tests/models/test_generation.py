"""Options of `generate`, as arguments and in generation_config.json, beside transformers'; what they cannot be."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError
from weft.models import from_pretrained
from weft.models.supervised import GenerationConfig, GPT2Config, GPT2LMHeadModel
from weft.models.text.processors import forbid_repeated_ngrams, forbid_words

from .hf_cases import CASES, GPT2, load_transformers, needs_transformers, save

PADDED = np.array([[0, 0, 0, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15], [0, 0, 0, 0, 0, 0, 30]])
MASK = (PADDED != 0).astype(np.int64)
OPTIONS: dict[str, dict[str, Any]] = {
    "min_length": {"min_length": 12, "eos_token_id": [2, 7, 30, 31, 5, 17]},
    "min_new_tokens": {"min_new_tokens": 5, "min_length": 3, "eos_token_id": [2, 7, 30, 31, 5, 17]},
    "no_repeat_ngram_size 1": {"no_repeat_ngram_size": 1},
    "no_repeat_ngram_size 2": {"no_repeat_ngram_size": 2, "max_new_tokens": 12},
    "no_repeat_ngram_size 3": {"no_repeat_ngram_size": 3, "max_new_tokens": 12},
    "repetition_penalty": {"repetition_penalty": 2.5, "no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": [[7], [30], [17, 3], [5, 5], [2], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]},
    "forced": {"forced_bos_token_id": 9, "forced_eos_token_id": [3]},
    "suppressed": {"suppress_tokens": [7, 30], "begin_suppress_tokens": [5, 17, 2, 31]},
    "max_length": {"max_length": 11, "max_new_tokens": None},
    "all": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 3, "bad_words_ids": [[4], [6, 8]]},
}
BEAMS = {"num_beams": 3, "length_penalty": 0.6, "early_stopping": True, "num_return_sequences": 2}


def prepared(name: str, folder: Path, **fields: Any) -> tuple[Any, Any]:
    """Their model and ours, with these fields of generation_config.json; 1 is padding, since their beams take 0 for none."""
    theirs = save(CASES[name], folder)
    given = {"pad_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None, **fields}
    for key, value in given.items():
        setattr(theirs.generation_config, key, value)
    theirs.generation_config.save_pretrained(folder)
    return theirs, from_pretrained(folder)


def both(theirs: Any, ours: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    import torch

    expected = theirs.generate(torch.tensor(PADDED), attention_mask=torch.tensor(MASK), **options)
    return ours.generate(weft.tensor(PADDED), weft.tensor(MASK), **options).numpy(), expected.numpy()


@needs_transformers
@pytest.mark.parametrize("name", ["gpt2", "t5", "bart"])
def test_every_option_writes_what_transformers_writes(name: str, tmp_path: Path) -> None:
    theirs, ours = prepared(name, tmp_path)
    plain, differs = both(theirs, ours, max_new_tokens=8)[0], 0
    for key, options in OPTIONS.items():
        for way in ({}, BEAMS):
            found, expected = both(theirs, ours, **{"max_new_tokens": 8, **options, **way})
            np.testing.assert_array_equal(found, expected, err_msg=f"{key} {way}")
            differs += not way and (found.shape != plain.shape or (found != plain).any())
    assert differs >= 7  # the options do something


@needs_transformers
@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("gpt2", key) for key in (*OPTIONS, "beams") if key != "forced"),
        *(("bart", key) for key in ("min_length", "bad words", "beams")),
    ],
)
def test_generation_config_is_read(name: str, key: str, tmp_path: Path) -> None:
    """The options stand in the file alone; arguments come before it."""
    fields = {"max_new_tokens": 8, **OPTIONS["min_length"], **BEAMS} if key == "beams" else OPTIONS[key]
    theirs, ours = prepared(name, tmp_path, **fields)
    found, expected = both(theirs, ours)
    np.testing.assert_array_equal(found, expected)
    found, expected = both(theirs, ours, num_beams=1, num_return_sequences=1, no_repeat_ngram_size=0, max_new_tokens=4)
    np.testing.assert_array_equal(found, expected)
    ours.save_pretrained(tmp_path / "again")
    again = load_transformers().GenerationConfig.from_pretrained(tmp_path / "again")
    assert again.to_diff_dict() == theirs.generation_config.to_diff_dict()


@needs_transformers
def test_padding_is_found_without_a_mask(tmp_path: Path) -> None:
    import torch

    theirs, ours = prepared("gpt2", tmp_path, pad_token_id=0)
    expected = theirs.generate(torch.tensor(PADDED), max_new_tokens=6).numpy()
    np.testing.assert_array_equal(ours.generate(weft.tensor(PADDED), max_new_tokens=6), expected)
    with_mask = ours.generate(weft.tensor(PADDED), weft.tensor(MASK), max_new_tokens=6)
    np.testing.assert_array_equal(with_mask, expected)
    blind = ours.generate(weft.tensor(PADDED), max_new_tokens=6, pad_token_id=None)
    assert (blind.numpy() != expected).any()


@needs_transformers
def test_without_a_length_twenty_tokens_or_all_that_have_room(tmp_path: Path) -> None:
    theirs, ours = prepared("gpt2", tmp_path)  # 20 positions, 7 of them taken
    found, expected = both(theirs, ours, eos_token_id=None)
    assert found.shape == (3, 20)
    np.testing.assert_array_equal(found, expected)
    theirs, ours = prepared("llama", tmp_path / "llama")
    assert both(theirs, ours, eos_token_id=None)[0].shape == (3, 27)


def test_older_folders_say_it_in_config_json(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(**GPT2))
    model.save_pretrained(tmp_path)
    assert not (tmp_path / "generation_config.json").exists()  # nothing to say
    fields = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**fields, "num_beams": 2, "no_repeat_ngram_size": 1}))
    found = from_pretrained(tmp_path)
    assert found.generation_config.said() == {"num_beams": 2, "no_repeat_ngram_size": 1}
    row = found.generate(weft.tensor([[5, 6]]), max_new_tokens=9, eos_token_id=None)[0].tolist()
    assert len(set(row)) == len(row) == 11


def test_what_a_file_asks_for_in_vain_is_named(tmp_path: Path) -> None:
    GPT2LMHeadModel(GPT2Config(**GPT2)).save_pretrained(tmp_path)
    fields = {"typical_p": 0.9, "penalty_alpha": 0.6, "diversity_penalty": 0.0, "temperature": 0.6, "top_k": 5}
    (tmp_path / "generation_config.json").write_text(json.dumps(fields))
    with pytest.warns(UserWarning, match="typical_p, penalty_alpha is not supported"):
        model = from_pretrained(tmp_path)
    assert model.generation_config.to_dict() == fields
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.generate(
            weft.tensor([[5]]), max_new_tokens=2
        )  # temperature of the file is for sampling: no word about it
    with pytest.warns(UserWarning, match="temperature has no effect"):
        model.generate(weft.tensor([[5]]), max_new_tokens=2, temperature=0.5)


def test_samples_follow_the_file_and_come_in_numbers() -> None:
    model = GPT2LMHeadModel(GPT2Config(**GPT2)).eval()
    model.generation_config = GenerationConfig(do_sample=True, top_k=1, max_new_tokens=5)
    tokens = weft.tensor(PADDED[1:])
    greedy = model.generate(tokens, do_sample=False)
    np.testing.assert_array_equal(model.generate(tokens, num_return_sequences=3), greedy.repeat_interleave(3, 0))
    drawn = model.generate(tokens, top_k=0, num_return_sequences=4, generator=weft.Generator().manual_seed(0))
    assert drawn.shape[0] == 8 and len({tuple(row) for row in drawn.tolist()}) > 4
    told = model.generate(tokens, generation_config=GenerationConfig(max_new_tokens=2, eos_token_id=None))
    assert told.shape == (2, 9)


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown": ({"beams": 3}, OptionError, "beams are unknown; expected some of max_length"),
    "not supported": ({"penalty_alpha": 0.6}, OptionError, "penalty_alpha are not supported"),
    "too short": ({"max_length": 7}, ShapeError, "max_length=7 counts the beginning, which has 7"),
    "too long": ({"max_new_tokens": 15}, ShapeError, "14 new ones have room"),
    "several greedy": ({"num_return_sequences": 2}, OptionError, "greedy search has one result"),
    "no samples": ({"num_return_sequences": 0, "do_sample": True}, OptionError, "1 or more, got 0"),
    "n-grams": ({"no_repeat_ngram_size": -1}, OptionError, "no_repeat_ngram_size: expected an integer of 0"),
    "least": ({"min_new_tokens": -2}, OptionError, "min_new_tokens"),
    "words": ({"bad_words_ids": [3]}, OptionError, "bad_words_ids: expected lists"),
    "no words": ({"bad_words_ids": [[]]}, OptionError, "each of one or more"),
    "large words": ({"bad_words_ids": [[40]]}, OptionError, "from 0 to 39"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_are_named(name: str) -> None:
    options, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        GPT2LMHeadModel(GPT2Config(**GPT2)).generate(weft.tensor(PADDED), **options)


def test_runs_of_tokens_by_hand() -> None:
    tokens = weft.tensor([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]])
    banned = [
        (forbid_repeated_ngrams(weft.zeros(2, 6), tokens, size) == -np.inf).tolist() for size in (0, 1, 2, 3, 5, 6)
    ]
    chosen = [[{i for i, out in enumerate(row) if out} for row in rows] for rows in banned]
    assert chosen == [[set(), set()], [{1, 2, 3}, {4}], [{3}, {4}], [{3}, {4}], [set(), {4}], [set(), set()]]
    words = forbid_words(weft.zeros(2, 6), tokens, [[5], [1, 2, 3], [3, 2], [4, 4, 4, 4, 4, 0]]) == -np.inf
    assert [{i for i, out in enumerate(row) if out} for row in words.tolist()] == [{5, 3}, {5, 0}]
