"""Reparametrised weights and fused layers: against PyTorch, and against what they promise."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
import torch.nn.utils.parametrizations
import torch.nn.utils.parametrize

import weft
from weft import nn
from weft.nn import utils
from weft.nn.utils import parametrizations, parametrize

from .modules_harness import assert_close, check_module, load_weights, to_numpy, to_weft

LAYERS = {  # a layer and the shape of its input
    "linear": (lambda lib: lib.nn.Linear(3, 4), (5, 3)),
    "linear, no bias": (lambda lib: lib.nn.Linear(4, 2, bias=False), (4,)),
    "conv1d": (lambda lib: lib.nn.Conv1d(3, 4, 2), (2, 3, 6)),
    "conv2d": (lambda lib: lib.nn.Conv2d(4, 6, 3, groups=2), (2, 4, 5, 5)),
    "conv3d": (lambda lib: lib.nn.Conv3d(2, 3, 2), (1, 2, 3, 3, 3)),
    "transposed": (lambda lib: lib.nn.ConvTranspose2d(3, 4, 2, stride=2), (2, 3, 4, 4)),
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("weight_norm", {}),
        ("weight_norm", {"dim": 1}),
        ("weight_norm", {"dim": None}),
        ("spectral_norm", {}),
        ("spectral_norm", {"n_power_iterations": 3}),
        ("spectral_norm", {"dim": 1}),
    ],
)
@pytest.mark.parametrize("place", ["utils", "parametrizations"])
def test_normalised_weights_equal_torch(layer: str, name: str, options: dict, place: str, record_property) -> None:
    """Outputs, gradients, keys and the buffers of the power iteration over several calls, in training and evaluation."""
    make, shape = LAYERS[layer]
    theirs_in, ours_in = (
        (lib.nn.utils if place == "utils" else lib.nn.utils.parametrizations) for lib in (torch, weft)
    )
    for train in (True, False):
        theirs = getattr(theirs_in, name)(make(torch).double(), **options)
        ours = getattr(ours_in, name)(make(weft).double(), **options)
        for _ in range(2):
            check_module(theirs, ours, (shape,), train=train)
    record_property("cases", 4)


def test_weight_norm_keeps_the_weight_and_gives_it_back() -> None:
    for attach, remove in (
        (utils.weight_norm, utils.remove_weight_norm),
        (parametrizations.weight_norm, lambda m: parametrize.remove_parametrizations(m, "weight")),
    ):
        layer = nn.Linear(3, 4)
        before = layer.weight.detach().clone()
        attach(layer)
        assert weft.allclose(layer.weight, before)
        remove(layer)
        assert isinstance(layer.weight, nn.Parameter) and weft.allclose(layer.weight, before)
        assert set(layer.state_dict()) == {"weight", "bias"} and type(layer) is nn.Linear


def test_older_weight_norm_files_load_into_the_parametrisation() -> None:
    old, new = utils.weight_norm(nn.Linear(3, 4)), parametrizations.weight_norm(nn.Linear(3, 4))
    new.load_state_dict(old.state_dict())
    x = weft.randn(2, 3)
    assert weft.allclose(old(x), new(x))


def test_spectral_norm_reaches_the_largest_singular_value() -> None:
    for attach in (utils.spectral_norm, parametrizations.spectral_norm):
        weft.manual_seed(0)
        layer = attach(nn.Linear(6, 5, dtype=weft.float64), n_power_iterations=5)
        for _ in range(60):
            layer(weft.randn(1, 6, dtype=weft.float64))
        layer.eval()(weft.randn(1, 6, dtype=weft.float64))
        assert abs(np.linalg.svd(to_numpy(layer.weight))[1][0] - 1) < 1e-6


def test_spectral_norm_can_be_removed() -> None:
    layer = utils.spectral_norm(nn.Linear(3, 4))
    x = weft.randn(2, 3)
    y = layer(x)
    utils.remove_spectral_norm(layer)
    assert weft.allclose(layer(x), y, atol=1e-6) and set(layer.state_dict()) == {"weight", "bias"}


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
def test_attaching_twice_and_removing_what_is_not_there(kind: str) -> None:
    for lib in (torch, weft):
        attach, remove = getattr(lib.nn.utils, kind), getattr(lib.nn.utils, f"remove_{kind}")
        with pytest.raises(RuntimeError, match=f"Cannot register two {kind} hooks on the same parameter weight"):
            attach(attach(lib.nn.Linear(2, 2)))
        with pytest.raises(ValueError, match=f"{kind} of 'weight' not found in Linear"):
            remove(lib.nn.Linear(2, 2))


# ------------------------------------------------------------------------------------------- orthogonal


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("sizes", [(3, 3), (3, 5), (5, 3)])
@pytest.mark.parametrize("trivialized", [True, False])
def test_orthogonal_equals_torch_and_is_orthogonal(
    orthogonal_map: str | None, sizes: tuple, trivialized: bool, record_property
) -> None:
    torch.manual_seed(0)
    options = {"orthogonal_map": orthogonal_map, "use_trivialization": trivialized}
    theirs, ours = (
        lib.nn.utils.parametrizations.orthogonal(lib.nn.Linear(*sizes).double(), **options) for lib in (torch, weft)
    )
    original = theirs.parametrizations.weight.original
    with torch.no_grad():  # away from the starting point; the diagonal may hold signs
        original.add_(0.3 * torch.randn_like(original).tril(-1) if sizes[0] <= sizes[1] else 0)
    check_module(theirs, ours, ((2, sizes[0]),))
    q = to_numpy(ours.weight)
    q = q if q.shape[0] >= q.shape[1] else q.T
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-9)
    record_property("cases", 1)


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_starts_at_the_weight_and_can_be_assigned(orthogonal_map: str) -> None:
    for sizes in ((4, 4), (3, 5), (5, 3)):
        layer = nn.Linear(*sizes, dtype=weft.float64)
        nn.init.orthogonal_(layer.weight)
        start = layer.weight.detach().clone()
        parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map)
        assert weft.allclose(layer.weight, start)
        other = nn.init.orthogonal_(weft.empty_like(start))
        layer.weight = other
        assert weft.allclose(layer.weight, other)


def test_orthogonal_without_trivialisation_can_be_assigned_by_reflections_only() -> None:
    layer = parametrizations.orthogonal(
        nn.Linear(3, 5, dtype=weft.float64), orthogonal_map="householder", use_trivialization=False
    )
    q = nn.init.orthogonal_(weft.empty(5, 3, dtype=weft.float64))
    layer.weight = q
    assert weft.allclose(layer.weight, q)
    layer = parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign"):
        layer.weight = weft.eye(3)


def test_orthogonal_stays_orthogonal_under_gradient_descent() -> None:
    weft.manual_seed(1)
    layer, target = parametrizations.orthogonal(nn.Linear(4, 4, bias=False)), weft.randn(4, 4)
    losses = []
    for _ in range(30):
        loss = (layer.weight - target).square().sum()
        losses.append(float(loss))
        (slope,) = weft.autograd.grad(loss, layer.parametrizations.weight.original)
        with weft.no_grad():
            layer.parametrizations.weight.original.sub_(0.05 * slope)
    assert losses[-1] < losses[0] - 0.5
    assert weft.allclose(layer.weight @ layer.weight.mT, weft.eye(4), atol=1e-5)


# ------------------------------------------------------------------------------------------- parametrize


def symmetric(lib):
    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, a):
            return a.triu()

    return Symmetric()


def doubled(lib):
    class Doubled(lib.nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, y):
            return y / 2

    return Doubled()


def test_parametrisations_chain_as_in_torch() -> None:
    pairs = []
    for lib in (torch, weft):
        layer = lib.nn.Linear(3, 3).double()
        tools = lib.nn.utils.parametrize
        tools.register_parametrization(layer, "weight", symmetric(lib))
        tools.register_parametrization(layer, "weight", doubled(lib))
        tools.register_parametrization(layer, "bias", doubled(lib))
        pairs.append(layer)
    theirs, ours = pairs
    check_module(theirs, ours, ((2, 3),))
    value = torch.randn(3, 3, dtype=torch.float64)
    value = value + value.T
    theirs.weight, ours.weight = value, to_weft(value)
    check_module(theirs, ours, ((2, 3),))
    assert_close(ours.weight, value, "assigned weight", (1e-12, 1e-12))
    assert parametrize.is_parametrized(ours) and parametrize.is_parametrized(ours, "weight")
    assert not parametrize.is_parametrized(ours, "other") and not parametrize.is_parametrized(nn.Linear(1, 1))
    assert parametrize.type_before_parametrizations(ours) is nn.Linear


@pytest.mark.parametrize("leave", [True, False])
def test_removing_parametrisations(leave: bool) -> None:
    layers = []
    for lib in (torch, weft):
        layer = lib.nn.Linear(3, 3).double()
        lib.nn.utils.parametrize.register_parametrization(layer, "weight", symmetric(lib))
        lib.nn.utils.parametrize.register_parametrization(layer, "bias", doubled(lib))
        layers.append(layer)
    load_weights(*layers)
    theirs, ours = layers
    original = ours.parametrizations.weight.original
    for lib, layer in ((torch, theirs), (weft, ours)):
        lib.nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert ours.weight is original  # an optimiser that holds it goes on
    check_module(theirs, ours, ((2, 3),))
    for lib, layer in ((torch, theirs), (weft, ours)):
        lib.nn.utils.parametrize.remove_parametrizations(layer, "bias", leave_parametrized=leave)
    assert type(ours) is nn.Linear
    check_module(theirs, ours, ((2, 3),))


def test_cache_computes_once() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", symmetric(weft))
    with parametrize.cached():
        first = layer.weight
        assert layer.weight is first
    assert layer.weight is not first and layer.weight is not layer.weight


def test_copies_have_parametrisations_of_their_own() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", symmetric(weft))
    twin = copy.deepcopy(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert parametrize.is_parametrized(twin, "weight") and weft.equal(twin.weight, layer.weight)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(twin)
    third = parametrize.transfer_parametrizations_and_params(twin, nn.Linear(2, 2), "weight")
    assert weft.equal(third.weight, twin.weight)


def test_buffers_can_be_parametrised() -> None:
    module = nn.Module()
    module.register_buffer("scale", weft.ones(3))
    parametrize.register_parametrization(module, "scale", doubled(weft))
    assert module.scale.tolist() == [1.0] * 3
    assert list(module.state_dict()) == ["parametrizations.scale.original"] and not list(module.parameters())


def test_errors_of_parametrize_are_those_of_torch() -> None:
    for lib in (torch, weft):
        tools = lib.nn.utils.parametrize

        class Narrow(lib.nn.Module):
            def forward(self, x):
                return x[0]

        class Wide(lib.nn.Module):
            def forward(self, x):
                return x.double()

        with pytest.raises(ValueError, match="may not change the shape"):
            tools.register_parametrization(lib.nn.Linear(2, 3), "weight", Narrow())
        with pytest.raises(ValueError, match="may not change the dtype"):
            tools.register_parametrization(lib.nn.Linear(2, 3), "weight", Wide())
        with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element"):
            tools.register_parametrization(lib.nn.Linear(2, 3), "other", Wide())
        with pytest.raises(ValueError, match="does not have a parametrization on weight"):
            tools.remove_parametrizations(lib.nn.Linear(2, 3), "weight")
        layer = tools.register_parametrization(lib.nn.Linear(2, 3), "bias", lib.nn.Identity())
        with pytest.raises(RuntimeError, match="Identity does not implement right_inverse"):
            layer.bias = lib.ones(3)
        layer = lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(2, 3))
        with pytest.raises(ValueError, match="sequence of tensors"):
            tools.remove_parametrizations(layer, "weight", leave_parametrized=False)
        for wrong in ("orthogonal", "spectral_norm"):
            with pytest.raises(ValueError, match="has no parameter or buffer with name"):
                getattr(lib.nn.utils.parametrizations, wrong)(lib.nn.Linear(2, 2), "other")


# ------------------------------------------------------------------------------------------- fusing, skipping


def statistics(features: int, affine: bool, theirs: torch.nn.Module) -> torch.nn.Module:
    """A batch normalisation in evaluation with statistics that are not the initial ones."""
    with torch.no_grad():
        theirs.running_mean.normal_()
        theirs.running_var.uniform_(0.5, 2)
        if affine:
            theirs.weight.normal_()
            theirs.bias.normal_()
    return theirs.double().eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_fused_layers_equal_torch_and_the_pair(bias: bool, affine: bool, record_property) -> None:
    layers = [
        ("Conv1d", (3, 4, 2), "BatchNorm1d", (2, 3, 5), {}),
        ("Conv2d", (4, 4, 3, 1, 1, 1, 2), "BatchNorm2d", (2, 4, 5, 5), {}),
        ("Conv3d", (2, 4, 2), "BatchNorm3d", (2, 2, 3, 3, 3), {}),
        ("ConvTranspose2d", (3, 4, 2), "BatchNorm2d", (2, 3, 4, 4), {"transpose": True}),
        ("Linear", (3, 4), "BatchNorm1d", (5, 3), {}),
    ]
    for kind, args, norm, shape, options in layers:
        fuse = "fuse_linear_bn_eval" if kind == "Linear" else "fuse_conv_bn_eval"
        theirs = getattr(torch.nn, kind)(*args, bias=bias).double().eval()
        bn = statistics(4, affine, getattr(torch.nn, norm)(4, affine=affine))
        ours = getattr(nn, kind)(*args, bias=bias).double().eval()
        load_weights(theirs, ours)
        our_bn = nn.Module().eval()
        for name in ("running_mean", "running_var", "weight", "bias"):
            setattr(our_bn, name, None if getattr(bn, name) is None else to_weft(getattr(bn, name).detach()))
        our_bn.eps, our_bn.num_features = bn.eps, bn.num_features
        fused = getattr(utils, fuse)(ours, our_bn, **options)
        x = torch.randn(shape, dtype=torch.float64)
        assert_close(fused(to_weft(x)), bn(theirs(x)), "the pair", (1e-9, 1e-9))
        if affine or kind != "Linear":
            want = getattr(torch.nn.utils, fuse)(theirs, bn, **options)
            assert_close(fused.weight, want.weight, "weight", (1e-12, 1e-12))
            assert_close(fused.bias, want.bias, "bias", (1e-12, 1e-12))
        with pytest.raises(AssertionError, match="Fusion only for eval"):
            getattr(utils, fuse)(ours.train(), our_bn)
    record_property("cases", len(layers))


def test_skip_init_draws_nothing() -> None:
    weft.manual_seed(5)
    before = weft.get_rng_state()
    layer = utils.skip_init(nn.Conv2d, 2, 3, 3)
    assert np.array_equal(np.asarray(before), np.asarray(weft.get_rng_state()))
    assert layer.weight.shape == (3, 2, 3, 3) and layer.weight.requires_grad
    for lib in (torch, weft):
        with pytest.raises(RuntimeError, match="must support a 'device' arg"):
            lib.nn.utils.skip_init(lib.nn.Identity().__class__.__mro__[1])
