"""Stores: past the caches where none holds the arrays, at any alignment and length; and of the last few lanes."""

import ctypes

import numpy as np
import pytest

import weft
from weft.kernels.llvm import jit
from weft.kernels.llvm.builder import Function
from weft.kernels.llvm.jit import Target
from weft.kernels.llvm.values import type_of

from .kernel_runs import TARGETS

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


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(300, 257), (512, 512), (17, 4096), (4096, 9), (256, 1433), (3, 400, 70), (64, 64, 40)]
)
def test_transpositions_write_every_element_and_no_other(shape, dtype):
    """Worked through in short pieces of rows: moved alone, and joined with an array that lies the other way."""
    rng, axes, size = np.random.default_rng(0), tuple(range(len(shape)))[::-1], int(np.prod(shape))
    x, other = ((rng.standard_normal(s) * 5).astype(dtype) for s in (shape, shape[::-1]))
    memory = np.ones((2, size + 64), dtype)
    moved, joined = (
        weft.from_numpy(row)[:size].reshape(s) for row, s in zip(memory, (shape[::-1], shape), strict=True)
    )

    @weft.compile
    def run(x, other):
        moved.copy_(x.permute(axes))
        joined.copy_(x ^ other.permute(axes) if dtype == np.bool_ else x + other.permute(axes))

    run(weft.from_numpy(x), weft.from_numpy(other))
    np.testing.assert_array_equal(moved.numpy(), x.transpose(axes))
    turned = other.transpose(axes)
    np.testing.assert_array_equal(joined.numpy(), x ^ turned if dtype == np.bool_ else x + turned)
    assert (memory[:, size:] == 1).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.float32, np.float64])
def test_known_tails_store_their_lanes_and_no_other(target, dtype):
    """Every number of lanes from none to all, also of a byte each."""
    chosen, lanes = jit.Target.named(target), 8
    key = f"tails {target} {np.dtype(dtype)}"
    f = Function(jit.symbol(key), chosen)
    kind = type_of(np.dtype(dtype))
    for count in range(lanes + 1):
        value = f.load(f.arg(0), 0, kind, lanes)
        f.store(value, f.arg(1), f.index(16 * count), f.tail_mask(lanes, count))
    given, out = np.ones(lanes, dtype), np.zeros((lanes + 1, 16), dtype)
    handle = jit.build({key: f.text}, chosen)[key]
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(handle.address)
    entry((ctypes.c_int64 * 2)(given.ctypes.data, out.ctypes.data), None, 0, 1)
    np.testing.assert_array_equal(out, np.arange(16) < np.arange(lanes + 1)[:, None])
