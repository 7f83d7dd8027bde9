"""Traced functions run by the reference executor: equal to eager code in results, state, gradients and streams."""

import copy
import queue
import threading

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.compiler.compiled import compile
from weft.errors import AutogradError, ShapeError, TraceError
from weft.ops.core.primitive import OPERATIONS
from weft.utils.pytree import tree_flatten

from ..ops.harness import calls_of, draw, resolve, to_weft
from .cases import CASES, OPTIMIZERS


def _run(build, wrap):
    """Results and final state of a case, run through `wrap`."""
    weft.manual_seed(1)
    function, calls, look = build()
    after = getattr(function, "after", None)
    run = wrap(function)
    weft.manual_seed(2)
    found = []
    for args in calls:
        found.append(run(*args))
        if after is not None:
            after()
    return found, look(), [list(args) for args in calls], weft.get_rng_state()


def _same(a, b):
    a, spec = tree_flatten(a)
    b, other = tree_flatten(b)
    assert spec == other
    for x, y in zip(a, b, strict=True):
        if isinstance(x, weft.Tensor):
            assert x.dtype is y.dtype
            assert x.shape == y.shape
            x, y = (v.detach().to(weft.float64 if not v.is_complex() else v.dtype).numpy() for v in (x, y))
            np.testing.assert_allclose(y, x, rtol=2e-5, atol=2e-6)
        elif isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, y)
        else:
            assert x == y


@pytest.mark.parametrize("backend", ["host", "native"])
@pytest.mark.parametrize("name", CASES)
def test_compiled_is_eager(name, backend):
    expected = _run(CASES[name], lambda function: function)
    found = _run(CASES[name], lambda function: compile(function, backend=backend))
    _same(expected, found)


def host(function, **options):
    return compile(function, backend="host", **options)


# ------------------------------------------------------------------------- every operation of the register


def _traced_call(row, call, dtype, layout, wrap):
    grad = dtype == "float32" and row.differentiable
    args, kwargs = draw(call, dtype, layout)
    args, kwargs = [to_weft(a, grad) for a in args], {k: to_weft(v, grad) for k, v in kwargs.items()}
    function = resolve(weft, row.name)

    def run(*args, **kwargs):
        result = function(*args, **kwargs)
        leaves = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, weft.Tensor) and x.requires_grad]
        outs = [y for y in tree_flatten(result)[0] if isinstance(y, weft.Tensor) and y.requires_grad]
        if not leaves or not outs:
            return result, ()
        total = sum(y.abs().sum() for y in outs)
        return result, weft.autograd.grad(total, leaves, allow_unused=True)

    weft.manual_seed(0)
    return wrap(run)(*args, **kwargs), args


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, row in OPERATIONS.items() if calls_of(row)])
def test_operations_trace(name):
    row = OPERATIONS[name]
    for call in calls_of(row):
        for dtype, layout in (("float32", "contiguous"), ("float32", "transposed"), ("int64", "contiguous")):
            try:
                expected = _traced_call(row, call, dtype, layout, lambda function: function)
            except Exception:  # the call is none for this type or layout
                continue
            _same(expected, _traced_call(row, call, dtype, layout, host))


# -------------------------------------------------------------------------------------- values in between


def _value_of(how):
    def function(x):
        y = x * 2
        return how(y)  # HERE

    return function


ASKING = {
    "item": lambda y: y.sum().item(),
    "branch": lambda y: y if y.sum() > 0 else -y,
    "float": lambda y: float(y[0]),
    "int": lambda y: int(y[0]),
    "index": lambda y: [1, 2, 3][y.int()[0]],
    "size": lambda y: weft.zeros(y.int()[0]),
    "numpy": lambda y: y.numpy(),
    "asarray": lambda y: np.asarray(y),
    "numpy_function": lambda y: np.sin(y),
    "tolist": lambda y: y.tolist(),
    "print": lambda y: str(y),
    "format": lambda y: f"{y.sum():.3f}",
    "while": lambda y: [y := y / 2 for _ in iter(lambda: bool(y.sum() < 1), True)],
    "mask": lambda y: y[y > 0],
    "nonzero": lambda y: y.nonzero(),
}


@pytest.mark.parametrize("backend", ["host", "native"])
@pytest.mark.parametrize("name", ASKING)
def test_python_asks_for_values(name, backend):
    run = compile(_value_of(ASKING[name]), backend=backend)
    for values in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [-1.0, 2.0, 1.0], [1.0, 2.0, 3.0]):
        if name == "size" and values[0] < 0:
            continue
        x = weft.tensor(values)
        _same(_value_of(ASKING[name])(x), run(x))
    assert _plans(run) <= 2


def test_values_are_not_there_inside_loops():
    """Nor are those of large tensors given to Python, which would compare them at every call."""
    for how in (
        lambda x: weft.scan(lambda c, v: (c + (v if v > 0 else -v), 0), x[0], x)[0],
        lambda x: weft.zeros(70_000).add(x[0]).tolist(),
    ):
        x = weft.tensor([1.0, 2.0, 3.0])
        with pytest.raises(TraceError, match=r"test_trace.py:\d+.*where.*fallback='eager'"):
            host(how)(x)
        with pytest.warns(UserWarning, match="uncompiled"):
            run = host(how, fallback="eager")
            expected, found = how(x), run(x)
        _same(expected, found)
        run(x)  # the warning comes once


def test_parameters_are_symbolic_too():
    w = weft.ones(3)
    run = host(lambda x: x * w[0].item())
    for k in range(3):
        w[0] = k
        assert run(weft.ones(3)).tolist() == [k] * 3
    assert _plans(run) == 1


def test_constants_have_values():
    def function(x):
        steps = weft.arange(3)
        return x * steps.tolist()[2] + int(weft.tensor(4))

    assert host(function)(weft.ones(2)).tolist() == [6.0, 6.0]


def test_schedulers_belong_outside():
    w = nn.Parameter(weft.ones(2))
    optimizer = weft.optim.SGD([w], lr=0.5)
    schedule = weft.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step():
        w.sum().backward()
        optimizer.step()
        schedule.step()

    with pytest.raises(TraceError, match=r"scheduler\.step"):
        host(step)()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_lazy_modules_are_called_first():
    layer = nn.LazyLinear(3)
    with pytest.raises(TraceError, match="call it once"):
        host(layer)(weft.ones(2, 4))
    layer(weft.ones(2, 4))
    assert host(layer)(weft.ones(2, 4)).shape == (2, 3)


def test_leaked_tensors_say_so():
    out = queue.SimpleQueue()  # nobody can look into it
    run = host(lambda x: out.put((x * 2, x.sum().item())))
    run(weft.ones(2))
    tensor, number = out.get()
    for x in (tensor, number):
        with pytest.raises(TraceError, match="return it"):
            x + 1


# ----------------------------------------------------------------------------- state after a failure


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
        self.count, self.seen = 0, weft.zeros(2)

    def forward(self, x):
        self.count += 1
        y = self.layers(x)
        self.seen = y.detach().sum(0)
        return y


def _everything(model, optimizer):
    tensors = [*model.state_dict().values(), *(p.grad for p in model.parameters()), model.seen]
    arrays = [None if t is None else (id(t.array), t.array.tobytes(), t._version, t.requires_grad) for t in tensors]
    flags = model.count, dict(optimizer.state), weft.get_rng_state().tolist(), weft.is_grad_enabled()
    return arrays, flags


@pytest.mark.parametrize("started", [False, True])
def test_a_failed_trace_changes_nothing(started):
    model = Failing()
    optimizer = weft.optim.Adam(model.parameters())

    def step(x, fail=True):
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        model.layers[0].weight.data = model.layers[0].weight.data * 2
        if fail:
            raise TraceError("on purpose")

    x = weft.randn(5, 3)
    if started:
        step(x, fail=False)
    before = _everything(model, optimizer)
    with pytest.raises(TraceError):
        host(step)(x)
    assert _everything(model, optimizer) == before
    assert x._interpreter is None and weft.Tensor._interpreter is None


def test_a_failing_function_keeps_its_error():
    with pytest.raises(ZeroDivisionError):
        host(lambda x: x / (1 // 0))(weft.ones(2))
    with pytest.raises(ShapeError, match="inner sizes"):
        host(lambda x: x @ x)(weft.ones(2, 3))


# ------------------------------------------------------------------------------------- when plans are made


def _plans(compiled):
    return sum(map(len, compiled.plans.values()))


def test_signatures():
    run = host(lambda x, scale=1.0: x * scale)
    x = weft.ones(2, 3)
    run(x), run(x + 1), run(weft.zeros(2, 3))
    assert _plans(run) == 1
    run(weft.ones(3, 2)), run(x.double()), run(x, 2.0), run(x.t().contiguous().t()), run(x, scale=2.0)
    assert _plans(run) == 6
    with weft.no_grad():
        run(x)
    assert _plans(run) == 7


def test_the_oldest_plan_is_dropped():
    run = host(lambda x, k: x * k)
    with pytest.warns(UserWarning, match="more than 32 plans"):
        for k in range(40):
            assert run(weft.ones(1), k).item() == k
    assert _plans(run) == 32


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_options_never_retrace(make):
    parameters = [nn.Parameter(weft.randn(3, 2)), nn.Parameter(weft.randn(2))]
    copies = [nn.Parameter(p.detach().clone()) for p in parameters]

    def stepping(parameters):
        optimizer = make(parameters)

        def step(x):
            optimizer.zero_grad()
            (x @ parameters[0] + parameters[1]).square().sum().backward()
            optimizer.step()

        return optimizer, step

    (first, eager), (second, step) = stepping(parameters), stepping(copies)
    run, plans = host(step), []
    for _ in range(6):
        x = weft.randn(4, 3)
        eager(x), run(x)
        plans.append(_plans(run))
        for optimizer in (first, second):
            for group in optimizer.param_groups:
                if isinstance(group["lr"], weft.Tensor):
                    group["lr"].mul_(0.7)
                else:
                    group["lr"] *= 0.7
                for name in ("momentum", "weight_decay", "eps", "alpha", "rho"):
                    if isinstance(group.get(name), float) and group[name]:
                        group[name] *= 0.9
                if "betas" in group:
                    group["betas"] = (group["betas"][0] * 0.9, group["betas"][1])
    _same(parameters, copies)
    assert plans[-1] == plans[1]  # a second plan at most, where the first step makes the state


def test_modes_of_modules_are_looked_at():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    run = host(lambda x: model(x))
    x = weft.ones(2, 3)
    with weft.no_grad():
        run(x)
        model.eval()
        _same(run(x), model(x))
        model[1].p = 0.1
        model.train()
        weft.manual_seed(0)
        found = run(x)
        weft.manual_seed(0)
        _same(found, model(x))
        model[0].weight = nn.Parameter(weft.zeros(3, 3))
        model[0] = nn.Linear(3, 3)
        weft.manual_seed(0)
        found = run(x)
        weft.manual_seed(0)
        _same(found, model(x))
        model[0].register_forward_hook(lambda module, args, out: out * 0)
        assert run(x).abs().sum() == 0


def test_replaced_tensors_are_followed():
    model = nn.Linear(3, 2)
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        model(x).sum().backward()
        optimizer.step()

    run, x = host(step), weft.ones(1, 3)
    run(x)
    saved, options = {k: v.clone() for k, v in model.state_dict().items()}, optimizer.state_dict()
    run(x)
    plans = _plans(run)
    model.load_state_dict(saved)
    model.weight.grad = weft.zeros(2, 3)
    model.bias.data = model.bias.data.clone()
    run(x)
    assert _plans(run) == plans
    optimizer.load_state_dict(options)
    before = model.weight.detach().clone()
    run(x)
    buffer = optimizer.state[model.weight]["momentum_buffer"]
    np.testing.assert_allclose((before - 0.1 * buffer).numpy(), model.weight.detach().numpy(), rtol=1e-6)


def test_added_parameters_are_seen():
    first, second = nn.Parameter(weft.ones(2)), nn.Parameter(weft.ones(2))
    optimizer = weft.optim.SGD([first], lr=0.5)

    def step():
        (first + second).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    run = host(step)
    run()
    optimizer.add_param_group({"params": [second]})
    second.grad = None
    run()
    assert first.tolist() == [0.0, 0.0]
    assert second.tolist() == [0.5, 0.5]


def test_memory_from_numpy_is_read_anew():
    outside = np.zeros(3, np.float32)
    run = host(lambda x: x + weft.from_numpy(outside))
    assert run(weft.ones(3)).tolist() == [1.0, 1.0, 1.0]
    outside += 2
    assert run(weft.ones(3)).tolist() == [3.0, 3.0, 3.0]


# --------------------------------------------------------------------------------- around the compiled function


def test_gradients_from_outside():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    other = copy.deepcopy(model)
    run = host(other)
    for _ in range(3):
        x, y = weft.randn(5, 4), weft.randint(0, 3, (5,))
        found = []
        for function in (model, run):
            leaf = x.clone().requires_grad_()
            loss = F.cross_entropy(function(leaf * 2), y)
            loss.backward()
            found.append((loss, leaf.grad))
        _same(*found)
        _same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])
    assert _plans(run) == 1


def test_gradients_from_outside_are_careful():
    w = weft.ones(3, requires_grad=True)
    run = host(lambda x: ((w * x).sin(), x * 3))
    y, z = run(weft.ones(3))
    assert y.requires_grad and not z.requires_grad
    y.sum().backward()
    with pytest.raises(AutogradError, match="second time"):
        y.sum().backward()
    y, _ = run(weft.ones(3))
    with pytest.raises(AutogradError, match="differentiated twice"):
        weft.autograd.grad(y.sum(), w, create_graph=True)
    with weft.no_grad():
        w.add_(1)
    with pytest.raises(AutogradError, match="inplace"):
        y.sum().backward()


def test_decorator_and_methods():
    @compile(backend="host")
    def double(x):
        "Twice."
        return x * 2

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = weft.tensor(3.0)

        @compile(backend="host")
        def forward(self, x):
            return x * self.factor

    assert double.__name__ == "double" and double.__doc__ == "Twice."
    assert double(weft.ones(1)).item() == 2
    assert Scale()(weft.ones(1)).item() == 3
    assert host(lambda x: double(x) + Scale()(x))(weft.ones(1)).item() == 5  # inlined
    assert weft.vmap(double)(weft.ones(2, 1)).tolist() == [[2.0], [2.0]]


def test_graph_is_there_to_look_at():
    graph = host(lambda x: (x * 2).sum()).graph(weft.ones(2, 3))
    assert [node.op.name for node in graph] == ["argument", "constant", "mul", "sum"]
    assert "test_trace.py" in graph.nodes[-1].line
    assert graph.outputs[0].shape == ()


def test_other_threads_stay_eager():
    """While one thread traces, another computes with the same tensors."""
    w = weft.ones(3, requires_grad=True)
    inside, done, found = threading.Event(), threading.Event(), []

    def other():
        inside.wait(5)
        found.append((w * 2).sum().item())
        found.append(w.shape)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def function(x):
        y = w * x
        inside.set()
        done.wait(5)
        return y.sum()

    assert host(function)(weft.ones(3)).item() == 3
    thread.join()
    assert found == [6.0, (3,)]


def test_results_have_memory_of_their_own():
    run = host(lambda x: (x.detach(), x.clone(), x.clone(), [y := x * 2, y]))
    x = weft.ones(2)
    a, b, c, (d, e) = run(x)
    for part in (a, b, c):
        part.add_(1)
    assert x.tolist() == [1.0, 1.0]
    assert a.tolist() == b.tolist() == c.tolist() == [2.0, 2.0]
    assert d is e
