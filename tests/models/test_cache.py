"""Keys and values kept: no cache, a growing one, one of fixed capacity and its compiled steps say the same, as transformers does."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError
from weft.models import from_pretrained
from weft.models.supervised import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    TranslationTransformer,
)
from weft.models.text.cache import EMPTY, Cache, Past, compiled_steps, fixed_capacity
from weft.models.text.decoding import generate
from weft.models.transformers.blocks import KeyValues
from weft.models.transformers.causal import DecoderState

from .hf_cases import CASES, GPT2, LLAMA, T5, needs_transformers, save

PADDED = np.array([[0, 0, 0, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15], [0, 0, 0, 0, 0, 0, 30]])
MASK = (PADDED != 0).astype(np.int64)
DYNAMIC = {"max_position_embeddings": 8, "rope_scaling": {"rope_type": "dynamic", "factor": 3.0}}
LONG = {**GPT2, "n_positions": 48}
MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**LONG)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA)),
    "llama-dynamic": lambda: LlamaForCausalLM(LlamaConfig(**{**LLAMA, **DYNAMIC})),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**LLAMA, sliding_window=3)),
    "t5": lambda: T5ForConditionalGeneration(T5Config(**T5)),
}


def made(name: str) -> Any:
    """A model in evaluation, its weights wide enough apart that scores differ."""
    weft.manual_seed(0)
    model = MODELS[name]().eval()
    with weft.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * weft.randn_like(parameter)
    return model


def plans(model: Any) -> int:
    return sum(map(len, model._compiled_step.plans.values()))


def started(model: Any, name: str) -> tuple[Any, weft.Tensor, weft.Tensor]:
    """The first state, the tokens of the first step, and the scores of all places for TAIL after them."""
    tokens, mask = weft.tensor(PADDED), weft.tensor(MASK)
    if name == "t5":
        first = weft.zeros(3, 1, dtype=weft.int64)
        return model.start(tokens, mask), first, model(tokens, mask, weft.cat([first, TAIL], 1)).logits
    whole_mask = weft.cat([mask, weft.ones_like(TAIL)], 1)
    positions = (whole_mask.cumsum(1) - 1).clamp(min=0)
    whole = model(weft.cat([tokens, TAIL], 1), whole_mask, position_ids=positions).logits
    return DecoderState(mask=mask), tokens, whole


TAIL = weft.tensor(np.random.default_rng(0).integers(3, 40, (3, 9)))


@pytest.mark.parametrize("name", MODELS)
def test_the_scores_of_all_layouts_are_those_of_the_whole(name: str) -> None:
    model = made(name)
    with weft.no_grad():
        first, tokens, whole = started(model, name)
        compiled = weft.compile(model.step)
        states = [model.step(tokens, first)[1]]
        states += [states[0].with_capacity(32)] * 2
        seen = tokens.shape[1]
        for piece in (slice(0, 1), slice(1, 2), slice(2, 5), slice(5, 6), slice(6, 9)):  # one by one, several at once
            found = [
                step(TAIL[:, piece], x) for step, x in zip((model.step, model.step, compiled), states, strict=True)
            ]
            states = [state for _, state in found]
            for scores, _ in found[1:]:
                np.testing.assert_allclose(scores, found[0][0], atol=1e-5)
            if name != "llama-dynamic":  # its angles depend on how long the text was when a key was made
                np.testing.assert_allclose(found[0][0], whole[:, seen + piece.stop - 1], atol=2e-5)
    assert sum(map(len, compiled.plans.values())) == 2  # for one token, for three
    assert states[1].past.length.item() == states[2].past.length.item() == states[0].past.start == seen + 9


WAYS = ({}, {"num_beams": 3}, {"do_sample": True, "temperature": 0.7, "top_k": 12, "top_p": 0.9})


@pytest.mark.parametrize("name", MODELS)
def test_all_layouts_write_the_same_tokens(name: str) -> None:
    model = made(name)
    for way in WAYS:
        runs = []
        for layout in ({"compiled": True}, {}, {"use_cache": False}):
            drawn = {"generator": weft.Generator().manual_seed(5)} if "do_sample" in way else {}
            tokens, mask = weft.tensor(PADDED), weft.tensor(MASK)
            runs.append(model.generate(tokens, mask, max_new_tokens=12, eos_token_id=None, **way, **layout, **drawn))
        np.testing.assert_array_equal(runs[0], runs[1], err_msg=str(way))
        if name != "llama-dynamic":
            np.testing.assert_array_equal(runs[0], runs[2], err_msg=str(way))
    assert plans(model) == 2  # for three rows, and for three beams of each


@needs_transformers
@pytest.mark.parametrize("name", ["gpt2", "llama", "llama-longrope-short", "mistral", "qwen3", "t5", "t5-v1.1"])
def test_compiled_steps_write_what_transformers_writes(name: str, tmp_path: Path) -> None:
    import torch

    theirs = save(CASES[name], tmp_path, seed=0)
    theirs.generation_config.pad_token_id, theirs.generation_config.eos_token_id = 1, 2  # their beams take 0 for none
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    for way in ({}, {"num_beams": 3}):
        given = {"max_new_tokens": 8, **way}
        expected = theirs.generate(
            torch.tensor(PADDED), attention_mask=torch.tensor(MASK), do_sample=False, **given
        ).numpy()
        found = ours.generate(weft.tensor(PADDED), weft.tensor(MASK), compiled=True, **given)
        np.testing.assert_array_equal(found, expected, err_msg=str(way))


# ------------------------------------------------------------------------------------------- plans


def test_one_plan_serves_all_tokens_and_other_beginnings() -> None:
    model = made("gpt2")
    options = {"eos_token_id": None, "compiled": True}
    for length in (1, 2, 7, 18):  # a text of one token too: it is the beginning, not a step
        tokens = weft.tensor(PADDED[1:2].repeat(3, 1)[:, :length])
        found = model.generate(tokens, max_new_tokens=30, **options)
        np.testing.assert_array_equal(found, model.generate(tokens, max_new_tokens=30, eos_token_id=None))
        assert plans(model) == (1 if length < 3 else 2), length  # 31 places lie in 32; 48 of the model are the most
    assert model.generate(weft.tensor(PADDED[:2]), max_new_tokens=30, **options).shape == (2, 37)
    assert plans(model) == 3  # another batch
    one = weft.tensor(PADDED[1:2])
    beams = [
        model.generate(one, max_new_tokens=30, num_beams=3, eos_token_id=None, compiled=way) for way in (True, False)
    ]
    np.testing.assert_array_equal(*beams)
    assert plans(model) == 4


def test_a_plan_follows_the_weights_and_belongs_to_one_model() -> None:
    model, tokens = made("llama"), weft.tensor(PADDED[1:])
    options = {"max_new_tokens": 10, "eos_token_id": None}
    before = model.generate(tokens, compiled=True, **options)
    shallow, deep = copy.copy(model), copy.deepcopy(model)
    with weft.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * weft.randn_like(parameter)
    after = model.generate(tokens, compiled=True, **options)
    np.testing.assert_array_equal(after, model.generate(tokens, **options))
    assert plans(model) == 1 and (after.numpy() != before.numpy()).any()
    np.testing.assert_array_equal(deep.generate(tokens, compiled=True, **options), before)
    np.testing.assert_array_equal(shallow.generate(tokens, compiled=True, **options), after)  # it shares the weights
    assert shallow._compiled_step is not model._compiled_step


def test_a_prefix_is_seen_by_compiled_steps() -> None:
    model, tokens = made("gpt2"), weft.tensor(PADDED[1:2])
    runs = [
        model.generate(tokens, prefix_lengths=weft.tensor([4]), max_new_tokens=8, eos_token_id=None, **way)
        for way in ({"compiled": True}, {}, {"use_cache": False})
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_translation_transformer_has_compiled_steps(norm_first: bool) -> None:
    weft.manual_seed(1)
    sizes = {"d_model": 8, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 2, "dim_feedforward": 16}
    model = TranslationTransformer(40, 40, **sizes, dropout=0.0, norm_first=norm_first).eval()
    first = weft.ones(3, 1, dtype=weft.int64)
    for way in ({}, {"num_beams": 3}):
        runs = []
        for step in (model.step, fixed_capacity(model.step, 16), compiled_steps(model, 10)):
            with weft.no_grad():
                state = model.start(weft.tensor(PADDED))
            runs.append(generate(step, first, state, max_new_tokens=10, eos_token_id=3, **way))
        for run in runs[1:]:
            np.testing.assert_array_equal(run, runs[0])
    assert plans(model) <= 2


# ------------------------------------------------------------------------------------------- the cache itself


def test_new_places_are_written_and_the_old_state_stays() -> None:
    x = weft.arange(1.0, 49.0).reshape(2, 1, 4, 6)  # (B, G, T, D)
    growing = Cache((KeyValues(x[:, :, :1], -x[:, :, :1]),))
    fixed = growing.with_capacity(7)
    for piece in (slice(1, 2), slice(2, 4)):
        old = fixed
        new = x[:, :, piece], -x[:, :, piece]
        count = piece.stop - piece.start
        growing = growing.after([past.append(*new) for past in growing.before(1)], count)
        fixed = fixed.after([past.append(*new) for past in fixed.before(1)], count)
        assert (old.layers[0].keys[:, :, piece] == 0).all() and old.length.item() == piece.start
    assert growing.start == 4 and fixed.length.item() == 4 and fixed.keys_after(3) == 7
    for small, large, sign in zip(growing.layers[0], fixed.layers[0], (1, -1), strict=True):
        np.testing.assert_array_equal(small, sign * x)
        np.testing.assert_array_equal(large[:, :, :4], small)
        assert (large[:, :, 4:] == 0).all()


def test_what_does_not_fit_is_named() -> None:
    model, tokens = made("gpt2"), weft.tensor(PADDED)
    for layout in ({}, {"compiled": True}, {"use_cache": False}):
        with pytest.raises(ShapeError, match="42 new ones have room"):
            model.generate(tokens, max_new_tokens=43, **layout)
        assert model.generate(tokens, max_new_tokens=42, eos_token_id=None, **layout).shape == (3, 49)
    with weft.no_grad():
        _, state = model.step(tokens)
        with pytest.raises(ShapeError, match="capacity of 7 or more"):
            state.with_capacity(6)
        with pytest.raises(ShapeError, match="a growing cache"):
            state.with_capacity(8).with_capacity(9)
        with pytest.raises(ShapeError, match="a growing cache"):
            EMPTY.with_capacity(9)
        for step in (model.step, fixed_capacity(model.step, 8, weft.compile(model.step))):
            _, full = step(tokens[:, :1], state.with_capacity(8))
            with pytest.raises(ShapeError, match=r"at most 8 places, its capacity, got 8 \+ 1"):
                step(tokens[:, :1], full)
        for one in (state, state.with_capacity(9)):
            with pytest.raises(ShapeError, match="for its 3 rows, got 2"):
                model.step(tokens[:2, :1], one._replace(mask=None))
    with pytest.raises(ShapeError, match="for its 2 rows"):
        Past(KeyValues(weft.zeros(2, 1, 3, 4), weft.zeros(2, 1, 3, 4))).append(*[weft.zeros(1, 1, 1, 4)] * 2)
    with pytest.raises(OptionError, match="use_cache"):
        model.generate(tokens, use_cache=False, compiled=True)
