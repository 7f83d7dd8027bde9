"""Bounds and regions of networks with skips and branches: against closed forms, chains, and dense sampling."""

import numpy as np
import pytest

import weft
import weft.models.supervised
from weft import inspect, nn
from weft.errors import OptionError

weft.manual_seed(0)


def norm(layer):
    return np.linalg.norm(layer.weight.detach().numpy().astype(np.float64), 2)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 3), nn.Linear(4, 5), nn.Linear(8, 2)

    def forward(self, x):
        return self.out(weft.cat([self.a(x).relu(), 0.5 * self.b(x).tanh()], -1)) - 3.0


class Shared(nn.Module):
    """One layer used twice, a sum with broadcasting, a mean, a view."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        y = self.a(self.a(x).relu()) + x.mean(-1, keepdim=True)
        return y.reshape(-1, 2, 2).mT.flatten(1) / 2


DENSE, HIGH = nn.Linear(4, 3), nn.Linear(7, 2)
RESIDUAL = nn.Residual(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4)))
BRANCHES, SHARED = Branches(), Shared()
CASES = {
    "residual": (RESIDUAL, lambda: 1 + norm(RESIDUAL.function[0]) * norm(RESIDUAL.function[2])),
    "two residuals": (
        nn.Sequential(RESIDUAL, RESIDUAL),
        lambda: (1 + norm(RESIDUAL.function[0]) * norm(RESIDUAL.function[2])) ** 2,
    ),
    "dense": (
        lambda: nn.Sequential(nn.Skip(DENSE, "concat"), HIGH),
        lambda: np.hypot(1, norm(DENSE)) * norm(HIGH),
    ),
    "branches": (BRANCHES, lambda: np.hypot(norm(BRANCHES.a), norm(BRANCHES.b) / 2) * norm(BRANCHES.out)),
    "shared": (SHARED, lambda: (norm(SHARED.a) ** 2 + 0.5 * 2) / 2),  # ‖mean of 4‖ = 1/2, repeated 4 times: · √4
}


@pytest.mark.parametrize("name", CASES)
def test_bounds_in_closed_form(name):
    model, expected = CASES[name]
    model = model if isinstance(model, nn.Module) else model()
    found = inspect.graph_lipschitz(model, weft.randn(16, 4))
    assert found.upper == pytest.approx(expected(), rel=1e-9)
    assert 0 < found.lower <= found.upper * (1 + 1e-9)
    assert found.steps[-1].bound == found.upper


def test_of_chains_it_is_the_product():
    chain = nn.Sequential(
        *(
            nn.Conv1d(2, 3, 3, padding=1),
            nn.BatchNorm1d(3),
            nn.GELU(),
            nn.MaxPool1d(3, 2),
            nn.Flatten(),
            nn.Linear(9, 5),
        )
    )
    chain[1].running_var.fill_(0.3)
    x = weft.randn(4, 2, 8)
    assert inspect.graph_lipschitz(chain, x).upper == pytest.approx(inspect.lipschitz(chain, x).upper, rel=1e-9)


def test_functions_between_modules():
    """A convolution and pools as functions: the norm of the operation itself, above and below the size of a dense matrix."""
    kernel = weft.randn(3, 2, 3, dtype=weft.float64)

    class Functional(nn.Module):
        def forward(self, x):
            return nn.functional.conv1d(x, kernel, padding=1).relu()

    for length in (8, 130):
        columns = weft.eye(2 * length, dtype=weft.float64).reshape(-1, 2, length)
        matrix = nn.functional.conv1d(columns, kernel, padding=1).numpy().reshape(2 * length, -1)
        found = inspect.graph_lipschitz(Functional(), weft.randn(1, 2, length))
        assert found.upper == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-6)


@pytest.mark.slow
def test_a_residual_network_of_the_library_is_bounded():
    model = weft.models.supervised.resnet18(num_classes=2)
    found = inspect.graph_lipschitz(model, weft.randn(1, 3, 8, 8))
    assert np.isfinite(found.upper) and 0 < found.lower <= found.upper
    assert sum(step.kind == "Add" for step in found.steps) == 8


NO_BOUND = {
    "product": lambda x: x * x.sum(-1, keepdim=True),
    "attention": nn.TransformerEncoderLayer(4, 1, 8).eval().self_attn,
    "normalised": nn.LayerNorm(4),
    "divided by": lambda x: 1 / x,
}


@pytest.mark.parametrize("name", NO_BOUND)
def test_what_has_no_bound_is_named(name):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = NO_BOUND[name] if isinstance(NO_BOUND[name], nn.Module) else nn.Identity()

        def forward(self, x):
            if name == "attention":
                return self.inner(x, x, x)[0]
            return self.inner(x) if name == "normalised" else NO_BOUND[name](x)

    with pytest.raises(OptionError, match="no bound is known"):
        inspect.graph_lipschitz(Model(), weft.randn(3, 4))


def test_what_does_not_depend_on_the_input():
    class Constant(nn.Module):
        def forward(self, x):
            return weft.ones(len(x), 2, dtype=x.dtype)

    assert inspect.graph_lipschitz(Constant(), weft.randn(3, 4)).upper == 0


# ------------------------------------------------------------------------------------------- regions


@pytest.mark.parametrize("seed", range(3))
def test_chains_have_the_regions_of_the_exact_method(seed):
    weft.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2))
    start, direction = weft.randn(3), weft.randn(3)
    expected = inspect.line_regions(model, start, direction, -4, 4)
    found = inspect.graph_line_regions(model, start, direction, -4, 4)
    np.testing.assert_allclose(found.edges, expected.edges, atol=1e-7)
    np.testing.assert_array_equal(found.patterns, expected.patterns)
    np.testing.assert_allclose(found.slopes, expected.slopes, atol=1e-6)
    np.testing.assert_allclose(found.offsets, expected.offsets, atol=1e-5)
    assert found.count <= found.bounds.at_most


def test_the_zigzag_has_all_its_pieces():
    zigzag = inspect.zigzag_network(3, 3)
    assert inspect.graph_line_regions(zigzag, low=-0.5, high=1.5).count == inspect.line_regions(zigzag).count == 64


class Forked(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.left, self.right = nn.Linear(2, 6), nn.Linear(6, 4), nn.Linear(2, 4)
        self.block = nn.Residual(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)))
        self.one, self.two = nn.ReLU(), nn.LeakyReLU(0.1)

    def forward(self, x):
        return self.block(weft.cat([self.two(self.left(self.one(self.first(x)))), self.right(x)], -1))


def test_forks_and_skips_against_dense_sampling():
    """Every change of slope that 40,000 points see is a joint, and on every piece the outputs are the line given."""
    model, start, direction = Forked().double(), weft.zeros(2), weft.tensor([1.0, 0.7])
    found = inspect.graph_line_regions(model, start, direction, -3, 3)
    t = np.linspace(-3, 3, 40001)
    points = weft.tensor(t[:, None] * direction.numpy().astype(np.float64))
    y = model(points).detach().numpy()
    piece = np.clip(np.searchsorted(found.edges, t) - 1, 0, found.count - 1)
    np.testing.assert_allclose(y, found.slopes[piece] * t[:, None] + found.offsets[piece], atol=1e-6)
    bends = np.abs(np.diff(y, 2, axis=0)).max(1) > 1e-9
    seen = t[1:-1][bends]
    assert len(seen) and all(np.abs(found.edges[1:-1] - s).min() <= 2e-4 for s in seen)
    assert 8 <= found.count <= found.bounds.at_most


def test_what_is_curved_is_refused():
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    with pytest.raises(OptionError, match="not affine"):
        inspect.graph_line_regions(model)
    with pytest.raises(OptionError, match="finite"):
        inspect.graph_line_regions(model, high=np.inf)
    assert inspect.graph_line_regions(nn.Linear(1, 2)).count == 1
