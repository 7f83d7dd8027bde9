"""A short run of the fuzzer: nothing crashes or hangs, and what is refused is refused in Weft's words."""

from __future__ import annotations

import contextlib
import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.errors import ArgumentError, OptionError, OutOfMemoryError
from weft.refusal import is_internal, need_bounded

from . import extremes, judge
from .run import fuzz

CALLS = 2000


def test_random_calls():
    tally = fuzz(300, 20_000_000, count=CALLS)
    assert tally.calls >= CALLS - 1 and tally.sound, tally.report(20)


@pytest.mark.slow
def test_many_random_calls():
    tally = fuzz(120, 40_000_000, processes=2)
    assert tally.sound, tally.report(40)


@pytest.mark.slow
def test_every_number_at_its_extremes():
    count = len(extremes.cases())
    tally = fuzz(1200, 0, processes=2, count=-(-count // 2), source="extremes")
    assert tally.calls >= count and tally.sound, tally.report(40)


ABSURD = {
    "zeros": lambda: weft.zeros(10**15),
    "ones of many sizes": lambda: weft.ones(10**6, 10**6, 10**6),
    "repeat": lambda: weft.ones(3).repeat(10**14),
    "linspace": lambda: weft.linspace(0, 1, 10**15),
    "arange": lambda: weft.arange(10**16),
    "eye": lambda: weft.eye(10**9),
    "one_hot": lambda: weft.nn.functional.one_hot(weft.tensor([1]), 10**15),
    "pad": lambda: weft.nn.functional.pad(weft.ones(3), (0, 10**15)),
    "adaptive pool": lambda: weft.nn.functional.adaptive_max_pool1d(weft.ones(1, 1, 4), 2**40),
    "adaptive pool beside nothing": lambda: weft.nn.functional.adaptive_max_pool2d(weft.ones(1, 4, 4), (2**31, 0)),
    "vander": lambda: weft.linalg.vander(weft.ones(3), N=10**12),
    "vander of what fits": lambda: weft.linalg.vander(weft.ones(3), N=2**23),
    "tensor_split": lambda: weft.ones(3).tensor_split(10**12),
    "repeat_interleave": lambda: weft.ones(3).repeat_interleave(weft.full((3,), 2**62)),
    "expand": lambda: weft.ones(1, 1).expand(2**40, 2**40),
    "expand past every address": lambda: weft.ones(1).expand(2**70),
    "enumerate_support": lambda: weft.distributions.Binomial(weft.inf, 0.5, validate_args=False).enumerate_support(),
    "chunk of nothing": lambda: weft.ones(0).chunk(10**7),
    "unflatten": lambda: weft.ones(3).unflatten(0, (3, 10**30)),
    "linear": lambda: weft.nn.Linear(10**9, 10**9),
    "polynomial": lambda: weft.special.hermite_polynomial_h(weft.ones(3), 10**12),
    "mvlgamma": lambda: weft.mvlgamma(weft.ones(3), 10**12),
    "svd_lowrank": lambda: weft.svd_lowrank(weft.ones(3, 3), q=2, niter=10**12),
    "svd_lowrank of what fits": lambda: weft.svd_lowrank(weft.ones(3, 3), q=2, niter=2**23),
    "a number past every float": lambda: weft.ones(3) + 10**400,
    "combinations": lambda: weft.combinations(weft.ones(60), 30),
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_numbers_are_refused(name):
    """At once: without a loop over them, and without memory that is there only as long as nobody writes to it."""
    start = time.process_time()
    with limited(memory=4 * 2**30), pytest.raises(weft.errors.WeftError):
        ABSURD[name]()
    assert time.process_time() - start < 2


@contextlib.contextmanager
def limited(memory):
    """No more address space than now and so many bytes; a loop is ended by a signal."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + memory, before[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, 20)
    signal.signal(signal.SIGVTALRM, lambda *_: pytest.fail("a loop over an absurd number"))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)


WRONG = [
    (lambda: weft.softmax(weft.ones(2, 2), "a"), TypeError, "softmax"),
    (lambda: weft.ones(2, 2).softmax([1]), TypeError, "softmax"),
    (lambda: weft.nn.functional.layer_norm(weft.ones(2), "abc"), (TypeError, ValueError), "layer_norm"),
    (lambda: weft.nn.Conv2d("3", 4, 3), (TypeError, ValueError), "Conv2d"),
    (lambda: weft.nn.LSTM(3, 4)(5), TypeError, "LSTM"),
    (lambda: weft.optim.SGD(weft.nn.Linear(1, 1).parameters(), lr=[1]), (TypeError, ValueError), "SGD"),
    (lambda: weft.distributions.Normal("a", 1), (TypeError, ValueError), "Number or weft.Tensor"),
    (lambda: weft.nn.init.uniform_([1.0]), TypeError, "uniform_"),
    (lambda: weft.ones(2).clone(memory_format=np.ones(2)), TypeError, "clone"),
    (lambda: weft.ones(2).to(copy=np.ones(2)), TypeError, "to: copy"),
    (lambda: weft.nn.functional.relu(weft.ones(2), np.ones(2)), TypeError, "relu: inplace"),
    (lambda: weft.ones(2).requires_grad_(np.ones(2)), TypeError, "requires_grad_"),
    (lambda: weft.ones(2).view(dtype=weft.tensor(3.0 + 0j)), TypeError, "element type"),
    (lambda: weft.tensor(1).size(-1), IndexError, "size"),
    (lambda: weft.tensor(1).stride(0), IndexError, "stride"),
    (lambda: weft.where(weft.ones(2) > 0, np.dtype("int16"), 1), TypeError, "where: input"),
    (lambda: weft.where(weft.ones(2) > 0, 1), TypeError, "where: other"),
    (lambda: weft.ones(2, dtype=weft.bfloat16) + 10**400, OverflowError, "bfloat16"),
]


@pytest.mark.parametrize(("call", "kind", "name"), WRONG)
def test_what_is_said_names_the_function(call, kind, name):
    with pytest.raises(kind, match=name) as caught:
        call()
    assert judge.judged(caught.value) in ("ours", "reworded")


def test_errors_of_the_user_are_left_alone():
    """What is raised in a module, a closure or a function of the user's comes out as it was."""

    class Broken(weft.nn.Module):
        def forward(self, x):
            return x.no_such_list[0] + {}["key"]

    for raised, call in (
        (AttributeError, lambda: Broken()(weft.ones(2))),
        (KeyError, lambda: weft.optim.SGD([weft.ones(1, requires_grad=True)], 0.1).step(lambda: {}["key"])),
        (ZeroDivisionError, lambda: weft.func.vmap(lambda x: x * (1 // 0))(weft.ones(2))),
    ):
        with pytest.raises(raised) as caught:
            call()
        assert not isinstance(caught.value, (ArgumentError, OptionError))


def test_what_is_raised_on_purpose_is_not_reworded():
    with pytest.raises(OptionError) as caught:
        need_bounded(2**30, "name", "steps")
    assert not is_internal(caught.value)


def test_too_little_memory_is_said_so():
    with pytest.raises(OutOfMemoryError, match="zeros: there is not enough memory") as caught:
        weft.zeros(10**15)
    assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, MemoryError)
