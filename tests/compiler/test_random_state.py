"""Random small classes with Python state: whatever a step does with its attributes, compiled equals eager or refuses."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.errors import TraceError


class Machine:
    """Attributes of every kind, and a step made of random statements."""

    total = 0.0

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.n, self.rate, self.flag, self.mode = 0, 1.5, False, None
        self.numbers, self.table, self.inner = [1.0, 2.0, 3], {"a": 0, "b": 0.5}, {"deep": [0]}
        self.memory, self.pair, self.tensors = None, None, {}
        self.w = weft.ones(3, requires_grad=True)
        self.body = [STATEMENTS[k] for k in rng.integers(0, len(STATEMENTS), rng.integers(2, 8))]

    def step(self, x):
        y = x * self.w
        for statement in self.body:
            y = statement(self, y)
        self.w.grad = None
        y.sum().backward()
        with weft.no_grad():
            self.w -= 0.01 * self.w.grad
        return y.detach()

    def seen(self):
        def flat(x):
            if isinstance(x, weft.Tensor):
                return x.detach().numpy().ravel().tolist()
            if isinstance(x, dict):
                x = [x[k] for k in sorted(x)]
            return [v for part in x for v in flat(part)] if isinstance(x, (list, tuple)) else [x]

        kept = [self.n, self.rate, self.flag, self.mode, self.numbers, self.table, self.inner, self.memory, self.pair]
        return [repr(round(v, 4)) if isinstance(v, float) else repr(v) for v in flat([*kept, self.tensors, self.w])]


def count(m, y):
    m.n += 1
    return y * m.n


def decay(m, y):
    m.rate *= 0.9
    return y * m.rate


def wrap_around(m, y):
    m.n = (m.n + 2) % 5
    return y + m.numbers[m.n % 3]


def flip(m, y):
    m.flag = not m.flag
    return y if m.flag else -y


def name(m, y):
    m.mode = "late" if m.n > 3 else "early"
    return y + len(m.mode)


def write_list(m, y):
    m.numbers[m.n % 2] = m.numbers[1] + m.rate
    return y + m.numbers[0]


def write_table(m, y):
    m.table["a"] = m.table.get("a", 0) + 1
    return y * (1 + m.table["a"] * 0.1)


def new_key(m, y):
    m.table.setdefault("c", m.rate)
    m.table["c"] += 0.25
    return y + m.table["c"]


def deep(m, y):
    m.inner["deep"][0] += 1
    return y + m.inner["deep"][0] // 2


def remember(m, y):
    m.memory = y.detach() if m.memory is None else 0.5 * m.memory + y.detach()
    return y + m.memory


def pair(m, y):
    a, b = (y.detach(), 0) if m.pair is None else m.pair
    m.pair = (a * 0.5, b + 1)
    return y - a + m.pair[1]


def tensors(m, y):
    if "v" not in m.tensors:
        m.tensors["v"] = weft.zeros(3)
    m.tensors["v"].add_(y.detach())
    return y + m.tensors["v"] * 0.1


def forget(m, y):
    if m.n % 4 == 3:
        m.memory = None
    return y


def decide(m, y):
    return y * 0.5 if y.abs().sum() > 6 else y + 1


def item(m, y):
    m.rate = m.rate * 0.5 + min(y.mean().item(), 2.0) * 0.1
    return y


def of_class(m, y):
    Machine.total = Machine.total + 0.5
    return y + Machine.total % 2


def swap(m, y):
    m.numbers[0], m.numbers[1] = m.numbers[1], m.numbers[0]
    return y * m.numbers[0]


def loop(m, y):
    for k in range(m.n % 3):
        y = y + k * m.rate
    return y


def grow(m, y):
    m.numbers.append(1.0)
    return y


STATEMENTS = [
    count, decay, wrap_around, flip, name, write_list, write_table, new_key, deep, remember, pair, tensors, forget, decide,
    item, of_class, swap, loop, grow,
]  # fmt: skip


def _history(seed, wrap):
    Machine.total = 0.0
    machine = Machine(seed)
    run, found = wrap(machine.step), []
    for k in range(9):
        if k == 5:
            machine.rate = 0.25  # from outside
        y = run(weft.tensor([1.0, -2.0, 0.5]) * (1 + k % 2))
        found.append((y.numpy(), machine.seen()))
    return found


def _agree(seed, backend):
    expected = _history(seed, lambda function: function)
    try:
        found = _history(seed, lambda function: weft.compile(function, backend=backend))
    except TraceError as error:
        return "gets new entries" in str(error)
    for (a, kept), (b, other) in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-4, err_msg=f"seed {seed}")
        for one, two in zip(kept, other, strict=True):
            assert one == two or abs(float(one) - float(two)) < 2e-3 * max(1, abs(float(one))), f"seed {seed}"
    return True


@pytest.mark.filterwarnings("ignore:compile. .* needs ever new plans")
@pytest.mark.parametrize("backend, seeds", [("host", range(40)), ("native", range(100, 106))])
def test_random_state(backend, seeds):
    assert all([_agree(seed, backend) for seed in seeds])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:compile. .* needs ever new plans")
def test_much_random_state():
    assert all([_agree(seed, "host") for seed in range(1000, 2000)])
