"""Initial values: bounds, moments and structure as PyTorch documents them, and what they are for (constant variance)."""

from __future__ import annotations

import inspect
import math
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.stats
import torch

import weft
from weft import nn
from weft.nn import init

SHAPES = [(200, 300), (60, 40, 5), (30, 20, 4, 5)]


def filled(name: str, shape: tuple[int, ...], *args: object, **kwargs: object) -> np.ndarray:
    weft.manual_seed(7)
    tensor = weft.empty(shape)
    assert getattr(init, name)(tensor, *args, **kwargs) is tensor
    return tensor.numpy()


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    return torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))


# ------------------------------------------------------------------------------------------- distributions

UNIFORM = [  # function, arguments, (fan_in, fan_out) → bound
    ("xavier_uniform_", {}, lambda i, o: math.sqrt(6 / (i + o))),
    ("xavier_uniform_", {"gain": 2.0}, lambda i, o: 2 * math.sqrt(6 / (i + o))),
    ("kaiming_uniform_", {}, lambda i, o: math.sqrt(2) * math.sqrt(3 / i)),
    ("kaiming_uniform_", {"a": math.sqrt(5)}, lambda i, o: 1 / math.sqrt(i)),
    ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "tanh"}, lambda i, o: 5 / 3 * math.sqrt(3 / o)),
    ("fan_in_", {}, lambda i, o: 1 / math.sqrt(i)),  # N1 definition 1.8
    ("uniform_", {"a": -0.3, "b": 0.3}, lambda i, o: 0.3),
]
NORMAL = [
    ("xavier_normal_", {}, lambda i, o: math.sqrt(2 / (i + o))),
    ("xavier_normal_", {"gain": 0.5}, lambda i, o: 0.5 * math.sqrt(2 / (i + o))),
    ("kaiming_normal_", {}, lambda i, o: math.sqrt(2 / i)),
    ("kaiming_normal_", {"mode": "fan_out"}, lambda i, o: math.sqrt(2 / o)),
    ("kaiming_normal_", {"a": 0.2, "nonlinearity": "leaky_relu"}, lambda i, o: math.sqrt(2 / 1.04 / i)),
    ("kaiming_normal_", {"nonlinearity": "selu"}, lambda i, o: 0.75 / math.sqrt(i)),
    ("normal_", {"std": 0.2}, lambda i, o: 0.2),
]


def same_distribution(values: np.ndarray, cdf) -> bool:
    """Kolmogorov–Smirnov: wrong with probability 1e-4."""
    return scipy.stats.kstest(values.reshape(-1), cdf).pvalue > 1e-4


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "kwargs", "bound"), UNIFORM)
def test_uniform_rules(name: str, kwargs: dict, bound, shape: tuple) -> None:
    a = bound(*fans(shape))
    values = filled(name, shape, **kwargs)
    assert np.abs(values).max() <= a * (1 + 1e-6)
    assert same_distribution(values, scipy.stats.uniform(-a, 2 * a).cdf)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "kwargs", "std"), NORMAL)
def test_normal_rules(name: str, kwargs: dict, std, shape: tuple) -> None:
    assert same_distribution(filled(name, shape, **kwargs), scipy.stats.norm(0, std(*fans(shape))).cdf)


@pytest.mark.parametrize(("mean", "std", "a", "b"), [(0, 1, -2, 2), (1, 0.5, 0, 1.2), (0, 0.02, -2, 2), (3, 1, -1, 2)])
def test_truncated_normal(mean: float, std: float, a: float, b: float) -> None:
    values = filled("trunc_normal_", (100, 80), mean, std, a, b)
    assert a <= values.min() and values.max() <= b
    assert same_distribution(values, scipy.stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std).cdf)


def test_truncated_normal_warns_when_the_mean_is_far() -> None:
    with pytest.warns(UserWarning, match="mean is more than 2 std"):
        init.trunc_normal_(weft.empty(3), 5.0)


def test_sign_constant() -> None:
    values = filled("sign_constant_", (100, 100), 0.25)
    assert set(np.unique(values)) == {-0.25, 0.25}
    assert abs(values.mean()) < 0.25 * 4 / 100
    assert set(np.unique(filled("sign_constant_", (9, 9)))) == {np.float32(-0.1), np.float32(0.1)}  # N1 §1.6.1


# ------------------------------------------------------------------------------------------- structure


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (1, 1)])
def test_constants_and_identity(shape: tuple) -> None:
    assert (filled("zeros_", shape) == 0).all() and (filled("ones_", shape) == 1).all()
    assert (filled("constant_", shape, 0.3) == np.float32(0.3)).all()
    np.testing.assert_array_equal(filled("eye_", shape), torch.nn.init.eye_(torch.empty(shape)).numpy())


@pytest.mark.parametrize("shape", [(4, 4, 3), (6, 3, 4, 3), (4, 2, 3, 3, 3), (3, 6, 2), (8, 2, 5, 5)])
@pytest.mark.parametrize("groups", [1, 2])
def test_dirac(shape: tuple, groups: int) -> None:
    groups = 1 if shape[0] % groups else groups
    want = torch.nn.init.dirac_(torch.empty(shape), groups).numpy()
    np.testing.assert_array_equal(filled("dirac_", shape, groups), want)


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4), (5, 3, 2), (3, 2, 4, 2)])
def test_orthogonal(shape: tuple) -> None:
    q = filled("orthogonal_", shape, gain=1.5).reshape(shape[0], -1)
    q = q if q.shape[0] <= q.shape[1] else q.T
    np.testing.assert_allclose(q @ q.T, 1.5**2 * np.eye(q.shape[0]), atol=1e-5)


def test_orthogonal_is_uniform_over_rotations_and_reflections() -> None:
    weft.manual_seed(0)
    draws = np.stack([init.orthogonal_(weft.empty(2, 2)).numpy() for _ in range(400)])
    angles = np.arctan2(draws[:, 1, 0], draws[:, 0, 0])
    assert same_distribution(angles, scipy.stats.uniform(-math.pi, 2 * math.pi).cdf)
    assert 140 < (np.linalg.det(draws) > 0).sum() < 260


def test_sparse() -> None:
    values = filled("sparse_", (50, 40), sparsity=0.33, std=0.5)
    assert ((values == 0).sum(0) == math.ceil(0.33 * 50)).all()
    assert same_distribution(values[values != 0], scipy.stats.norm(0, 0.5).cdf)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(n, None) for n in ("linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu")]
    + [("leaky_relu", 0.2), ("leaky_relu", 1)],
)
def test_gain(name: str, parameter: float | None) -> None:
    assert init.calculate_gain(name, parameter) == torch.nn.init.calculate_gain(name, parameter)


ERRORS = [
    ("xavier_normal_", ((3,),), {}, "fewer than 2 dimensions"),
    ("kaiming_uniform_", ((3, 3),), {"mode": "fan"}, "Mode fan not supported"),
    ("kaiming_uniform_", ((3, 3),), {"nonlinearity": "odd"}, "Unsupported nonlinearity odd"),
    ("eye_", ((3,),), {}, "Only tensors with 2 dimensions"),
    ("dirac_", ((3, 3),), {}, "Only tensors with 3, 4, or 5 dimensions"),
    ("dirac_", ((3, 3, 3), 2), {}, "dim 0 must be divisible by groups"),
    ("orthogonal_", ((3,),), {}, "2 or more dimensions"),
    ("sparse_", ((3,), 0.1), {}, "Only tensors with 2 dimensions"),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "message"), ERRORS)
def test_errors_are_those_of_torch(name: str, args: tuple, kwargs: dict, message: str) -> None:
    for lib in (torch, weft):
        with pytest.raises(ValueError, match=message):
            getattr(lib.nn.init, name)(lib.empty(args[0]), *args[1:], **kwargs)


def test_every_public_name_and_argument_of_torch_is_there() -> None:
    theirs = {n: f for n, f in vars(torch.nn.init).items() if inspect.isfunction(f) and not n.startswith("_")}
    for name, function in theirs.items():
        if function.__module__ == "torch.nn.init":
            assert hasattr(init, name), name
            if name.endswith("_"):
                want, got = (inspect.signature(f).parameters for f in (function, getattr(init, name)))
                assert [(p.name, p.default) for p in got.values()] == [(p.name, p.default) for p in want.values()]
    with pytest.warns(FutureWarning, match="xavier_uniform_"):
        init.xavier_uniform(weft.empty(2, 2))


def test_nothing_is_recorded_and_empty_tensors_are_left() -> None:
    weight = nn.Parameter(weft.empty(3, 3))
    for fill in (init.xavier_normal_, init.orthogonal_, init.eye_, init.sign_constant_):
        assert fill(weight) is weight and weight.requires_grad and weight.grad_fn is None
    with pytest.warns(UserWarning, match="zero-element"):
        init.kaiming_normal_(weft.empty(0, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.LazyLinear(3)


def test_generator_makes_values_repeat() -> None:
    one, two = (init.xavier_normal_(weft.empty(3, 4), generator=weft.Generator().manual_seed(3)) for _ in range(2))
    assert weft.equal(one, two)


# ------------------------------------------------------------------------------------------- what it is for


def variance_after_layers(fill, activation, count: int = 50, width: int = 256, networks: int = 10) -> float:
    """Second moment of the signal behind `count` layers for a normal input, the mean over several networks."""
    weft.manual_seed(11)
    moments, weight = [], weft.empty(width, width)
    for _ in range(networks):
        x = weft.randn(16, width)
        for _ in range(count):
            x = activation(nn.functional.linear(x, fill(weight)))
        moments.append(float(x.square().mean()))
    return sum(moments) / networks


def identity(x: weft.Tensor) -> weft.Tensor:
    return x


@pytest.mark.parametrize(
    ("fill", "activation"),
    [
        (init.xavier_normal_, identity),
        (init.xavier_uniform_, identity),
        (init.orthogonal_, identity),
        (lambda w: init.kaiming_normal_(w, nonlinearity="relu"), weft.relu),
        (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), weft.relu),
    ],
)
def test_variance_is_preserved_through_fifty_layers(fill, activation) -> None:
    """N2 §3.8.3: Xavier for linear layers, Kaiming for ReLU."""
    networks = 1 if fill is init.orthogonal_ else 10
    assert 0.5 < variance_after_layers(fill, activation, networks=networks) < 2


def test_variance_is_lost_without_the_right_gain() -> None:
    assert variance_after_layers(init.xavier_normal_, weft.relu, networks=1) < 1e-12  # each ReLU halves it
    assert variance_after_layers(init.fan_in_, identity, networks=1) < 1e-12  # Var[w] is 1 / 3n, not 1 / n


def test_xavier_with_the_gain_of_tanh_keeps_signals_alive() -> None:
    assert variance_after_layers(lambda w: init.xavier_normal_(w, 5 / 3), weft.tanh, networks=1) > 0.1
    assert variance_after_layers(init.xavier_normal_, weft.tanh, networks=1) < 0.03


def test_lsuv_gives_every_layer_unit_variance() -> None:
    """Layer-sequential unit variance, through activations for which no gain is known, in the order of the calls."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(6 * 5 * 5, 7)  # registered first, runs last
            self.conv = nn.Conv2d(3, 8, 3)
            self.wide = nn.Conv2d(8, 6, 2)

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            x = self.wide(self.conv(x).abs().sqrt())
            return self.last(x.sigmoid().flatten(1))

    weft.manual_seed(3)
    net, batch = Net(), 5 * weft.randn(64, 3, 8, 8)
    seen: dict[str, float] = {}
    assert init.lsuv_(net, batch) is net
    for name, layer in net.named_children():
        layer.register_forward_hook(lambda _, args, y, name=name: seen.update({name: float(y.var())}))
    net(batch)
    assert set(seen) == {"conv", "wide", "last"}
    assert all(abs(variance - 1) <= 0.02 for variance in seen.values())


def test_skipping_in_one_thread_leaves_models_of_another_alone() -> None:
    """One thread loads a model, whose initial values are skipped, while another builds one from the beginning."""
    inside, built = threading.Event(), threading.Event()

    def load() -> float:
        with init.skipping():
            inside.set()
            assert built.wait(20)
            return init.ones_(weft.full((3,), 7.0)).sum().item()

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        assert inside.wait(20)
        weft.manual_seed(0)
        found = nn.Linear(5, 4).weight.detach().numpy().copy()
        built.set()
        assert loading.result() == 21.0  # there they were skipped
    weft.manual_seed(0)
    np.testing.assert_array_equal(found, nn.Linear(5, 4).weight.detach().numpy())
    assert 0.1 < np.abs(found).max() <= 1 / math.sqrt(5)
