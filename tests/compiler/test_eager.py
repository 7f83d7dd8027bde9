"""Eager code on large arrays: run by plans, with the values of NumPy, SciPy and PyTorch."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

import weft
from weft.compiler import eager, stepping
from weft.ops.core import base
from weft.optim import optimizer as optimizers
from weft.runtime import fallbacks

F, G = weft.nn.functional, torch.nn.functional
LARGE = 1 << 19


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = weft.get_num_threads()
    weft.set_num_threads(2)
    yield
    weft.set_num_threads(before)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of the primitives that plans compute."""
    titles: list[str] = []
    call = eager.EagerPlan.__call__

    def noting(plan: eager.EagerPlan, arrays: Any) -> Any:
        titles.append(next(key[0].title for key, known in eager._known.items() if known is plan))
        return call(plan, arrays)

    monkeypatch.setattr(eager.EagerPlan, "__call__", noting)
    return titles


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans for arrays of any size."""
    monkeypatch.setattr(base, "LARGE", 0)


def draw(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ------------------------------------------------------------------------------------------ single operations

OPERATIONS: dict[str, tuple[Callable, Callable, tuple[tuple[int, ...], ...]]] = {
    "Add": (lambda x, y: x + y, lambda x, y: x + y, ((512, 1024), (512, 1024))),
    "Mul": (lambda x, y: x * y, lambda x, y: x * y, ((512, 1024), (1024,))),
    "Exp": (lambda x: x.exp(), np.exp, ((256, 512),)),
    "Erf": (lambda x: x.erf(), scipy.special.erf, ((256, 512),)),
    "Sum": (lambda x: x.sum(1), lambda x: x.sum(1), ((512, 256),)),
    "Mean": (lambda x: x.mean(), lambda x: x.mean(), ((512, 256),)),
    "Var": (lambda x: x.var(0), lambda x: x.var(0, ddof=1), ((512, 256),)),
    "Softmax": (lambda x: x.softmax(-1), lambda x: scipy.special.softmax(x, -1), ((128, 256),)),
    "Logsumexp": (lambda x: x.logsumexp(1), lambda x: scipy.special.logsumexp(x, 1), ((512, 256),)),
    "Matmul": (lambda x, y: x @ y, lambda x, y: x @ y, ((200, 160), (160, 240))),
    "Linear": (F.linear, lambda x, w: x @ w.T, ((16, 20, 160), (240, 160))),
    "Affine": (F.linear, lambda x, w, b: x @ w.T + b, ((300, 160), (240, 160), (240,))),
    "Cat": (lambda x, y: weft.cat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), ((512, 1024), (512, 8))),
    "Where": (lambda x, y: weft.where(x > 0, x, y), lambda x, y: np.where(x > 0, x, y), ((512, 1024), (1024,))),
    "Clone": (lambda x: x.mT.contiguous(), lambda x: x.swapaxes(-1, -2), ((512, 1024),)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("title", OPERATIONS)
def test_large_arrays_are_computed_by_plans(title: str, dtype: Any, used: list[str]) -> None:
    ours, theirs, shapes = OPERATIONS[title]
    arrays = [draw(*shape, seed=n, dtype=dtype) for n, shape in enumerate(shapes)]
    expected = theirs(*(a.astype(np.float64) for a in arrays))
    found = ours(*(weft.from_numpy(a) for a in arrays))
    assert title in used
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)
    assert found.dtype.np == dtype and found.is_contiguous()


def test_small_arrays_are_not(used: list[str]) -> None:
    x = weft.randn(64, 63)
    x.exp() @ x.mT + x.sum() + x.softmax(0).sum()
    assert used == []


@pytest.mark.parametrize(
    "turn", [lambda a: a.T, lambda a: a.transpose(0, 3, 1, 2), lambda a: a[:, ::2], lambda a: a[::-1]]
)
def test_results_lie_in_memory_as_numpy_lays_them(turn: Callable, used: list[str]) -> None:
    a = turn(draw(32, 32, 32, 32))
    found, expected = weft.from_numpy(a).exp().array, np.exp(a)
    assert found.strides == expected.strides and found.flags.owndata
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert used == ["Exp"] * all(s > 0 for s in a.strides)


def test_broadcasting_of_turned_and_repeated_operands(always: None) -> None:
    x, y, z = draw(24, 40), draw(40, 24).T, draw(24, 1)
    found = weft.from_numpy(x) * weft.from_numpy(y) + weft.from_numpy(z).expand(24, 40)
    np.testing.assert_array_equal(found.numpy(), x * y + z)


def test_the_same_bits_at_every_call_and_on_any_array_of_that_form() -> None:
    x = draw(300, 500)
    first = weft.from_numpy(x).tanh().numpy()
    for _ in range(3):
        np.testing.assert_array_equal(weft.from_numpy(x.copy()).tanh().numpy(), first)


def test_zeros_of_both_signs_as_parameters(always: None) -> None:
    x = weft.full((5,), -1.0)
    found = [np.signbit(x.clamp(min=number).numpy()).all() for number in (0.0, -0.0)]
    assert found == [False, True]


# ------------------------------------------------------------------------------------------- layers and gradients


def compare(ours: Callable, theirs: Callable, *arrays: np.ndarray, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    """Results and gradients of two functions of the same arrays."""
    xs = [weft.from_numpy(a).requires_grad_() for a in arrays]
    ys = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    found, expected = ours(*xs), theirs(*ys)
    g = draw(*expected.shape, seed=99, dtype=arrays[0].dtype)
    found.backward(weft.from_numpy(g))
    expected.backward(torch.from_numpy(g))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=rtol, atol=atol)
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=rtol, atol=atol * max(1, y.grad.abs().max()))


def attention(library: Any) -> Callable:
    return library.nn.functional.scaled_dot_product_attention


LAYERS: dict[str, tuple[Callable, Callable, tuple[tuple[int, ...], ...], set[str]]] = {
    "linear": (F.linear, G.linear, ((400, 160), (200, 160), (200,)), {"Affine", "Matmul"}),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        lambda x, w, b: G.conv2d(x, w, b, padding=1),
        ((4, 16, 20, 20), (24, 16, 3, 3), (24,)),
        {"Convolve", "ConvolveTransposed", "ConvolveKernel"},
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: G.max_pool2d(x, 3, 2, 1),
        ((4, 16, 30, 30),),
        {"MaxPool", "MaxPoolSlope"},
    ),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda x, w, b: G.batch_norm(x, None, None, w, b, True),
        ((16, 8, 16, 16), (8,), (8,)),
        {"ChannelNormalize", "ChannelNormalizeSlope"},
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (64,), w, b),
        lambda x, w, b: G.layer_norm(x, (64,), w, b),
        ((16, 24, 64), (64,), (64,)),
        {"RowNormalize", "RowNormalizeSlope"},
    ),
    "softmax": (lambda x: x.softmax(1), lambda x: x.softmax(1), ((128, 200),), {"Softmax", "SoftmaxSlope"}),
    "log_softmax": (
        lambda x: x.log_softmax(0),
        lambda x: x.log_softmax(0),
        ((128, 200),),
        {"LogSoftmax", "LogSoftmaxSlope"},
    ),
    "attention": (attention(weft), attention(torch), ((2, 4, 64, 32),) * 3, {"Attention", "AttentionSlope"}),
    "gelu": (F.gelu, G.gelu, ((128, 200),), {"Together", "TogetherSlope"}),
    "elu": (lambda x: F.elu(x, 0.7), lambda x: G.elu(x, 0.7), ((128, 200),), {"Together", "TogetherSlope"}),
    "mse_loss": (F.mse_loss, G.mse_loss, ((128, 200), (128, 200)), {"Together", "TogetherSlope"}),
    "huber_loss": (
        lambda x, t: F.huber_loss(x, t, delta=0.3, reduction="none"),
        lambda x, t: G.huber_loss(x, t, delta=0.3, reduction="none"),
        ((128, 200), (128, 200)),
        {"Together", "TogetherSlope"},
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_pytorch(name: str, used: list[str]) -> None:
    ours, theirs, shapes, titles = LAYERS[name]
    compare(ours, theirs, *(draw(*shape, seed=n) for n, shape in enumerate(shapes)))
    assert titles <= set(used)


def test_cross_entropy(used: list[str]) -> None:
    target = np.random.default_rng(1).integers(0, 300, 100)
    ours, theirs = weft.from_numpy(target), torch.from_numpy(target)
    for reduction in ("mean", "none"):
        compare(
            lambda x, how=reduction: F.cross_entropy(x, ours, reduction=how),
            lambda x, how=reduction: G.cross_entropy(x, theirs, reduction=how),
            draw(100, 300),
        )
    assert {"ClassEntropy", "ClassEntropySlope"} == set(used)


def test_embedding(used: list[str]) -> None:
    index = np.random.default_rng(1).integers(0, 500, (40, 25))
    ours, theirs = weft.from_numpy(index), torch.from_numpy(index)
    compare(lambda w: F.embedding(ours, w), lambda w: G.embedding(theirs, w), draw(500, 64))
    assert {"Index", "AddAt"} <= set(used)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers(name: str, used: list[str]) -> None:
    weft.manual_seed(0)
    ours, theirs = getattr(weft.nn, name)(24, 32), getattr(torch.nn, name)(24, 32)
    theirs.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in ours.state_dict().items()})
    compare(lambda x: ours(x)[0], lambda x: theirs(x)[0], draw(20, 40, 24))
    kind = {"RNN": "Tanh"}.get(name, name.title())
    assert {f"{kind}Recurrence", f"{kind}RecurrenceSlope"} <= set(used)


def test_second_derivatives_of_what_is_computed_together() -> None:
    a = draw(100, 200, dtype=np.float64)
    x, y = weft.from_numpy(a).requires_grad_(), torch.from_numpy(a).requires_grad_()
    (g,) = weft.autograd.grad(F.gelu(x).sum(), x, create_graph=True)
    g.square().sum().backward()
    (h,) = torch.autograd.grad(G.gelu(y).sum(), y, create_graph=True)
    h.square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_functions_with_other_numbers_are_other_functions(used: list[str]) -> None:
    x = weft.from_numpy(draw(128, 200))
    for alpha in (0.5, 2.0):
        expected = G.elu(torch.from_numpy(x.numpy()), alpha).numpy()
        np.testing.assert_allclose(F.elu(x, alpha).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert used == ["Together", "Together"]


def test_the_gradient_of_a_weight_lies_as_the_weight() -> None:
    layer, x = weft.nn.Linear(160, 200), weft.randn(300, 160)
    layer(x).sum().backward()
    assert layer.weight.grad.is_contiguous()


def test_vmap_and_tracing_go_their_own_ways(always: None) -> None:
    x, w = draw(6, 5, 4), draw(6, 3, 4)
    found = weft.vmap(F.linear)(weft.from_numpy(x), weft.from_numpy(w)).numpy()
    np.testing.assert_allclose(found, x @ w.swapaxes(1, 2), rtol=1e-5, atol=1e-6)
    compiled = weft.compile(lambda x: F.gelu(x).sum())
    expected = G.gelu(torch.from_numpy(x)).sum().item()
    assert compiled(weft.from_numpy(x)).item() == pytest.approx(expected, rel=1e-5)


# ------------------------------------------------------------------------------------------- what goes wrong


def test_errors_are_numpys(always: None) -> None:
    x = weft.randn(30, 40)
    for _ in range(2):
        with pytest.raises(weft.errors.ShapeError, match="must match"):
            x + weft.randn(30, 41)
        with pytest.raises(weft.errors.ShapeError, match="cannot be multiplied"):
            x @ weft.randn(41, 3)


def test_indices_out_of_range(always: None) -> None:
    x, good, wrong = weft.randn(30, 8), weft.tensor([0, 29, -30]), weft.tensor([0, 30, 3])
    np.testing.assert_array_equal(x[good].numpy(), x.numpy()[[0, 29, -30]])
    for _ in range(2):
        with pytest.raises(weft.errors.IndexRangeError, match="30"):
            x[wrong]
    np.testing.assert_array_equal(x[good].numpy(), x.numpy()[[0, 29, -30]])


def test_what_cannot_be_built_stays_with_numpy(monkeypatch: pytest.MonkeyPatch, used: list[str]) -> None:
    attempts = []

    def broken(*_: Any) -> None:
        attempts.append(1)
        raise RuntimeError("no")

    monkeypatch.setattr(eager, "_built", broken)
    a = draw(333, 777)
    for _ in range(3):
        np.testing.assert_array_equal(weft.from_numpy(a).exp().numpy(), np.exp(a))
    assert len(attempts) == 1 and used == [] and weft.compiler.fallback_info().last[-1].what == "Exp"


@pytest.fixture
def fresh_fallbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "_here", fallbacks._Here())


def _raise(*_: Any, **__: Any) -> None:
    raise RuntimeError("no machine code")


@pytest.mark.usefixtures("fresh_fallbacks")
def test_what_cannot_be_built_is_counted_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_built", _raise)
    with pytest.warns(RuntimeWarning, match="Exp could not be compiled .RuntimeError: no machine code") as told:
        weft.from_numpy(draw(335, 777)).exp()
    assert told[0].filename == __file__  # the user's line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.from_numpy(draw(335, 777)).tanh()
    found = weft.compiler.fallback_info()
    assert found.count == 2
    assert [one.what for one in found.last] == ["Exp", "Tanh"]
    assert {str(one.error) for one in found.last} == {"no machine code"}


@pytest.mark.usefixtures("fresh_fallbacks")
def test_a_step_that_cannot_be_built_is_told_one_that_cannot_be_traced_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stepped(optimizer_class: type, **options: Any) -> np.ndarray:
        p = weft.nn.Parameter(weft.ones(LARGE))
        p.grad = weft.ones(LARGE)
        optimizer_class([p], lr=0.5, **options).step()
        return p.detach().numpy()

    class Looking(weft.optim.SGD):
        def _update(self, parameter: Any, gradient: Any, state: Any, group: Any) -> None:
            parameter -= group["lr"] * weft.unique(gradient)  # as many as there are values: no trace

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(stepped(Looking), 0.5)
    quietly = weft.compiler.fallback_info()
    assert [one.what for one in quietly.last] == ["Looking.step"]
    monkeypatch.setattr("weft.compiler.build_plan", _raise)
    with pytest.warns(RuntimeWarning, match="SGD.step could not be compiled"):
        np.testing.assert_array_equal(stepped(weft.optim.SGD), 0.5)
    assert [one.what for one in weft.compiler.fallback_info().last][:2] == ["Looking.step", "SGD.step"]


def test_no_more_plans_than_pay(monkeypatch: pytest.MonkeyPatch, used: list[str]) -> None:
    monkeypatch.setattr(eager, "FREE_PLANS", -(10**9))
    a = draw(334, 777)
    np.testing.assert_array_equal(weft.from_numpy(a).exp().numpy(), np.exp(a))
    assert used == []


def test_plans_that_are_used_again_do_not_count(monkeypatch: pytest.MonkeyPatch, used: list[str]) -> None:
    monkeypatch.setattr(eager, "PLANS_PER_SECOND", 0)
    monkeypatch.setattr(eager, "FREE_PLANS", eager._plans + 1)  # room for one
    first, second = draw(335, 771), draw(336, 771)
    for _ in range(eager.PAID):
        weft.from_numpy(first).exp()
    for _ in range(2):
        weft.from_numpy(second).exp()
    third = weft.from_numpy(draw(337, 771))
    np.testing.assert_allclose(third.exp().numpy(), np.exp(third.numpy()), rtol=1e-6)
    third.exp()
    assert used == ["Exp"] * (eager.PAID + 2)  # the second has a plan since the first has paid; the third has none


def test_images_are_stored_in_order_after_a_convolution_not_by_it() -> None:
    x, w = weft.from_numpy(draw(16, 16, 32, 32)), weft.from_numpy(draw(32, 16, 1, 1))
    function = weft.compile(lambda x, w: F.conv2d(x, w).relu())
    expected = torch.relu(G.conv2d(torch.from_numpy(x.numpy()), torch.from_numpy(w.numpy())))
    np.testing.assert_allclose(function(x, w).numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    kernels = [line for line in str(function.explain(x, w)).splitlines() if "ConvForward: " in line]
    assert len(kernels) == 1 and "move" not in kernels[0]


def test_operations_without_native_form_and_of_other_types(used: list[str]) -> None:
    x = weft.from_numpy(draw(400, 400))
    np.testing.assert_allclose(x.sort(1)[0].numpy(), np.sort(x.numpy(), 1))
    assert (x.to(weft.int64) + 1).sum().item() == (x.numpy().astype(np.int64) + 1).sum()
    assert (x > 0).any().item()
    weft.stack([x[:, 0]] * 2000)
    assert not {"Sort", "Stack"} & set(used)


def test_threads_share_plans() -> None:
    arrays = [draw(300, 400, seed=n) for n in range(4)]
    failed: list[int] = []

    def work(n: int) -> None:
        for _ in range(20):
            if not np.allclose(
                weft.from_numpy(arrays[n]).softmax(1).numpy(), scipy.special.softmax(arrays[n], 1), 1e-5
            ):
                failed.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_goes_on() -> None:
    x = weft.from_numpy(draw(300, 400))
    expected = x.softmax(1).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(x.softmax(1).numpy(), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_switched_off() -> None:
    code = (
        "import sys, weft; x = weft.randn(1000, 1000); (x.exp() @ x).softmax(1); "
        "assert 'llvmlite' not in sys.modules and 'weft.compiler.plan.plan' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "WEFT_EAGER_NATIVE": "0"})


# --------------------------------------------------------------------------------------------------- optimisers

OPTIMISERS = {
    "SGD": [dict(lr=0.1), dict(lr=0.1, momentum=0.9, nesterov=True), dict(lr=0.1, momentum=0.9, dampening=0.5)],
    "Adam": [dict(lr=0.01), dict(lr=0.01, amsgrad=True, weight_decay=0.1)],
    "AdamW": [dict(lr=0.01)],
    "RMSprop": [dict(lr=0.01, momentum=0.5, centered=True)],
    "Adagrad": [dict(lr=0.01)],
}
CASES = [(name, options) for name, cases in OPTIMISERS.items() for options in cases]


def walk(library: Any, name: str, options: dict[str, Any], steps: int = 4) -> tuple[Any, list[Any]]:
    make = lambda a: library.nn.Parameter(library.from_numpy(a.copy()))
    parameters = [make(draw(300, 400)), make(draw(7, seed=1))]
    made = getattr(library.optim, name)(parameters, **options)
    for step in range(steps):
        for n, p in enumerate(parameters):
            p.grad = library.from_numpy(draw(*p.shape, seed=10 * step + n))
        if step == 2:
            made.param_groups[0]["lr"] *= 0.5
        made.step()
    return made, parameters


@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps_of_large_parameters(name: str, options: dict[str, Any]) -> None:
    made, ours = walk(weft, name, options)
    _, theirs = walk(torch, name, options)
    known = stepping._known[made]
    assert known.step is not None and known.built <= 2
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_a_step_follows_what_changes() -> None:
    made, (p, q) = walk(weft, "Adam", dict(lr=0.01))
    other, (r, s) = walk(torch, "Adam", dict(lr=0.01))
    saved = {k: torch.from_numpy(v.numpy().copy()) for k, v in made.state[p].items()}
    made.load_state_dict(made.state_dict())  # other tensors for the same state
    for step in range(3):
        g = draw(300, 400, seed=50 + step)
        p.grad, r.grad = weft.from_numpy(g), torch.from_numpy(g)
        q.grad = s.grad = None  # fewer parameters than before
        made.step()
        other.step()
    assert float(made.state[p]["step"]) == float(saved["step"]) + 3
    assert float(made.state[q]["step"]) == 4
    np.testing.assert_allclose(p.detach().numpy(), r.detach().numpy(), rtol=2e-5, atol=2e-6)
    made.param_groups[0]["maximize"] = True
    before = p.detach().numpy().copy()
    p.grad = weft.from_numpy(draw(300, 400, seed=60))
    made.step()
    assert ((p.detach().numpy() - before) != 0).any()


def test_gradients_are_let_go_of() -> None:
    made, (p, _) = walk(weft, "Adam", dict(lr=0.01), steps=1)
    watched = weakref.ref(p.grad)
    made.zero_grad()
    gc.collect()
    assert watched() is None


def test_a_parameter_that_was_saved_may_not_be_moved() -> None:
    p = weft.nn.Parameter(weft.from_numpy(draw(300, 400)))
    made = weft.optim.SGD([p], lr=0.1)
    loss = (p * p.exp()).sum()
    for _ in range(2):
        p.grad = weft.from_numpy(draw(300, 400, seed=3))
        made.step()
    with pytest.raises(weft.errors.AutogradError, match="inplace"):
        loss.backward()


@pytest.mark.parametrize("kind", [weft.complex64, weft.float16])
def test_steps_that_stay_with_the_optimiser(kind: weft.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "LARGE", 0)
    p = weft.nn.Parameter(weft.ones(3, dtype=kind))
    made, p.grad = weft.optim.SGD([p], lr=0.5), weft.ones_like(p)
    made.step()
    assert stepping._known[made].step is None
    np.testing.assert_array_equal(p.detach().numpy(), np.full(3, 0.5))
