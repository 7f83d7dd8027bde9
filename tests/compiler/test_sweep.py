"""Sweeps over arrays that no cache holds: stores past the caches, at any alignment and length."""

import numpy as np
import pytest

import weft
from weft.kernels.llvm.jit import Target

LONG = 2**22  # two arrays in and one out pass the threshold


@pytest.mark.parametrize("shift", [0, 1, 7, 16])
@pytest.mark.parametrize("length", [LONG, LONG + 1, LONG + 37, LONG - 15])
def test_stores_past_the_caches_write_every_element_and_no_other(length, shift):
    memory = np.full(length + 64, 7.0, np.float32)
    out = weft.from_numpy(memory)[shift : shift + length]
    x, y = (weft.from_numpy(np.random.default_rng(k).normal(size=length + k).astype(np.float32))[k:] for k in (0, 3))

    @weft.compile
    def run(x, y):
        out.copy_((x * 0.5 + y).relu() * y)

    run(x, y)
    a, b = x.numpy(), y.numpy()
    np.testing.assert_allclose(out.numpy(), np.maximum(a * np.float32(0.5) + b, 0) * b, rtol=1e-6)
    assert (memory[:shift] == 7).all() and (memory[shift + length :] == 7).all()


@pytest.mark.parametrize("length, past", [(2**22, True), (2**16, False)])
def test_only_large_sweeps_use_them(length, past):
    compiled = weft.compile(lambda x: x * 2 + 1)
    compiled(weft.zeros(length))
    plan = next(iter(compiled.plans.values()))[0].plan
    texts = [slot.step.kernel.text("kernel", Target.host()) for slot in plan.slots]
    assert len(texts) == 1 and ("nontemporal" in texts[0]) == past
