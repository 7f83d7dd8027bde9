"""The tape against PyTorch's autograd: hooks, accumulation, modes, versions, memory, errors."""

import gc
import threading
import weakref

import numpy as np
import pytest
import torch

import weft

from .oracle import same, same_error

rng = np.random.default_rng(5)
X, Y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))


# ------------------------------------------------------------------------------- gradients, accumulated


def _accumulate(m, x):
    x.requires_grad_()
    (x * 2).sum().backward()
    first = x.grad.clone()
    (x * x).sum().backward()
    return first, x.grad


def _several_roots(m, x, y):
    x.requires_grad_()
    y.requires_grad_()
    m.autograd.backward([x * y, (x + y).sum()], [y.detach(), None])
    return x.grad, y.grad


def _used_often(m, x):
    x.requires_grad_()
    a = x * 2
    (a * a + a.exp() + x * a).sum().backward()
    return x.grad


def _only_inputs(m, x, y):
    x.requires_grad_()
    y.requires_grad_()
    a = x * 3
    (a * y).sum().backward(inputs=[x, a])
    return x.grad, a.grad, y.grad is None


def _retained(m, x):
    x.requires_grad_()
    a = x * 2
    a.retain_grad()
    b = a.exp()
    b.retain_grad()
    (b * 3).sum().backward()
    return a.retains_grad, x.retains_grad, a.grad, b.grad, x.grad


def _grad_is_a_plain_tensor(m, x):
    x.requires_grad_()
    (x * x).sum().backward()
    return x.grad.requires_grad, x.grad.is_leaf, x.is_leaf, (x * 2).is_leaf


def _create_graph(m, x):
    x.requires_grad_()
    out = []
    y = (x.sin() * x.exp()).sum()
    for _ in range(3):
        (g,) = m.autograd.grad(y, x, create_graph=True)
        out.append(g)
        y = g.sum()
    return out


def _backward_with_graph(m, x):
    x.requires_grad_()
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    return g, m.autograd.grad(g.sum(), x)


def _unused(m, x, y):
    x.requires_grad_()
    y.requires_grad_()
    plain = m.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)
    zeros = m.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)
    return plain[0], plain[1] is None, zeros


def _intermediate(m, x):
    x.requires_grad_()
    a = x * 2
    b = a.exp().sum()
    return m.autograd.grad(b, (a, x))


def _batched_seeds(m, x):
    x.requires_grad_()
    y = x.sin() * x.sum()
    seeds = m.stack([m.ones_like(y), y.detach() * 2])
    return m.autograd.grad(y, x, seeds, is_grads_batched=True)


def _retain_graph(m, x):
    x.requires_grad_()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


def _linear_twice(m, x):
    """Nothing was saved, so the graph can be used again."""
    x.requires_grad_()
    y = (x + 1).sum()
    y.backward()
    y.backward()
    return x.grad


def _views_and_writes(m, x):
    x.requires_grad_()
    a = x * 2
    v = a[1]
    v.mul_(3)
    a[0, 1:3] = x[2, :2]
    return a, m.autograd.grad((a * a).sum() + v.sum(), x)


def _detached(m, x):
    x.requires_grad_()
    a = x * 2
    b = a.detach()
    c = (a * b).sum()
    return b.requires_grad, m.autograd.grad(c, x)


def _dtypes(m, x):
    x.requires_grad_()
    y = x.float() * m.ones(4, dtype=m.float64)
    (y.half().double()).sum().backward()
    return x.grad


def _next_functions(m, x):
    x.requires_grad_()
    y = (x * 2).exp()
    node = y.grad_fn
    (before, number), *_ = node.next_functions
    leaf = before.next_functions[0][0]
    return node.name(), before.name(), number, leaf.name().split("::")[-1], leaf.variable is x


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (_accumulate, [X]),
        (_several_roots, [X, Y]),
        (_used_often, [X]),
        (_only_inputs, [X, Y]),
        (_retained, [X]),
        (_grad_is_a_plain_tensor, [X]),
        (_create_graph, [X]),
        (_unused, [X, Y]),
        (_intermediate, [X]),
        (_batched_seeds, [X]),
        (_retain_graph, [X]),
        (_linear_twice, [X]),
        (_views_and_writes, [X]),
        (_detached, [X]),
        (_dtypes, [X]),
        (_next_functions, [X]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_like_torch(function, arrays):
    same(function, *arrays)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_backward_with_create_graph():
    same(_backward_with_graph, X)


# ------------------------------------------------------------------------------------------ hooks


def _tensor_hooks(m, x):
    x.requires_grad_()
    seen = []
    a = x * 2
    handle = a.register_hook(lambda g: seen.append(g.sum().item()))
    a.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    a.sum().backward(retain_graph=True)
    handle.remove()
    a.sum().backward()
    return seen, x.grad


def _post_accumulate(m, x):
    x.requires_grad_()
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    return seen


def _node_hooks(m, x):
    x.requires_grad_()
    seen = []
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].sum().item(), outputs[0].sum().item())))
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 5,))
    y.sum().backward()
    return seen, x.grad


def _hook_with_retain(m, x):
    x.requires_grad_()
    a = x * 2
    a.register_hook(lambda g: g * 3)
    a.retain_grad()
    a.sum().backward()
    return a.grad, x.grad


@pytest.mark.parametrize("function", [_tensor_hooks, _post_accumulate, _node_hooks, _hook_with_retain])
def test_hooks_like_torch(function):
    same(function, X)


def test_hook_handle_works_as_a_context():
    x = weft.ones(2, requires_grad=True)
    with x.register_hook(lambda g: g * 2):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


# ------------------------------------------------------------------------------------------ errors

ERRORS = {
    "non-scalar": (lambda m, x: (x.requires_grad_() * 2).backward(), "scalar outputs"),
    "complex scalar": (lambda m, x: m.complex(x, x).sum().requires_grad_().backward(), "real"),
    "no graph": (lambda m, x: x.sum().backward(), "does not require grad"),
    "twice": (lambda m, x: (lambda y: (y.backward(), y.backward()))((x.requires_grad_() ** 2).sum()), "second time"),
    "unused": (lambda m, x: m.autograd.grad((x.requires_grad_() * 2).sum(), m.ones(2, requires_grad=True)), "not used"),
    "input without grad": (lambda m, x: m.autograd.grad((x.clone().requires_grad_() * 2).sum(), x), "require grad"),
    "shape of the gradient": (lambda m, x: (x.requires_grad_() * 2).backward(m.ones(2)), "shape"),
    "empty inputs": (lambda m, x: (x.requires_grad_() * 2).sum().backward(inputs=[]), "empty"),
    "leaf in place": (lambda m, x: x.requires_grad_().mul_(2), "leaf"),
    "view of a leaf in place": (lambda m, x: x.requires_grad_()[0].mul_(2), "leaf"),
    "integers": (lambda m, x: m.ones(2, dtype=m.int64).requires_grad_(), "floating"),
    "integers made": (lambda m, x: m.ones(2, dtype=m.int64, requires_grad=True), "floating"),
    "flag of a result": (lambda m, x: (x.requires_grad_() * 2).requires_grad_(False), "leaf"),
    "hook without grad": (lambda m, x: x.register_hook(print), "require"),
    "retain without grad": (lambda m, x: x.retain_grad(), "requires_grad"),
    "post hook on a result": (
        lambda m, x: (x.requires_grad_() * 2).register_post_accumulate_grad_hook(print),
        "leaf",
    ),
    "numpy": (lambda m, x: x.requires_grad_().numpy(), "detach"),
    "deepcopy of a result": (lambda m, x: __import__("copy").deepcopy(x.requires_grad_() * 2), "leaf"),
    "saved and modified": (lambda m, x: _modified(m, x), "inplace operation"),
    "saved output modified": (lambda m, x: _modified_output(m, x), "inplace operation"),
    "modified through a view": (lambda m, x: _modified_view(m, x), "inplace operation"),
    "hook changes shape": (lambda m, x: _bad_hook(m, x), "size|shape"),
}


def _modified(m, x):
    a = x.requires_grad_() * 1
    y = a.sin()
    a.add_(1)
    y.sum().backward()


def _modified_output(m, x):
    y = (x.requires_grad_() * 1).exp()
    y.add_(1)
    y.sum().backward()


def _modified_view(m, x):
    a = x.requires_grad_() * 1
    b = (a * a).sum()
    a[0].add_(1)
    b.backward()


def _bad_hook(m, x):
    a = x.requires_grad_() * 2
    a.register_hook(lambda g: g[:1])
    a.sum().backward()


@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    import re

    function, words = ERRORS[name]
    message = same_error(function, X)
    assert re.search(words, message), message


def test_hook_may_not_be_lost_after_in_place():
    """A write after registering: the hook still sees the gradient of the tensor as it was."""

    def run(m, x):
        x.requires_grad_()
        seen = []
        a = x * 2
        a.register_hook(lambda g: seen.append(g.sum().item()))
        a.mul_(3)
        a.sum().backward()
        return seen, x.grad

    same(run, X)


# ------------------------------------------------------------------------------------------- modes


def _modes(m, x):
    x.requires_grad_()
    seen = []
    note = lambda: seen.append((x * 2).requires_grad)
    note()
    with m.no_grad():
        note()
        with m.enable_grad():
            note()
            with m.set_grad_enabled(False):
                note()
            note()
        note()
    note()
    m.set_grad_enabled(False)
    note()
    m.set_grad_enabled(True)
    note()
    with m.inference_mode():
        note()
        seen.append((x * 2).is_inference())
        with m.inference_mode(False):
            note()
    seen.append(m.is_grad_enabled())
    return seen


def _decorated(m, x):
    x.requires_grad_()
    seen = []

    @m.no_grad()
    def off(a):
        return (a * 2).requires_grad

    @m.no_grad
    def bare(a):
        return (a * 2).requires_grad

    @m.enable_grad()
    def on(a):
        return (a * 2).requires_grad

    @m.inference_mode()
    def inference(a):
        return (a * 2).is_inference()

    @m.set_grad_enabled(False)
    def chosen(a):
        return (a * 2).requires_grad

    seen += [off(x), bare(x), inference(x), chosen(x), (x * 2).requires_grad]
    with m.no_grad():
        seen.append(on(x))
    return seen


def _generators(m, x):
    x.requires_grad_()
    seen = []

    @m.no_grad()
    def numbers():
        for _ in range(2):
            seen.append((x * 2).requires_grad)
            got = yield 1
            seen.append(got)
        return "end"

    generator = numbers()
    next(generator)
    seen.append((x * 2).requires_grad)
    generator.send("sent")
    seen.append((x * 2).requires_grad)
    return seen


def _recursion(m, x):
    x.requires_grad_()

    @m.no_grad()
    def down(n):
        return [(x * 1).requires_grad] + (down(n - 1) if n else [])

    return down(3), m.is_grad_enabled()


def _exception(m, x):
    try:
        with m.no_grad():
            raise ValueError
    except ValueError:
        pass
    return m.is_grad_enabled()


@pytest.mark.parametrize("function", [_modes, _decorated, _generators, _recursion, _exception])
def test_modes_like_torch(function):
    same(function, X)


def test_generator_gets_exceptions_and_closes():
    seen = []

    @weft.no_grad()
    def careful():
        try:
            yield 1
        except ValueError:
            seen.append(("caught", weft.is_grad_enabled()))
            yield 2
        finally:
            seen.append("closed")

    generator = careful()
    next(generator)
    assert generator.throw(ValueError) == 2
    generator.close()
    assert seen == [("caught", False), "closed"]


def test_modes_belong_to_their_thread():
    seen = []
    with weft.no_grad():
        thread = threading.Thread(target=lambda: seen.append(weft.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_threads_differentiate_at_once():
    results = {}

    def work(k):
        x = weft.full((50,), float(k), requires_grad=True)
        for _ in range(20):
            x.grad = None
            (x * x * k).sum().backward()
        results[k] = x.grad[0].item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: 2.0 * k * k for k in range(6)}


# ----------------------------------------------------------------------------------------- anomalies


def test_anomaly_names_the_forward_line():
    x = weft.tensor([-1.0], requires_grad=True)
    with weft.autograd.detect_anomaly():
        y = x.sqrt()  # the guilty line
        with pytest.raises(RuntimeError) as caught:
            y.sum().backward()
    text = str(caught.value)
    assert "SqrtBackward0" in text and "the guilty line" in text and "test_tape.py" in text
    assert not weft.autograd.is_anomaly_enabled()
    x.sqrt().sum().backward()  # outside nothing is checked


def test_anomaly_without_nan_check_and_as_a_function():
    x = weft.tensor([-1.0], requires_grad=True)
    with weft.autograd.detect_anomaly(check_nan=False):
        x.sqrt().sum().backward()
    with weft.autograd.set_detect_anomaly(True):
        assert weft.autograd.is_anomaly_enabled()
    assert not weft.autograd.is_anomaly_enabled()


def test_anomaly_shows_the_line_of_a_modified_tensor():
    x = weft.tensor([1.0], requires_grad=True)
    with weft.autograd.detect_anomaly():
        a = x * 1
        y = a.sin()  # saved here
        a.add_(1)
        with pytest.raises(RuntimeError, match="saved here"):
            y.backward()


# ------------------------------------------------------------------------------------- memory, length


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_graph_dies_with_its_result(without_collector):
    x = weft.ones(10, requires_grad=True)
    y = (x.exp() * x).sum()
    nodes = [weakref.ref(n) for n in weft.tape.tape.collect([y.grad_fn])]
    assert len(nodes) == 3
    del y
    assert all(n() is None for n in nodes)


def test_saved_tensors_are_freed_by_backward(without_collector):
    x = weft.ones(10, requires_grad=True)
    a = x.exp()
    b = a * a
    middle = weakref.ref(a)
    loss = b.sum()
    del a, b
    assert middle() is not None  # saved by the product
    loss.backward()
    assert middle() is None


def test_backward_keeps_no_gradients_of_intermediates(without_collector):
    x = weft.ones(10, requires_grad=True)
    seen = []
    a = x * 2
    a.register_hook(lambda g: seen.append(weakref.ref(g)))
    a.sum().backward()
    del a
    assert seen[0]() is None or seen[0]() is x.grad


def test_views_and_writes_leave_no_cycles(without_collector):
    x = weft.ones(4, 4, requires_grad=True)
    a = x * 2
    a[0] = x[1] * 3
    v = a.T[1:]
    v.mul_(2)
    references = [weakref.ref(t) for t in (a, v)] + [weakref.ref(v.grad_fn)]
    v.sum().backward()
    del a, v
    assert all(r() is None for r in references)


def test_double_backward_leaves_no_cycles(without_collector):
    x = weft.ones(3, requires_grad=True)
    y = x.exp().sum()
    (g,) = weft.autograd.grad(y, x, create_graph=True)
    nodes = [weakref.ref(n) for n in weft.tape.tape.collect([g.grad_fn, y.grad_fn])]
    del y, g
    assert all(n() is None for n in nodes)


def test_ten_thousand_operations():
    """No recursion: neither in backward nor when the graph dies."""
    x = weft.tensor(1.0, dtype=weft.float64, requires_grad=True)
    y = x
    for _ in range(10_000):
        y = y * 1.0001
    (g,) = weft.autograd.grad(y, x, retain_graph=True)
    assert g.item() == pytest.approx(1.0001**10_000)
    y.backward()
    assert x.grad.item() == pytest.approx(1.0001**10_000)
    del y


def test_long_chain_of_in_place_writes():
    x = weft.ones(3, requires_grad=True)
    y = x * 1
    for _ in range(2000):
        y.mul_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


# -------------------------------------------------------------------------------------- versions


def test_versions_like_torch():
    def run(m, x):
        a = x.clone()
        before = a._version
        a.add_(1)
        v = a[0]
        v.mul_(2)
        d = a.detach()
        d.zero_()
        a.data.add_(1)
        return [t._version - before for t in (a, v, d)]

    same(run, X)


def test_setting_grad():
    def run(m, x):
        x.requires_grad_()
        x.grad = m.ones_like(x)
        (x * 2).sum().backward()
        kept = x.grad.clone()
        x.grad = None
        return kept, x.grad is None

    same(run, X)
    for bad in (
        lambda m, x: setattr(x, "grad", m.ones(2)),
        lambda m, x: setattr(x, "grad", m.ones(3, 4, dtype=m.float32)),
    ):
        same_error(bad, X)
    with pytest.raises(TypeError):
        weft.ones(2).grad = 3


def test_gradients_are_not_shared():
    """The accumulated gradient is the leaf's own: changing it changes nothing else."""
    a, b = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
    seed = weft.ones(2)
    (a + b).backward(seed)
    a.grad.mul_(5)
    assert b.grad.tolist() == [1.0, 1.0] and seed.tolist() == [1.0, 1.0]


def test_torch_is_only_an_oracle():
    import sys

    assert "torch" in sys.modules and torch.__version__  # imported by the tests, never by weft
    import subprocess

    code = "import sys, weft; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )
