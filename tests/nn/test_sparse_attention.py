"""Sparse masks against brute force, the window against the masked form, linear attention against the quadratic one."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
import torch

import weft
import weft.nn.functional as F
from weft import nn

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_for_every_test() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state
    weft.manual_seed(0)


def tensors(*shapes: tuple[int, ...]) -> list[weft.Tensor]:
    return [weft.tensor(RANDOM.standard_normal(shape)).requires_grad_() for shape in shapes]


# -------------------------------------------------------------------------------------------------- masks

MASKS: dict[str, tuple[weft.Tensor, Callable[[int, int], bool]]] = {
    "causal": (nn.causal_mask(9), lambda i, j: j <= i),
    "local": (nn.local_mask(9, 2), lambda i, j: abs(i - j) <= 2),
    "local 0": (nn.local_mask(9, 0), lambda i, j: i == j),
    "dilated": (nn.local_mask(9, 2, dilation=3), lambda i, j: i - j in (-6, -3, 0, 3, 6)),
    "strided": (nn.strided_mask(9, 4), lambda i, j: i % 4 == j % 4),
    "block": (nn.block_mask(9, 4), lambda i, j: i // 4 == j // 4),
    "global first": (nn.global_mask(9, 2), lambda i, j: i < 2 or j < 2),
    "global chosen": (nn.global_mask(9, [3, 8]), lambda i, j: i in (3, 8) or j in (3, 8)),
    "combined": (
        (nn.local_mask(9, 1) | nn.strided_mask(9, 3)) & nn.causal_mask(9),
        lambda i, j: j <= i and (i - j <= 1 or (i - j) % 3 == 0),
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_against_brute_force(name: str) -> None:
    mask, rule = MASKS[name]
    assert mask.dtype is weft.bool
    assert mask.tolist() == [[rule(i, j) for j in range(9)] for i in range(9)]


def test_local_and_strided_masks_connect_all_places_in_two_steps() -> None:
    """The claim of sparse transformers: O(n √n) pairs, and information travels anywhere in two layers."""
    n, stride = 64, 8
    mask = (nn.local_mask(n, stride) | nn.strided_mask(n, stride)).numpy().astype(int)
    assert (mask @ mask > 0).all()
    assert mask.sum() <= 4 * n * math.sqrt(n)


def test_options_are_checked() -> None:
    for wrong in (lambda: nn.strided_mask(5, 0), lambda: nn.block_mask(5, 0), lambda: nn.local_mask(5, 1, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            wrong()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 3, 20])
def test_window_equals_masked_attention(window: int, causal: bool) -> None:
    q, k, v = tensors((2, 3, 9, 4), (2, 3, 9, 4), (2, 3, 9, 5))
    mask = nn.local_mask(9, window) & (nn.causal_mask(9) if causal else weft.tensor(True))
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(torch.tensor(x.detach().numpy(), requires_grad=True) for x in (q, k, v)), attn_mask=torch.tensor(mask.numpy())
    )
    np.testing.assert_allclose(
        nn.local_attention(q, k, v, window, causal).detach().numpy(), expected.detach().numpy(), atol=1e-12
    )


def test_window_has_true_gradients() -> None:
    assert weft.autograd.gradcheck(lambda q, k, v: nn.local_attention(q, k, v, 1), tensors((4, 2), (4, 2), (4, 3)))


# --------------------------------------------------------------------------------------- linear attention


def quadratic(
    q: weft.Tensor, k: weft.Tensor, v: weft.Tensor, feature_map: Callable, causal: bool, key_mask: weft.Tensor | None
) -> weft.Tensor:
    """N3: h_i = Σ_j φ(q_i)ᵀφ(k_j) v_j / Σ_j φ(q_i)ᵀφ(k_j), pair by pair."""
    weights = feature_map(q) @ feature_map(k).mT
    if causal:
        weights = weights * nn.causal_mask(q.shape[-2])
    if key_mask is not None:
        weights = weights * key_mask.unsqueeze(-2)
    return weights / weights.sum(-1, keepdim=True) @ v


FEATURE_MAPS = {"elu": nn.positive_elu, "exp": weft.exp, "square": lambda x: weft.cat([x * x, x * x + 1], -1)}


@pytest.mark.parametrize("name", FEATURE_MAPS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("length", "chunk"), [(1, 4), (8, 4), (11, 4), (11, 64)])
def test_linear_attention_equals_the_quadratic_form(
    name: str, causal: bool, masked: bool, length: int, chunk: int
) -> None:
    inputs = tensors((2, 3, length, 4), (2, 3, length, 4), (2, 3, length, 5))
    key_mask = weft.tensor(RANDOM.random((2, 3, length)) < 0.7) if masked else None
    if masked:
        key_mask[..., 0] = True  # every query sees something
    g = weft.tensor(RANDOM.standard_normal((2, 3, length, 5)))
    found = nn.linear_attention(*inputs, FEATURE_MAPS[name], causal, key_mask, chunk)
    expected = quadratic(*inputs, FEATURE_MAPS[name], causal, key_mask)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-12)
    mine, reference = (weft.autograd.grad(y, inputs, g) for y in (found, expected))
    for a, b in zip(mine, reference, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-11)


def test_random_features_of_the_exponential_approach_softmax() -> None:
    """φ(x) = exp(Ω x − ‖x‖²/2)/√m has E[φ(q)ᵀφ(k)] = exp(qᵀk): linear attention tends to softmax attention."""
    q, k, v = (0.5 * x.detach() for x in tensors((6, 3), (6, 3), (6, 2)))
    exact = nn.Attention(nn.DotScore())(q, k, v)[0].numpy()
    errors = []
    for count in (10, 100000):
        directions = weft.tensor(RANDOM.standard_normal((3, count)))
        feature_map = lambda x, w=directions: (x @ w - (x * x).sum(-1, keepdim=True) / 2).exp() / math.sqrt(w.shape[1])
        errors.append(np.abs(nn.linear_attention(q, k, v, feature_map).numpy() - exact).max())
    assert errors[1] < 0.01 < errors[0]


def test_causal_form_needs_equal_lengths_and_empty_rows_are_zero() -> None:
    q, k = weft.ones(3, 2), weft.ones(4, 2)
    with pytest.raises(RuntimeError, match="as many keys as queries"):
        nn.linear_attention(q, k, k, causal=True)
    nothing = weft.zeros(4, dtype=weft.bool)
    assert nn.linear_attention(q, k, k, key_mask=nothing).tolist() == [[0, 0]] * 3


FORMS: dict[str, Callable[..., weft.Tensor]] = {
    "plain": nn.linear_attention,
    "causal": lambda q, k, v: nn.linear_attention(q, k, v, causal=True),
    "window": lambda q, k, v: nn.local_attention(q, k, v, 4),
}


@pytest.mark.parametrize("form", FORMS)
def test_memory_grows_linearly(form: str) -> None:
    """Eight times the length: eight times the memory, forward and backward (a T × T matrix of scores: 64 times)."""

    def peak(length: int) -> int:
        inputs = tensors((length, 8), (length, 8), (length, 8))
        tracemalloc.start()
        FORMS[form](*inputs).sum().backward()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(8192) < 9 * peak(1024)


# ------------------------------------------------------------------------------------------------- layers


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layer_is_pytorchs_but_for_the_weights(causal: bool, norm_first: bool, bias: bool) -> None:
    """Its state dict fits TransformerEncoderLayer; with softmax replaced by φφᵀ inside, outputs agree."""
    weft.manual_seed(0)
    layer = nn.LinearTransformerLayer(8, 2, 16, 0.0, norm_first=norm_first, causal=causal, bias=bias).to(weft.float64)
    reference = torch.nn.TransformerEncoderLayer(
        8, 2, 16, 0.0, norm_first=norm_first, batch_first=True, bias=bias, dtype=torch.float64
    )
    state = {key: torch.tensor(value.detach().numpy()) for key, value in layer.state_dict().items()}
    reference.load_state_dict(state)
    x = RANDOM.standard_normal((3, 5, 8))

    def attention(y: torch.Tensor) -> torch.Tensor:
        projected = torch.nn.functional.linear(
            y, state["self_attn.in_proj_weight"], state.get("self_attn.in_proj_bias")
        )
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in projected.chunk(3, -1))
        phi = lambda t: torch.nn.functional.elu(t) + 1
        weights = phi(q) @ phi(k).mT
        weights = weights.tril() if causal else weights
        heads = weights / weights.sum(-1, keepdim=True) @ v
        return reference.self_attn.out_proj(heads.transpose(1, 2).flatten(2))

    feed = lambda y: reference.linear2(torch.relu(reference.linear1(y)))
    y = torch.tensor(x)
    if norm_first:
        y = y + attention(reference.norm1(y))
        y = y + feed(reference.norm2(y))
    else:
        y = reference.norm1(y + attention(y))
        y = reference.norm2(y + feed(y))
    np.testing.assert_allclose(layer(weft.tensor(x)).detach().numpy(), y.detach().numpy(), atol=1e-12)
    unbatched = layer(weft.tensor(x[0])).detach().numpy()
    np.testing.assert_allclose(unbatched, y[0].detach().numpy(), atol=1e-12)


def test_causal_layer_never_looks_ahead_and_the_other_is_equivariant() -> None:
    x = weft.tensor(RANDOM.standard_normal((1, 70, 8)), dtype=weft.float64).requires_grad_()
    causal = nn.LinearTransformerLayer(8, 2, 16, 0.0, causal=True).to(weft.float64)
    causal(x)[0, 66, 0].backward()
    reach = x.grad.abs().sum(-1)[0].numpy()
    assert (reach[:67] > 0).all() and (reach[67:] == 0).all()
    plain = nn.LinearTransformerLayer(8, 2, 16, 0.0).to(weft.float64)
    order = weft.tensor(RANDOM.permutation(70))
    np.testing.assert_allclose(plain(x[:, order]).detach().numpy(), plain(x).detach()[:, order].numpy(), atol=1e-12)


def test_padding_does_not_matter() -> None:
    layer = nn.LinearTransformerLayer(8, 2, 16, 0.0, activation=F.gelu).to(weft.float64)
    x = weft.tensor(RANDOM.standard_normal((2, 6, 8)))
    mask = nn.length_mask(weft.tensor([4, 6]), 6)
    found = layer(x, mask)[0, :4].detach().numpy()
    np.testing.assert_allclose(found, layer(x[:1, :4])[0].detach().numpy(), atol=1e-12)
