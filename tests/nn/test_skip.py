"""Skip connections against their formulas, their gradients, and the counts of the notes."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_for_every_test() -> None:
    RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state
    weft.manual_seed(0)


def sample(*shape: int) -> weft.Tensor:
    return weft.tensor(RANDOM.standard_normal(shape)).requires_grad_()


def layer(size: int, out: int | None = None) -> nn.Module:
    return nn.Sequential(nn.Linear(size, out or size), nn.Tanh()).to(weft.float64)


COMBINE = {
    "add": lambda old, new: old + new,
    "concat": lambda old, new: np.concatenate([old, new], -1),
    "average": lambda old, new: (old + new) / 2,
    "max": np.maximum,
}


@pytest.mark.parametrize("combine", COMBINE)
def test_skip_combines(combine: str) -> None:
    f, x = layer(4), sample(3, 4)
    found = nn.Skip(f, combine)(x).detach().numpy()
    np.testing.assert_allclose(found, COMBINE[combine](x.detach().numpy(), f(x).detach().numpy()))


def test_concatenation_along_channels_and_shortcuts() -> None:
    x = sample(2, 3, 5, 5)
    f = nn.Conv2d(3, 4, 3, padding=1).to(weft.float64)
    expected = np.concatenate([x.detach().numpy(), f(x).detach().numpy()], 1)
    np.testing.assert_allclose(nn.Skip(f, "concat", dim=1)(x).detach().numpy(), expected)
    shortcut = nn.Conv2d(3, 4, 1).to(weft.float64)
    expected = (shortcut(x) + f(x)).detach().numpy()
    for module in (nn.Skip(f, "add", shortcut), nn.Residual(f, shortcut)):
        np.testing.assert_allclose(module(x).detach().numpy(), expected)


def test_residual_jacobian_is_identity_plus_update() -> None:
    """N0 §4: ∂h_l/∂h_{l−1} = I + ∂f/∂h_{l−1}."""
    f, x = layer(4), sample(4)
    whole = weft.autograd.functional.jacobian(nn.Residual(f), x).numpy()
    np.testing.assert_allclose(whole, np.eye(4) + weft.autograd.functional.jacobian(f, x).numpy(), atol=1e-12)


def test_gradients_survive_fifty_residual_layers() -> None:
    """N2 §3.7.2: δ_in = δ_out + Σ updates; without the skips the same layers let the gradient vanish."""
    weft.manual_seed(0)
    parts = [layer(8) for _ in range(50)]
    sizes = []
    for layers in ([nn.Residual(f) for f in parts], parts):
        x, stack = sample(8), nn.Sequential(*layers)
        stack(x).sum().backward()
        sizes.append(float(x.grad.norm()))
    assert sizes[0] > 0.1 and sizes[1] < 1e-6


def test_dense_connections_concatenate_everything() -> None:
    """N2 §3.7.3: input sizes grow linearly, weights quadratically: Σ_l Z · l Z = Z² L(L + 1)/2."""
    size, depth = 3, 4
    layers = [nn.Linear(size * (number + 1), size, bias=False).to(weft.float64) for number in range(depth)]
    dense = nn.DenselyConnected(*layers)
    x = sample(2, size)
    known = [x.detach().numpy()]
    for f in layers:
        known.append(np.concatenate(known, -1) @ f.weight.detach().numpy().T)
    np.testing.assert_allclose(dense(x).detach().numpy(), np.concatenate(known, -1), atol=1e-12)
    assert sum(p.numel() for p in dense.parameters()) == size**2 * depth * (depth + 1) // 2


def test_dense_connections_of_images() -> None:
    dense = nn.DenselyConnected(nn.Conv2d(3, 2, 3, padding=1), nn.Conv2d(5, 2, 3, padding=1), dim=1)
    assert dense(weft.zeros(1, 3, 6, 6)).shape == (1, 7, 6, 6)


def test_highway_formula() -> None:
    f, x = layer(4), sample(3, 4)
    highway = nn.Highway(f, 4).to(weft.float64)
    weight, bias = (p.detach().numpy() for p in highway.gate.parameters())
    assert (bias == -2).all()
    gate = 1 / (1 + np.exp(-(x.detach().numpy() @ weight.T + bias)))
    expected = gate * f(x).detach().numpy() + (1 - gate) * x.detach().numpy()
    np.testing.assert_allclose(highway(x).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(("bias", "limit"), [(-60.0, 0), (60.0, 1)])
def test_highway_limits(bias: float, limit: int) -> None:
    """A closed gate is the identity, an open one is f."""
    f, x = layer(4), sample(3, 4)
    highway = nn.Highway(f, 4, gate_bias=bias).to(weft.float64)
    np.testing.assert_allclose(highway(x).detach().numpy(), (x, f(x))[limit].detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("dim", [-1, 1])
def test_attention_combines_by_softmax_of_a_learned_query(dim: int) -> None:
    old, new = sample(2, 3, 3), sample(2, 3, 3)
    combine = nn.AttentionCombine(3, dim).to(weft.float64)
    np.testing.assert_allclose(combine(old, new).detach().numpy(), ((old + new) / 2).detach().numpy())
    combine.query.data.copy_(sample(3).detach())
    values = [np.moveaxis(v.detach().numpy(), dim, -1) for v in (old, new)]
    scores = np.exp([v @ combine.query.detach().numpy() / np.sqrt(3) for v in values])
    expected = sum(s[..., None] * v for s, v in zip(scores / scores.sum(0), values, strict=True))
    np.testing.assert_allclose(combine(old, new).detach().numpy(), np.moveaxis(expected, -1, dim), atol=1e-12)
    assert weft.autograd.gradcheck(lambda a, b, _: combine(a, b), (old, new, combine.query))
    skip = nn.Skip(layer(3), nn.AttentionCombine(3).to(weft.float64))
    assert "combine.query" in dict(skip.named_parameters())
    assert skip(old).shape == old.shape


def test_mismatched_shapes_and_options_are_refused() -> None:
    for module in (nn.Residual(nn.Linear(4, 3)), nn.Skip(nn.Linear(4, 3)), nn.Highway(nn.Linear(4, 3), 4)):
        with pytest.raises(RuntimeError, match=r"\(2, 4\).*\(2, 3\)"):
            module(weft.zeros(2, 4))
    with pytest.raises(ValueError, match="add, concat, average, max"):
        nn.Skip(nn.Identity(), "multiply")
