"""Loops over time in compiled code: kernels against NumPy, layers and training against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
import weft.nn.functional as F
from weft.compiler.compiled import compile
from weft.compiler.fuse.loops import HostCall
from weft.compiler.graph.graph import Node
from weft.kernels.recurrent import forward as recurrent
from weft.nn.utils import rnn
from weft.ops.layers import recurrence_loops

from .kernel_runs import OTHERS, run

SIZES = [(1, 1, 1), (5, 7, 20), (3, 2, 37), (4, 33, 16), (6, 1, 150), (2, 14, 64)]  # steps, examples, units
GATES = {"Tanh": 1, "Lstm": 4, "Gru": 3}
GUARD = 16  # elements before and after every result that nothing may write
TOLERANCE = {"f4": {"rtol": 1e-5, "atol": 4e-6}, "f8": {"rtol": 1e-12, "atol": 1e-13}}


# ---------------------------------------------------------------------------------------------- kernels


def operands(cell, way, steps, examples, units, dtype):
    """Inputs of a loop; gates lie in (0, 1)."""
    draw = np.random.default_rng(steps + examples + units)
    normal = lambda *shape: draw.standard_normal(shape) / 2
    rows, all_gates = steps * examples, GATES[cell] * units
    weight, states = normal(all_gates, units) / units**0.5, 2 if cell == "Lstm" else 1
    if way == "Steps":
        found = [normal(rows, all_gates), *(normal(examples, units) for _ in range(states)), weight]
        found += [normal(all_gates)] if cell == "Gru" else []
    else:
        found = [normal(rows, units), *(normal(examples, units) for _ in range(states)), weight, normal(rows, units)]
        found += [draw.random((rows, all_gates)), normal(rows, units)] if cell != "Tanh" else []
    return [x.astype(dtype) for x in found]


def primitive_of(cell, way):
    return getattr(recurrence_loops, f"{cell}_{way}".upper())


def kernel_of(primitive, arrays, results, params):
    values = [Node(None, ()).make((x.shape, x.dtype))[0] for x in arrays]
    node = Node(primitive, tuple(values), params)
    node.make(*primitive.shapes(*values, **params))
    strides = [[tuple(s // x.itemsize for s in x.strides) for x in group] for group in (arrays, results)]
    return primitive.native(node).make(*strides)


def check_kernel(cell, way, sizes, dtype, threads=2, target="host", arrays=None, **params):
    """Results equal the reference in float64, and nothing around them is written."""
    primitive, arrays = primitive_of(cell, way), arrays or operands(cell, way, *sizes, dtype)
    if cell == "Tanh":
        params.setdefault("relu", False)
    expected = primitive.reference(*(x.astype("f8") for x in arrays), **params)
    memory = [np.full(x.size + 2 * GUARD, -7, dtype) for x in expected]
    results = [m[GUARD:-GUARD].reshape(x.shape) for m, x in zip(memory, expected, strict=True)]
    kernel = kernel_of(primitive, arrays, results, params)
    run(kernel, [*arrays, *results, np.full(kernel.workspace, 0xFF, np.uint8)], threads, target)
    for m, found, truth in zip(memory, results, expected, strict=True):
        np.testing.assert_allclose(found, truth, **TOLERANCE[dtype])
        assert (m[:GUARD] == -7).all()
        assert (m[-GUARD:] == -7).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("way", ["Steps", "Deltas"])
@pytest.mark.parametrize("cell", GATES)
def test_kernels_of_all_sizes(cell, way, dtype):
    for number, sizes in enumerate(SIZES):
        check_kernel(cell, way, sizes, dtype, reverse=number % 2 == 1)


@pytest.mark.parametrize("way", ["Steps", "Deltas"])
def test_positive_part_as_activation(way):
    for reverse in (False, True):
        check_kernel("Tanh", way, (5, 7, 20), "f4", reverse=reverse, relu=True)


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("cell", GATES)
def test_kernels_on_older_processors(cell, target):
    for way in ("Steps", "Deltas"):
        for dtype in ("f4", "f8"):
            check_kernel(cell, way, (3, 7, 21), dtype, target=target, reverse=True)


@pytest.mark.parametrize("expected", [1, 2, 3])
@pytest.mark.parametrize("cell", GATES)
def test_any_number_of_threads_with_code_for_another(cell, expected, monkeypatch):
    """Rows or units are shared between threads: whichever was chosen for the number expected."""
    monkeypatch.setattr(recurrent, "get_num_threads", lambda: expected)
    for way in ("Steps", "Deltas"):
        for threads in (1, 2, 3):
            for sizes in ((2, 1, 150), (2, 9, 50)):
                check_kernel(cell, way, sizes, "f8", threads, reverse=False)


def test_operands_with_any_strides():
    arrays = operands("Lstm", "Steps", 3, 5, 18, "f8")
    arrays[0] = np.repeat(arrays[0], 2, 0)[::2]
    arrays[1] = np.broadcast_to(np.zeros((), "f8"), (5, 18))
    arrays[3] = np.asfortranarray(arrays[3])
    check_kernel("Lstm", "Steps", (3, 5, 18), "f8", arrays=arrays, reverse=False)


def test_activations_at_their_ends():
    ends = np.array([0, 1e-6, 8, -8, 1e4, -1e4, np.inf, -np.inf, np.nan])
    for dtype in ("f4", "f8"):
        x, zero = ends.astype(dtype).reshape(1, 9), np.zeros((1, 9), dtype)
        out = np.empty((2, 9), dtype)
        kernel = kernel_of(
            primitive_of("Tanh", "Steps"), [x, zero, np.zeros((9, 9), dtype)], [out], dict(reverse=False, relu=False)
        )
        run(kernel, [x, zero, np.zeros((9, 9), dtype), out, np.zeros(kernel.workspace, np.uint8)])
        np.testing.assert_allclose(out[1], np.tanh(ends.astype(dtype)), rtol=4 * np.finfo(dtype).eps)


# ------------------------------------------------------------------------------------------------ layers

LAYERS = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
    ("LSTM", {}),
    ("LSTM", {"bias": False, "batch_first": True}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("GRU", {}),
    ("GRU", {"bias": False, "bidirectional": True}),
    ("GRU", {"num_layers": 2, "batch_first": True}),
]


def results_of(library, layer, x, state, g):
    """Outputs, final states, and the gradients of everything for the outputs' gradient g."""
    y, final = layer(x, state if state is None or len(state) > 1 else state[0])
    final = final if isinstance(final, tuple) else (final,)
    total = (y * g).sum() + sum((s * s).sum() for s in final)
    inputs = [x, *(state or ()), *layer.parameters()]
    return [y, *final, *library.autograd.grad(total, inputs)]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_compiled_layers_equal_torch(name, options, given):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(3, 18, **options).double()
    ours = getattr(weft.nn, name)(3, 18, **options).double()
    ours.load_state_dict({k: weft.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = torch.randn(4, 5, 3, dtype=torch.float64)
    examples = 4 if options.get("batch_first") else 5
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    state = (
        [torch.randn(count, examples, 18, dtype=torch.float64) for _ in range(1 + (name == "LSTM"))] if given else None
    )
    g = torch.randn(4, 5, 18 * (1 + options.get("bidirectional", False)), dtype=torch.float64)
    leaf = lambda t: weft.tensor(t.numpy(), requires_grad=True)
    compiled = compile(lambda *inputs: results_of(weft, ours, inputs[0], inputs[2:] or None, inputs[1]))
    found = compiled(leaf(x), weft.tensor(g.numpy()), *(leaf(s) for s in state or ()))
    wanted = [t.requires_grad_() for t in (x, *(state or ()))]
    expected = results_of(torch, theirs, wanted[0], tuple(wanted[1:]) or None, g)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-13)
    assert not any(isinstance(slot.step, HostCall) for slot in plan_of(compiled).slots)


def plan_of(compiled):
    return next(iter(compiled.plans.values()))[0].plan


def test_sequences_of_several_lengths():
    """Packed sequences have no native form; they compile all the same."""
    layer = weft.nn.LSTM(3, 6)
    x = weft.randn(5, 3, 3)

    def step(x):
        y, (h, c) = layer(rnn.pack_padded_sequence(x, [5, 3, 2]))
        return y.data, h, c, *weft.autograd.grad(y.data.sum() + h.sum() - c.sum(), list(layer.parameters()))

    for a, b in zip(compile(step)(x), step(x), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------------------------------- training


class Reader(weft.nn.Module):
    """A recurrent layer whose last output is classified."""

    def __init__(self, name):
        super().__init__()
        self.layer, self.head = getattr(weft.nn, name)(6, 20, batch_first=True), weft.nn.Linear(20, 5)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def losses(name, dtype, wrap):
    weft.manual_seed(0)
    model = Reader(name).to(dtype)
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-2)
    x, y = weft.randn(16, 9, 6, dtype=dtype), weft.randint(0, 5, (16,))

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = wrap(step)
    return [run(x, y).item() for _ in range(12)], run


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_training_as_eager_with_one_kernel_each_way(name):
    for dtype, tolerance in ((weft.float32, 1e-5), (weft.float64, 1e-12)):
        found, compiled = losses(name, dtype, compile)
        np.testing.assert_allclose(found, losses(name, dtype, lambda step: step)[0], rtol=tolerance)
        assert found[-1] < found[0] - 0.3
        kernels = [slot.step.kernel for slot in plan_of(compiled).slots if not isinstance(slot.step, HostCall)]
        assert sum(isinstance(kernel, recurrent.TimeLoop) for kernel in kernels) == 2
