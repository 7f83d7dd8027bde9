"""Recomputation and hooks on saved tensors: the same gradients, less memory."""

import gc
import tracemalloc

import numpy as np
import pytest
import torch

import weft
from weft.autograd.graph import register_multi_grad_hook, save_on_cpu, saved_tensors_hooks
from weft.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

N = 50_000
SIZE = 4 * N  # bytes of one float32 tensor


def block(x, factor=1.01):
    for _ in range(10):
        x = (x * factor).sin()
    return x


def memory_and_gradient(step):
    """Bytes alive after the forward pass, the peak over backward, and the gradient."""
    x = weft.ones(N, requires_grad=True)
    gc.collect()
    tracemalloc.start()
    y = x
    for _ in range(8):
        y = step(y)
    alive = tracemalloc.get_traced_memory()[0] / SIZE
    y.sum().backward()
    peak = tracemalloc.get_traced_memory()[1] / SIZE
    tracemalloc.stop()
    return alive, peak, x.grad


def test_less_memory_same_gradient():
    alive, peak, expected = memory_and_gradient(block)
    less, lower, found = memory_and_gradient(lambda x: checkpoint(block, x))
    assert weft.equal(found, expected)
    assert alive > 70 and less < 10  # 8 blocks of 10 steps: everything, or one tensor a block
    assert peak > 70 and lower < 25


def test_nested_keeps_even_less():
    inner = lambda x: checkpoint(block, x)
    pairs = lambda x: inner(inner(x))
    x = weft.ones(N, requires_grad=True)
    gc.collect()
    tracemalloc.start()
    y = x
    for _ in range(4):
        y = checkpoint(pairs, y)
    alive = tracemalloc.get_traced_memory()[0] / SIZE
    tracemalloc.stop()
    y.sum().backward()
    _, _, expected = memory_and_gradient(block)
    assert weft.equal(x.grad, expected)
    assert alive < 6


def test_recomputes_just_once_and_stops_early():
    calls = []

    def f(x):
        calls.append("start")
        y = x.exp().sin()
        calls.append("middle")
        z = y + 1  # saves nothing: the second run need not come here
        calls.append("end")
        return z

    x = weft.ones(3, requires_grad=True)
    checkpoint(f, x).sum().backward()
    assert calls == ["start", "middle", "end", "start"]


def test_same_random_numbers():
    weft.manual_seed(0)
    x = weft.ones(100, requires_grad=True)
    y = checkpoint(lambda x: (x * weft.rand(100)).exp(), x)
    following = weft.rand(1)
    (g,) = weft.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), (y * y.log()).detach().numpy(), rtol=1e-5)
    weft.manual_seed(0)
    weft.rand(100)
    assert weft.equal(following, weft.rand(1))


def test_backward_leaves_the_random_stream_alone():
    x = weft.ones(100, requires_grad=True)
    y = checkpoint(lambda x: (x * weft.rand(100)).exp(), x)
    before = weft.get_rng_state()
    y.sum().backward()
    assert weft.equal(before, weft.get_rng_state())


def test_keywords_containers_and_closures():
    w = weft.tensor([2.0, 3.0], requires_grad=True)

    def f(pair, *, scale, other=None):
        return {"y": (pair[0] * w).exp() * scale + pair[1], "other": other}

    x = weft.tensor([0.1, 0.2], requires_grad=True)
    out = checkpoint(f, (x, x * 2), scale=3.0, other="text", use_reentrant=False)
    assert out["other"] == "text"
    grads = weft.autograd.grad(out["y"].sum(), (x, w))
    again = weft.autograd.grad(f((x, x * 2), scale=3.0)["y"].sum(), (x, w))
    assert all(weft.equal(a, b) for a, b in zip(grads, again, strict=True))


def test_second_derivatives_and_retained_graphs():
    x = weft.tensor([0.3, 0.4], dtype=weft.float64, requires_grad=True)
    y = checkpoint(lambda x: x.sin().exp(), x).sum()
    (g,) = weft.autograd.grad(y, x, create_graph=True)
    (h,) = weft.autograd.grad(g.sum(), x)
    t = torch.tensor([0.3, 0.4], dtype=torch.float64)
    expected = torch.func.hessian(lambda a: a.sin().exp().sum())(t).diagonal()
    np.testing.assert_allclose(h.numpy(), expected.numpy())
    z = checkpoint(lambda x: x.sin().exp(), x).sum()
    z.backward(retain_graph=True)
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * g.detach().numpy())


def test_without_gradients_it_is_a_plain_call():
    calls = []
    with weft.no_grad():
        y = checkpoint(lambda x: calls.append(1) or x * 2, weft.ones(2, requires_grad=True))
    assert calls == [1] and not y.requires_grad


def test_inside_vmap():
    x = weft.tensor(np.random.default_rng(0).normal(size=(3, 4)), requires_grad=True)
    f = lambda a: a.sin() * a.sum()
    ours = weft.vmap(lambda a: checkpoint(f, a))(x)
    ours.square().sum().backward()
    (expected,) = weft.autograd.grad(weft.vmap(f)(x).square().sum(), x)
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy())


def test_a_function_that_changes_its_mind_is_caught():
    state = []

    def f(x):
        state.append(1)
        return x.exp() if len(state) > 1 else x.exp().sin()

    with pytest.raises(CheckpointError, match="saved 2 tensors the first time and 1"):
        checkpoint(f, weft.ones(2, requires_grad=True)).sum().backward()

    def g(x):
        state.append(1)
        return (x[:1] if len(state) % 2 else x).exp()

    with pytest.raises(CheckpointError, match="shape"):
        checkpoint(g, weft.ones(2, requires_grad=True)).sum().backward()


def test_sequential():
    steps = [block, weft.tanh, lambda x: x * 2, weft.exp]
    x = weft.linspace(0, 1, 5).requires_grad_()
    y = checkpoint_sequential(steps, 2, x)
    y.sum().backward()
    z = x
    for step in steps:
        z = step(z)
    assert weft.equal(y, z) and weft.equal(x.grad, weft.autograd.grad(z.sum(), x)[0])


# ------------------------------------------------------------------------------ hooks on saved tensors


def test_hooks_see_what_torch_saves():
    def run(m):
        sizes = []
        x = m.ones(3, 4, requires_grad=True)
        with m.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(tuple(t.shape)) or t, lambda t: t):
            y = (x.exp() * x).sum()
        y.backward()
        return sizes, x.grad

    ours, theirs = run(weft), run(torch)
    assert sorted(ours[0]) == sorted(theirs[0])
    np.testing.assert_allclose(ours[1].numpy(), theirs[1].numpy(), rtol=1e-6)


def test_hooks_may_change_the_form():
    """Packing to float16 and back: the gradient is that of the packed value, to all orders."""
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        y = (x * x * x).sum()
    (g,) = weft.autograd.grad(y, x, create_graph=True)
    (h,) = weft.autograd.grad(g.sum(), x)
    assert g.tolist() == [3.0, 12.0] and h.tolist() == [6.0, 12.0]


def test_hooks_end_with_their_block_and_nest():
    outer, inner = [], []
    x = weft.ones(2, requires_grad=True)
    with saved_tensors_hooks(lambda t: outer.append(1) or t, lambda t: t):
        x.exp()
        with saved_tensors_hooks(lambda t: inner.append(1) or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert (len(outer), len(inner)) == (2, 1)


def test_bad_unpack_is_an_error():
    x = weft.ones(2, requires_grad=True)
    for bad, words in ((lambda t: 3, "must return a tensor"), (lambda t: t[:1], "shape")):
        with saved_tensors_hooks(lambda t: t, bad):
            y = x.exp().sum()
        with pytest.raises(RuntimeError, match=words):
            y.backward()


def test_save_on_cpu_is_safe_from_writes():
    x = weft.ones(2, requires_grad=True)
    a = x * 2
    with save_on_cpu():
        y = (a * a).sum()
    with weft.no_grad():
        a.mul_(0)
    y.backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_multi_grad_hook():
    def run(m):
        seen = []
        a, b = m.ones(2, requires_grad=True), m.ones(2, requires_grad=True)
        handle = m.autograd.graph.register_multi_grad_hook(
            (a, b), lambda grads: seen.append([g.tolist() for g in grads])
        )
        (a * 2 + b * 3).sum().backward()
        (a * 4 + b * 5).sum().backward()
        handle.remove()
        (a + b).sum().backward()
        return seen

    assert run(weft) == run(torch)
    assert register_multi_grad_hook is weft.autograd.graph.register_multi_grad_hook
