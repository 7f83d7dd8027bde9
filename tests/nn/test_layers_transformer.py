"""Multi-head attention and transformers as modules, against PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import weft

from .modules_harness import check_module, load_weights

L, S, N, E = 4, 5, 3, 8  # target length, source length, examples, width
CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask
AHEAD = lambda size: torch.ones(size, size, dtype=torch.bool).triu(
    1
)  # PyTorch gives a float mask no gradient if causal
PADDING = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)  # (N, S)

ATTENTION = [
    {},
    {"bias": False},
    {"kdim": 5, "vdim": 7},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"batch_first": True},
    {"kdim": 6, "add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
]
CALLS = {
    "plain": {},
    "without weights": {"need_weights": False},
    "weights of each head": {"average_attn_weights": False},
    "padding": {"key_padding_mask": PADDING},
    "float padding": {"key_padding_mask": torch.zeros(N, S).masked_fill(PADDING, -1e4)},
    "mask": {"attn_mask": torch.ones(L, S, dtype=torch.bool).triu(2)},
    "float mask of each head": {"attn_mask": torch.randn(2 * N, L, S, generator=torch.Generator().manual_seed(0))},
    "both": {"attn_mask": torch.ones(L, S, dtype=torch.bool).triu(2), "key_padding_mask": PADDING},
    "both without weights": {
        "attn_mask": CAUSAL(S)[:L],
        "key_padding_mask": PADDING.double() * -9,
        "need_weights": False,
    },
}


def pair(name, *args, **options):
    torch.manual_seed(0)
    return getattr(torch.nn, name)(*args, **options), getattr(weft.nn, name)(*args, **options)


def turned(shape, batch_first):
    """(L, N, E) → (N, L, E)."""
    return (shape[1], shape[0], shape[2]) if batch_first else shape


@pytest.mark.parametrize("options", ATTENTION)
@pytest.mark.parametrize("call", CALLS)
def test_attention_equals_torch(options, call):
    theirs, ours = pair("MultiheadAttention", E, 2, **options)
    shapes = [(L, N, E), (S, N, options.get("kdim", E)), (S, N, options.get("vdim", E))]
    inputs = [torch.randn(turned(s, options.get("batch_first", False))) for s in shapes]
    keep = {k: v for k, v in CALLS[call].items() if not isinstance(v, torch.Tensor)}
    masks = {k: v for k, v in CALLS[call].items() if isinstance(v, torch.Tensor)}
    check_module(theirs, ours, inputs, keep | masks)


@pytest.mark.parametrize("options", ATTENTION)
def test_attention_on_one_example_equals_torch(options):
    theirs, ours = pair("MultiheadAttention", E, 2, **options)
    check_module(theirs, ours, [(L, E), (S, options.get("kdim", E)), (S, options.get("vdim", E))])


@pytest.mark.parametrize("batch_first", [False, True])
def test_self_attention_uses_one_projection(batch_first):
    theirs, ours = pair("MultiheadAttention", E, 4, batch_first=batch_first)
    theirs.double(), ours.double()
    load_weights(theirs, ours)
    x = torch.randn(N, L, E, dtype=torch.float64)
    want, mine = theirs(x, x, x), weft.tensor(x.numpy())
    for a, b in zip(ours(mine, mine, mine), want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-8)


def test_initial_weights_are_xavier():
    layer = weft.nn.MultiheadAttention(64, 4)
    bound = (6 / (64 + 192)) ** 0.5
    assert 0.99 * bound < float(layer.in_proj_weight.abs().max()) <= bound
    assert not layer.in_proj_bias.any() and not layer.out_proj.bias.any()


def test_attention_errors():
    for module in (torch, weft):
        with pytest.raises(AssertionError, match="divisible"):
            module.nn.MultiheadAttention(5, 2)
        with pytest.raises(ValueError, match="greater than 0"):
            module.nn.MultiheadAttention(0, 2)


# ---------------------------------------------------------------------------------------------- transformers

LAYERS = [
    {},
    {"norm_first": True},
    {"batch_first": True},
    {"bias": False, "activation": "gelu"},
    {"norm_first": True, "batch_first": True, "activation": "gelu", "layer_norm_eps": 1e-3},
    {"norm_first": True, "bias": False},
]


def shaped(options, *shapes):
    return [turned(shape, options.get("batch_first", False)) for shape in shapes]


ENCODER_CALLS = [{}, {"src_mask": AHEAD(S), "is_causal": True}, {"src_key_padding_mask": PADDING}]
DECODER_CALLS = [
    {},
    {"tgt_mask": AHEAD(L), "tgt_is_causal": True, "memory_key_padding_mask": PADDING},
    {"memory_mask": torch.ones(L, S, dtype=torch.bool).triu(2), "tgt_key_padding_mask": PADDING[:, :L]},
]


@pytest.mark.parametrize("options", LAYERS)
def test_encoder_layer_equals_torch(options):
    for call, train in itertools.product(ENCODER_CALLS, (True, False)):
        theirs, ours = pair("TransformerEncoderLayer", E, 2, 12, 0.0, **options)
        check_module(theirs, ours, shaped(options, (S, N, E)), call, train=train)
        if "src_key_padding_mask" not in call:
            check_module(theirs, ours, [(S, E)], call, train=train)


@pytest.mark.parametrize("options", LAYERS)
def test_decoder_layer_equals_torch(options):
    for call in DECODER_CALLS:
        theirs, ours = pair("TransformerDecoderLayer", E, 2, 12, 0.0, **options)
        check_module(theirs, ours, shaped(options, (L, N, E), (S, N, E)), call)
    check_module(*pair("TransformerDecoderLayer", E, 2, 12, 0.0, **options), [(L, E), (S, E)])


@pytest.mark.parametrize("options", LAYERS)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_stacks_equal_torch(options):
    for module_name, call in (
        ("Encoder", {"mask": AHEAD(S), "is_causal": True}),
        ("Decoder", {"tgt_mask": AHEAD(L)}),
    ):
        pairs = []
        for nn in (torch.nn, weft.nn):
            layer = getattr(nn, f"Transformer{module_name}Layer")(E, 2, 12, 0.0, **options)
            pairs.append(getattr(nn, "Transformer" + module_name)(layer, 2, nn.LayerNorm(E)))
        shapes = [(S, N, E)] if module_name == "Encoder" else [(L, N, E), (S, N, E)]
        check_module(*pairs, shaped(options, *shapes), call)


@pytest.mark.parametrize("options", LAYERS)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_transformer_equals_torch(options):
    options = {"nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 1, "dropout": 0.0, **options}
    call = {"tgt_mask": AHEAD(L), "src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING}
    check_module(*pair("Transformer", E, dim_feedforward=12, **options), shaped(options, (S, N, E), (L, N, E)), call)
    check_module(*pair("Transformer", E, dim_feedforward=12, **options), [(S, E), (L, E)])


def test_an_activation_module_is_a_part():
    theirs = torch.nn.TransformerEncoderLayer(E, 2, 12, 0.0, activation=torch.nn.SiLU())
    ours = weft.nn.TransformerEncoderLayer(E, 2, 12, 0.0, activation=weft.nn.SiLU())
    check_module(theirs, ours, [(S, N, E)])


def test_dropout_is_on_in_training_only():
    layer, x = weft.nn.TransformerEncoderLayer(E, 2, 12, 0.5), weft.randn(S, N, E)
    assert (layer(x) != layer(x)).any()
    np.testing.assert_array_equal(layer.eval()(x).detach().numpy(), layer(x).detach().numpy())


def test_a_causal_decoder_never_looks_ahead():
    """Changing the last token leaves the outputs before it as they were, bit for bit."""
    model = weft.nn.Transformer(E, 2, 1, 2, 12, 0.0).double()
    mask = weft.nn.Transformer.generate_square_subsequent_mask(L, dtype=weft.float64)
    src, tgt = weft.randn(S, N, E, dtype=weft.float64), weft.randn(L, N, E, dtype=weft.float64)
    other = tgt.clone()
    other[-1] += 1
    a, b = (model(src, t, tgt_mask=mask).detach().numpy() for t in (tgt, other))
    np.testing.assert_allclose(a[:-1], b[:-1], 1e-12)
    assert not np.allclose(a[-1], b[-1])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_masks_and_errors():
    np.testing.assert_array_equal(weft.nn.Transformer.generate_square_subsequent_mask(4).numpy(), CAUSAL(4).numpy())
    calls = [
        (lambda m: m.nn.Transformer(4, 2, 1, 1, 8)(m.zeros(3, 2, 4), m.zeros(3, 1, 4)), "batch number"),
        (lambda m: m.nn.Transformer(4, 2, 1, 1, 8)(m.zeros(3, 2, 5), m.zeros(3, 2, 5)), "feature number"),
        (lambda m: m.nn.TransformerEncoderLayer(4, 2, activation="x"), "relu/gelu"),
        (lambda m: m.nn.TransformerEncoderLayer(4, 2)(m.zeros(3, 2, 4), is_causal=True), "(?i)need attn_mask"),
    ]
    for call, message in calls:
        for module in (torch, weft):
            with pytest.raises((RuntimeError, ValueError), match=message):
                call(module)


def test_initial_matrices_of_the_transformer_are_xavier():
    model = weft.nn.Transformer(32, 4, 1, 1, 64)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.98 * bound < float(parameter.abs().max()) <= bound


def test_numbers_of_layers_that_nobody_can_mean_are_refused():
    layer = weft.nn.TransformerDecoderLayer(4, 1, 4)
    with pytest.raises(weft.errors.OptionError, match="num_layers"):
        weft.nn.TransformerDecoder(layer, 1 << 20)
