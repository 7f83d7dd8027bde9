"""A signal handler that computes, in the middle of whatever the program computes, gets and leaves right results."""

from __future__ import annotations

import random
import signal
import threading
import warnings

import numpy as np
import numpy.testing as npt
import pytest

import weft
from weft import nn
from weft.tape.modes import mode

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")

SMALL, LARGE = weft.linspace(-1, 1, 12).reshape(3, 4), weft.linspace(-1, 1, 90_000).reshape(300, 300)


def eager_small():
    w = weft.ones(4, 4, requires_grad=True)
    (SMALL @ w).square().mean().backward()
    return [SMALL.softmax(1).sum(0).max(), SMALL.to(weft.float64).sum(), weft.cat([SMALL, SMALL]).var(), w.grad.sum()]


def eager_large():
    return [(LARGE @ LARGE).exp().mean(), LARGE.tanh().square().sum(), LARGE.softmax(1).max()]


STEP = weft.compile(lambda x: (x @ x).tanh().sum(1))


def compiled():
    return [STEP(LARGE).sum(), STEP(LARGE[:4, :4]).sum()]


def traced():
    """A function that was never seen before."""
    return [weft.compile(lambda x: (x.exp() + 1).log().sum())(SMALL)]


def optimised():
    model = nn.Linear(300, 300)
    nn.init.constant_(model.weight, 0.01)
    nn.init.constant_(model.bias, 0.0)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(LARGE).square().mean().backward()
        optimizer.step()
    return [model.weight.detach().sum()]


WORK = {"small": eager_small, "large": eager_large, "compiled": compiled, "traced": traced, "steps": optimised}


def all_work():
    return np.array([x.item() for work in WORK.values() for x in work()])


@pytest.mark.parametrize("name", WORK)
def test_a_handler_that_computes_everything(name):
    """It comes at random moments, again and again, while the program does one kind of work."""
    warnings.simplefilter("ignore")
    expected, own = all_work(), np.array([x.item() for x in WORK[name]()])
    errors, count, draws = [], 0, random.Random(7)

    def handle(*_):
        nonlocal count
        try:
            with weft.enable_grad():  # as it has the modes of what it interrupts, here a backward pass's
                npt.assert_allclose(all_work(), expected, rtol=1e-4, atol=1e-5)
        except BaseException as error:
            errors.append(error)
        count += 1
        if count < 8:
            signal.setitimer(signal.ITIMER_REAL, draws.uniform(1e-5, 2e-3))

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        while count < 8 and not errors:
            npt.assert_allclose([x.item() for x in WORK[name]()], own, rtol=1e-4, atol=1e-5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if errors:
        raise errors[0]


def test_a_handler_in_the_middle_of_a_trace():
    """It sees numbers, and leaves nothing in the graph."""
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append((mode.interpreter, (SMALL + 1).sum().item())))

    def f(x):
        signal.raise_signal(signal.SIGALRM)
        return x * 2

    try:
        run = weft.compile(f)
        assert run(weft.ones(3)).tolist() == [2, 2, 2] and len(run.graph(weft.ones(3)).nodes) <= 3
        assert [tracer for tracer, _ in seen] == [None, None] and abs(seen[0][1] - 12) < 1e-5
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_the_traced_function_sets_stays():
    mine, other = (lambda *_: None), (lambda *_: None)
    before = signal.signal(signal.SIGALRM, mine)
    try:
        weft.compile(lambda x: (signal.signal(signal.SIGALRM, other), x + 1)[1])(weft.ones(2))
        assert signal.getsignal(signal.SIGALRM) is other
        signal.signal(signal.SIGALRM, mine)
        weft.compile(lambda x: x + 2)(weft.ones(2))
        assert signal.getsignal(signal.SIGALRM) is mine
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_trace_in_another_thread_touches_no_handlers():
    found = []
    thread = threading.Thread(target=lambda: found.append(weft.compile(lambda x: x + 3)(weft.ones(2)).sum().item()))
    thread.start()
    thread.join()
    assert found == [8]


def test_errors_of_operations_are_their_own():
    """Only the refusal to be entered twice is taken for a handler."""

    def fail():
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        mode.call(fail)
    assert mode.run(lambda: mode.call(lambda: 5)) == 5
