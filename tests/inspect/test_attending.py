"""Attention weights out of models that do not return them, against PyTorch and against formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError
from weft.inspect import attention_maps
from weft.nn.functional import attention as kernels

F = nn.functional


def twins(**options):
    weft.manual_seed(0)
    ours = nn.MultiheadAttention(8, 2, **options)
    theirs = torch.nn.MultiheadAttention(8, 2, **options)
    theirs.load_state_dict({k: torch.tensor(v.detach().array) for k, v in ours.state_dict().items()})
    return ours, theirs.eval()


class Wrapped(nn.Module):
    def __init__(self, attention, **options):
        super().__init__()
        self.inner, self.options = attention, options

    def forward(self, x, **more):
        return self.inner(x, x, x, **self.options, **more)[0]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_weights_by_head_are_those_of_torch(need_weights, batch_first):
    ours, theirs = twins(batch_first=batch_first)
    x = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)
    mask = np.triu(np.ones((5, 5) if batch_first else (3, 3), bool), 1)
    _, expected = theirs(*[torch.tensor(x)] * 3, attn_mask=torch.tensor(mask), average_attn_weights=False)
    model = Wrapped(ours, need_weights=need_weights, attn_mask=weft.tensor(mask))
    before = model(weft.tensor(x)).detach()
    found = attention_maps(model, weft.tensor(x)).weights
    assert list(found) == ["inner"]
    np.testing.assert_allclose(found["inner"], expected.detach().numpy(), atol=1e-6)
    np.testing.assert_array_equal(model(weft.tensor(x)).detach().array, before.array)


def test_what_the_caller_asked_for_is_unchanged():
    ours, _ = twins(batch_first=True)
    seen = {}

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = ours

        def forward(self, x):
            seen["averaged"] = self.inner(x, x, x)[1]
            seen["none"] = self.inner(x, x, x, need_weights=False)[1]
            return x

    found = attention_maps(Reader(), weft.ones(2, 4, 8))
    assert seen["averaged"].shape == (2, 4, 4) and seen["none"] is None
    assert found.weights["inner"].shape == (2, 2, 4, 4)


def test_every_layer_of_an_encoder_and_decoder():
    weft.manual_seed(0)
    model = nn.Transformer(8, 2, 2, 2, 16, batch_first=True)
    found = attention_maps(model, weft.randn(3, 6, 8), weft.randn(3, 4, 8)).weights
    names = [f"encoder.layers.{i}.self_attn" for i in (0, 1)]
    names += [f"decoder.layers.{i}.{part}" for i in (0, 1) for part in ("self_attn", "multihead_attn")]
    assert list(found) == names
    assert [w.shape[1:] for w in found.values()] == [(2, 6, 6)] * 2 + [(2, 4, 4), (2, 4, 6)] * 2
    for weights in found.values():
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


class Functional(nn.Module):
    def forward(self, q, k, v, **options):
        return F.scaled_dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": weft.ones(4, 4).tril().bool()}]
)
def test_functional_attention_by_the_formula(options):
    q, k, v = (np.random.default_rng(i).normal(size=(2, 3, 4, 5)) for i in range(3))
    scores = q @ k.swapaxes(-1, -2) * options.get("scale", 1 / math.sqrt(5))
    if options.keys() & {"is_causal", "attn_mask"}:
        scores = np.where(np.tril(np.ones((4, 4), bool)), scores, -np.inf)
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    found = attention_maps(Functional(), *map(weft.tensor, (q, k, v)), **options)
    np.testing.assert_allclose(found.weights[""], expected, atol=1e-12)


def test_steps_of_a_decoder_become_rows():
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.Attention()

        def forward(self, queries, memory):
            return weft.cat(
                [self.attention(queries[:, t : t + 1], memory, memory)[0] for t in range(queries.shape[1])], 1
            )

    queries, memory = weft.randn(2, 3, 4), weft.randn(2, 7, 4)
    found = attention_maps(Decoder(), queries, memory).weights
    whole = nn.Attention()(queries, memory, memory)[1]
    np.testing.assert_allclose(found["attention"][:, 0], whole.array, atol=1e-6)


def test_nothing_stays_behind_after_an_error():
    attended, forward = kernels._attended, F.multi_head_attention_forward

    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("on the way")

    model = Broken()
    with pytest.raises(RuntimeError, match="on the way"):
        attention_maps(model, weft.ones(1))
    assert kernels._attended is attended and F.multi_head_attention_forward is forward


def test_model_without_attention():
    with pytest.raises(OptionError, match="no attention"):
        attention_maps(nn.Linear(2, 2), weft.ones(1, 2))


def small_models():
    """Models of the supervised family with a name of attention, how often it occurs, heads, queries and keys."""
    from weft.models import supervised as models

    tokens = weft.arange(7).reshape(1, 7)
    small = {
        "vocab_size": 20,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    return {
        "bert": (models.BertModel(models.BertConfig(**small)), (tokens,), 2, (2, 7, 7)),
        "gpt": (
            models.GPT2Model(models.GPT2Config(vocab_size=20, n_embd=8, n_layer=3, n_head=4)),
            (tokens,),
            3,
            (4, 7, 7),
        ),
        "llama": (models.LlamaModel(models.LlamaConfig(**small, num_key_value_heads=1)), (tokens,), 2, (2, 7, 7)),
        "vit": (models.VisionTransformer(8, 4, 2, 2, 8, 16, num_classes=3), (weft.randn(1, 3, 8, 8),), 2, (2, 5, 5)),
        "seq2seq": (models.Seq2Seq(20, 20, 8, 8), (tokens, tokens[:, :4], weft.tensor([7])), 1, (1, 4, 7)),
    }


@pytest.mark.parametrize("name", ["bert", "gpt", "llama", "vit", "seq2seq"])
def test_models_show_where_they_look(name):
    model, inputs, layers, shape = small_models()[name]
    found = attention_maps(model, *inputs).weights
    assert len(found) == layers and {w.shape for w in found.values()} == {(1, *shape)}
    for weights in found.values():
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        if name in ("gpt", "llama"):
            assert not np.triu(weights, 1).any()
