"""Convolution and pooling kernels against PyTorch in float64: geometry, types, processors, threads, memory touched."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from weft.kernels.body import Access, Body, Step
from weft.kernels.kernel import Kernel
from weft.kernels.llvm import jit
from weft.kernels.llvm.values import OF_NUMPY
from weft.kernels.pool import Pool
from weft.kernels.windows.conv import ConvForward, ConvShape
from weft.kernels.windows.conv_grad import ConvInputGrad, ConvWeightGrad
from weft.kernels.windows.pooling import AddAtLargest, LargestInWindows, PoolShape, SpreadSums, WindowSums
from weft.kernels.windows.winograd import WinogradConv, WinogradWeightGrad
from weft.kernels.windows.winograd_choice import choose_forward, choose_input_grad, choose_weight_grad
from weft.kernels.windows.winograd_panels import WinogradPanels
from weft.runtime import native

from .native_samples import Plan, words

HOST = jit.Target.named("host")
OTHERS = ["x86-64-v2", "x86-64-v3"][: {16: 0, 32: 1, 64: 2}[HOST.vector_bytes]] if HOST.arch == "x86_64" else []
GUARD = 64  # bytes before and after every buffer that nothing may write
POOLS = {threads: Pool(threads) for threads in (1, 2, 3)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


# ---------------------------------------------------------------- running kernels


class Buffer:
    """An array (n, h, w, c) or a plain one between guards, at an address that is only aligned to its elements."""

    def __init__(self, array: np.ndarray) -> None:
        self.memory = np.full(array.nbytes + 2 * GUARD + 8, 0xAB, np.uint8)
        inside = self.memory[GUARD + 8 : GUARD + 8 + array.nbytes]
        self.array = inside.view(array.dtype).reshape(array.shape)
        self.array[...] = array

    def access(self, arg: int, *order: int) -> Access:
        """Strides of the axes, in another order if asked for."""
        strides = [s // self.array.itemsize for s in self.array.strides]
        return Access(arg, OF_NUMPY[self.array.dtype], tuple(strides[i] for i in order) if order else tuple(strides))

    def untouched(self) -> bool:
        return bool((self.memory[: GUARD + 8] == 0xAB).all() and (self.memory[-GUARD:] == 0xAB).all())


def run(kernel: Kernel, buffers: list[Buffer], threads: int = 2, target: jit.Target = HOST) -> None:
    """Run on a pool; `workspace` and `scratch` follow the buffers and hold NaN at the start."""
    key = kernel.key()
    handle = jit.build({key: lambda: kernel.text(jit.symbol(key), target, native.BARRIER_IR)}, target)[key]
    memories = []
    for size in (getattr(kernel, "workspace", 0), kernel.scratch * threads):
        whole = np.full(size + 192, 0xFF, np.uint8)
        start = -whole.ctypes.data % 64 + 64
        memories.append(whole[start : start + size + 64])
    POOLS[threads].run(Plan((handle, words(*(b.array for b in buffers), *memories), 1)).address)
    assert all((m[-64:] == 0xFF).all() for m in memories)
    assert all(b.untouched() for b in buffers)


def storing(buffer: Buffer, arg: int, *order: int) -> Body:
    access = buffer.access(arg, *order)
    return Body(given=(access.kind,), stores=((access, 0),))


def channels_first(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))).double()


def channels_last(x: torch.Tensor) -> np.ndarray:
    return x.numpy().transpose(0, 2, 3, 1)


class Problem:
    """One convolution: its shape, random tensors and the three true results with what |terms| add up to."""

    def __init__(self, shape: ConvShape, dtype: Any = np.float32, seed: int = 0) -> None:
        rng, self.shape = np.random.default_rng(seed), shape
        s = shape
        self.x = rng.standard_normal((s.batch, *s.image, s.inputs)).astype(dtype)
        self.w = rng.standard_normal((s.outputs, s.inputs // s.groups, *s.kernel)).astype(dtype)
        self.y = rng.standard_normal((s.batch, *s.counts, s.outputs)).astype(dtype)

    def truth(self, what: str, absolute: bool = False) -> np.ndarray:
        s = self.shape
        x, w, y = channels_first(self.x), torch.from_numpy(self.w).double(), channels_first(self.y)
        if absolute:
            x, w, y = x.abs(), w.abs(), y.abs()
        geometry = (s.stride, s.padding, s.dilation, s.groups)
        if what == "y":
            return channels_last(torch.nn.functional.conv2d(x, w, None, *geometry))
        if what == "x":
            return channels_last(torch.nn.grad.conv2d_input(x.shape, w, y, *geometry))
        return torch.nn.grad.conv2d_weight(x, w.shape, y, *geometry).numpy()

    def check(self, what: str, make: Any, rounding: float = 4.0, **options: Any) -> Kernel:
        """Run the kernel for y, x or w; its error is within `rounding` · √terms roundings of Σ |terms|."""
        given = {"y": (self.x, self.w), "x": (self.y, self.w), "w": (self.x, self.y)}[what]
        like = {"y": self.y, "x": self.x, "w": self.w}[what]
        result = Buffer(np.full(like.shape, np.nan, like.dtype))
        buffers = [*map(Buffer, given), result]
        body = storing(result, 2)
        if what == "w":
            body = Body((body.given[0],), stores=((Access(2, body.given[0], (like[0].size, 1)), 0),))
        kernel = make(self.shape, buffers[0].access(0), buffers[1].access(1), body, 3, 4)
        run(kernel, buffers, **options)
        terms = 2 * self.shape.multiplications / like.size
        bound = rounding * np.finfo(like.dtype).eps * np.sqrt(max(terms, 16)) * self.truth(what, absolute=True) + 1e-300
        error = np.abs(result.array - self.truth(what))
        assert (error <= bound).all(), np.nanmax(error / bound)
        return kernel


def conv_shape(inputs, outputs, kernel, stride=1, padding=0, dilation=1, groups=1, image=8, batch=8) -> ConvShape:
    pairs = [v if isinstance(v, tuple) else (v, v) for v in (image, kernel, stride, padding, dilation)]
    counts = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(*pairs, strict=True))
    image, kernel, stride, padding, dilation = pairs
    return ConvShape(batch, inputs, outputs, image, counts, kernel, stride, padding, dilation, groups)


DIRECT = {"y": ConvForward, "x": ConvInputGrad, "w": ConvWeightGrad}
TABLE = {
    "3×3": conv_shape(16, 32, 3, padding=1, image=7, batch=9),
    "3×3, odd channels": conv_shape(13, 21, 3, padding=1, image=6, batch=11),
    "3×3, three and a half panels": conv_shape(8, 112, 3, padding=1, image=5, batch=4),
    "3×3, five vectors": conv_shape(9, 80, 3, padding=1, image=4, batch=5),
    "one image": conv_shape(12, 40, 3, padding=1, image=(9, 13), batch=1),
    "three images, no padding": conv_shape(8, 16, 3, image=(9, 10), batch=3),
    "one channel": conv_shape(1, 40, 3, padding=1, image=11, batch=3),
    "three channels": conv_shape(3, 16, 5, 2, 2, image=(13, 11), batch=2),
    "patches": conv_shape(3, 48, 4, 4, image=16, batch=3),
    "1×1": conv_shape(24, 36, 1, image=5, batch=10),
    "1×1 stride 2": conv_shape(8, 80, 1, 2, image=9, batch=1),
    "stride 2": conv_shape(8, 20, 3, 2, 1, image=9, batch=12),
    "stride 3, kernel 2": conv_shape(8, 16, 2, 3, image=10, batch=4),
    "dilation": conv_shape(6, 18, 3, 1, 2, 2, image=9, batch=8),
    "stride and dilation": conv_shape(8, 12, (3, 4), (1, 3), (0, 2), (2, 3), image=(15, 17), batch=4),
    "stride and dilation with a common factor": conv_shape(
        5, 12, (3, 5), (2, 6), (1, 2), (3, 4), image=(15, 27), batch=4
    ),
    "wide padding": conv_shape(5, 16, 3, padding=4, image=3, batch=9),
    "one dimension": conv_shape(8, 24, (1, 3), 1, (0, 1), image=(1, 20), batch=6),
    "groups": conv_shape(12, 18, 3, padding=1, groups=3, image=6, batch=9),
    "groups, one image": conv_shape(12, 18, 3, padding=1, groups=3, image=6, batch=1),
    "depth-wise": conv_shape(24, 24, 3, padding=1, groups=24, image=7, batch=9),
    "depth-wise stride 2": conv_shape(20, 20, 3, 2, 1, groups=20, image=9, batch=1),
    "depth-wise multiplied": conv_shape(6, 12, 3, padding=1, groups=6, image=5, batch=4),
    "few results": conv_shape(40, 3, 3, padding=1, image=7, batch=9),
    "few results, stride 2, one image": conv_shape(3, 32, 4, 2, 1, image=8, batch=1),
    "large image": conv_shape(8, 16, 3, padding=1, image=(40, 70), batch=1),
}


@pytest.mark.parametrize("what", DIRECT)
@pytest.mark.parametrize("name", TABLE)
def test_direct_tiles(name, what):
    Problem(TABLE[name]).check(what, DIRECT[what])


@pytest.mark.parametrize("what", DIRECT)
@pytest.mark.parametrize("name", ["3×3, odd channels", "three channels", "stride 2", "depth-wise", "few results"])
def test_double_precision(name, what):
    Problem(TABLE[name], np.float64).check(what, DIRECT[what], threads=1)


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("what", DIRECT)
@pytest.mark.parametrize("name", ["3×3, odd channels", "one image", "three channels", "stride 2", "few results"])
def test_older_processors(name, what, target):
    Problem(TABLE[name]).check(what, DIRECT[what], target=jit.Target.named(target))


@pytest.mark.parametrize("name", ["aarch64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_code_for_other_processors(name):
    target = jit.Target.named(name)
    for what, make in {**DIRECT, "y4": WinogradForward, "w4": WinogradWeights}.items():
        access = Access(0, "f32", (1000, 100, 16, 1))
        weights = Access(1, "f32", (144, 9, 3, 1))
        body = Body(("f32",), stores=((Access(2, "f32", (144, 1) if what[0] == "w" else (1000, 100, 16, 1)), 0),))
        shape = conv_shape(16, 32, 3, padding=1, image=6, batch=8)
        kernel = make(shape, access, access if what[0] == "w" else weights, body, 3, 4)
        assert jit.emit_object(kernel.text("kernel", target, native.barrier_ir(target.arch)), target)


# ---------------------------------------------------------------- Winograd


def WinogradForward(*arguments: Any) -> WinogradConv:
    return WinogradConv(ConvForward(*arguments), 4, 16)


def WinogradInput(*arguments: Any) -> WinogradConv:
    return WinogradConv(ConvInputGrad(*arguments), 2, 8)


def WinogradWeights(*arguments: Any) -> WinogradWeightGrad:
    return WinogradWeightGrad(ConvWeightGrad(*arguments), 4, 16)


def tiled(make: Any, outside: Any, m: int, block: int) -> Any:
    return lambda *arguments: outside(make(*arguments), m, block)


WINOGRAD_SHAPES = {
    "whole tiles": conv_shape(16, 48, 3, padding=1, image=8, batch=5),
    "cut tiles": conv_shape(32, 16, 3, padding=1, image=(7, 9), batch=3),
    "no padding": conv_shape(16, 80, 3, image=(9, 6), batch=2),
    "wide padding": conv_shape(16, 16, 3, padding=2, image=(5, 3), batch=3),
    "one tile an image": conv_shape(48, 32, 3, padding=1, image=4, batch=4),
}


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("what", DIRECT)
@pytest.mark.parametrize("name", WINOGRAD_SHAPES)
def test_winograd(name, what, m):
    outside = WinogradWeightGrad if what == "w" else WinogradConv
    rounding = {2: 4.0, 4: 30.0}[m]
    Problem(WINOGRAD_SHAPES[name]).check(what, tiled(DIRECT[what], outside, m, 16), rounding)


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("what", ["y", "x"])
@pytest.mark.parametrize("name", [*WINOGRAD_SHAPES, "some channels at a time"])
def test_winograd_by_panels(name, what, threads):
    shape = WINOGRAD_SHAPES.get(name, conv_shape(64, 128, 3, padding=1, image=7, batch=9))
    near = 4 * 36 * 16 * 32  # bytes: so many transformed weights at once
    make = lambda *arguments: WinogradPanels(DIRECT[what](*arguments), 4, threads, near)
    Problem(shape).check(what, make, 30.0)


def test_winograd_by_panels_gives_the_bits_of_blocks():
    shape, found = conv_shape(64, 96, 3, padding=1, image=9, batch=3), []
    problem = Problem(shape)
    for outside, *options in ((WinogradConv, 8), (WinogradPanels, 1, 4 * 36 * 16 * 32), (WinogradPanels, 16)):
        result = Buffer(np.full(problem.y.shape, np.nan, np.float32))
        buffers = [Buffer(problem.x), Buffer(problem.w), result]
        direct = ConvForward(shape, buffers[0].access(0), buffers[1].access(1), storing(result, 2), 3, 4)
        run(outside(direct, 4, *options), buffers)
        found.append(result.array)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("what", ["y", "x"])
def test_winograd_by_panels_on_older_processors(what, target):
    make = tiled(DIRECT[what], WinogradPanels, 4, 3)
    Problem(WINOGRAD_SHAPES["cut tiles"]).check(what, make, 30.0, target=jit.Target.named(target))


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("what", DIRECT)
def test_winograd_on_older_processors(what, target):
    outside = WinogradWeightGrad if what == "w" else WinogradConv
    make = tiled(DIRECT[what], outside, 4, 16)
    Problem(WINOGRAD_SHAPES["cut tiles"]).check(what, make, 30.0, target=jit.Target.named(target))


CHOICE = {"y": choose_forward, "x": choose_input_grad, "w": choose_weight_grad}


@pytest.mark.parametrize("what", CHOICE)
def test_choice(what, monkeypatch):
    large = conv_shape(16, 16, 3, padding=1, image=12, batch=4)
    outside = WinogradWeightGrad if what == "w" else WinogradConv
    assert type(Problem(large).check(what, CHOICE[what], 30.0)) is outside
    for shape, dtype in (
        (large, np.float64),
        (dataclasses.replace(large, groups=2), np.float32),
        (conv_shape(16, 16, 3, 2, 1, image=12), np.float32),
        (conv_shape(16, 16, 3, padding=1, image=2, batch=2), np.float32),
        (conv_shape(24, 16, 3, padding=1, image=12), np.float32),
    ):
        access = Access(0, OF_NUMPY[np.dtype(dtype)], (1, 1, 1, 1))
        assert type(CHOICE[what](shape, access, access, Body(), 3, 4)) is DIRECT[what]
    monkeypatch.setenv("WEFT_WINOGRAD", "0")
    assert type(Problem(large).check(what, CHOICE[what])) is DIRECT[what]


# ---------------------------------------------------------------- threads, layouts, epilogues


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("what", DIRECT)
@pytest.mark.parametrize("name", ["3×3", "one channel", "groups", "depth-wise"])
def test_any_number_of_threads(name, what, threads):
    Problem(TABLE[name]).check(what, DIRECT[what], threads=threads)


def test_few_channels_are_read_in_any_layout():
    """Channels-first images with three channels."""
    problem = Problem(conv_shape(3, 16, 3, padding=1, image=(6, 7), batch=3))
    x = Buffer(np.ascontiguousarray(problem.x.transpose(0, 3, 1, 2)))
    y, w = Buffer(np.full(problem.y.shape, np.nan, np.float32)), Buffer(problem.w)
    kernel = ConvForward(problem.shape, x.access(0, 0, 2, 3, 1), w.access(1), storing(y, 2), 3, 4)
    run(kernel, [x, w, y])
    np.testing.assert_allclose(y.array, problem.truth("y"), rtol=1e-5, atol=1e-5)
    g, found = Buffer(problem.y), Buffer(np.full(problem.w.shape, np.nan, np.float32))
    body = Body(("f32",), stores=((Access(2, "f32", (problem.w[0].size, 1)), 0),))
    run(ConvWeightGrad(problem.shape, x.access(0, 0, 2, 3, 1), g.access(1), body, 3, 4), [x, g, found])
    np.testing.assert_allclose(found.array, problem.truth("w"), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("batch", [2, 5])
@pytest.mark.parametrize("make", [ConvForward, WinogradForward])
def test_some_channels_of_wider_images(make, batch):
    """x is a slice of the channels of a larger tensor, y goes into one."""
    problem = Problem(conv_shape(16, 32, 3, padding=1, image=(6, 7), batch=batch))
    wide = np.random.default_rng(5).standard_normal((batch, 6, 7, 40)).astype(np.float32)
    wide[..., 8:24] = problem.x
    x, w, y = Buffer(wide), Buffer(problem.w), Buffer(np.full((batch, 6, 7, 50), 7, np.float32))
    x_access, y_body = x.access(0), storing(y, 2)
    x.array, y.array = x.array[..., 8:], y.array[..., 10:]  # the addresses that the kernel gets
    run(make(problem.shape, x_access, w.access(1), y_body, 3, 4), [x, w, y])
    np.testing.assert_allclose(y.array[..., :32], problem.truth("y"), rtol=1e-5, atol=1e-4)
    assert (y.array[..., 32:] == 7).all()


@dataclasses.dataclass(frozen=True)
class Op:
    """An operation of an epilogue."""

    title: str
    lower: Any


ADD, MUL = Op("add", lambda f, x, y: x + y), Op("mul", lambda f, x, y: x * y)
RELU = Op("relu", lambda f, x: f.select(x < 0.0, 0.0, x))


def step(op: Op, *operands: int) -> Step:
    return Step(op, operands, "f32", None)


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("make", [ConvForward, choose_forward])
def test_bias_residual_and_activation(make, batch):
    """y = relu(conv + bias) · scale + residual, and the residual is overwritten by it; written out and as a loop."""
    problem = Problem(conv_shape(16, 32, 3, padding=1, image=9, batch=batch))
    rng = np.random.default_rng(1)
    bias, scale = (rng.standard_normal(32).astype(np.float32) for _ in range(2))
    residual = rng.standard_normal(problem.y.shape).astype(np.float32)
    x, w, b, s, r = map(Buffer, (problem.x, problem.w, bias, scale, residual))
    for more in (0, 6):
        r.array[...] = residual
        vectors = tuple(Access(arg, "f32", (0, 0, 0, 1)) for arg in (2, 3))
        steps = [step(ADD, 0, 1), step(RELU, 4), step(MUL, 5, 2), step(ADD, 6, 3)]
        steps += [step(ADD, 7 + i, 1) for i in range(more)]
        body = Body(
            ("f32",), loads=(*vectors, r.access(4)), steps=tuple(steps), stores=((r.access(4), 3 + len(steps)),)
        )
        run(make(problem.shape, x.access(0), w.access(1), body, 5, 6), [x, w, b, s, r])
        expected = np.maximum(problem.truth("y") + bias, 0) * scale + residual + more * bias
        np.testing.assert_allclose(r.array, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("make", [ConvWeightGrad, choose_weight_grad])
def test_update_of_the_weights(make):
    """w ← w + g · (−0.1), in the kernel that makes g."""
    problem = Problem(conv_shape(16, 32, 3, padding=1, image=9, batch=4))
    x, y, w = map(Buffer, (problem.x, problem.y, problem.w))
    place = Access(2, "f32", (problem.w[0].size, 1))
    steps = (step(MUL, 0, 1), step(ADD, 2, 3))
    body = Body(("f32",), (("f32", -0.1),), (place,), steps, ((place, 4),))
    run(make(problem.shape, x.access(0), y.access(1), body, 3, 4), [x, y, w])
    np.testing.assert_allclose(w.array, problem.w - 0.1 * problem.truth("w"), rtol=1e-5, atol=2e-4)


def test_keys_tell_structures_apart():
    shapes = [conv_shape(16, 32, 3, padding=p, image=6, batch=n) for p in (0, 1) for n in (4, 8)]
    access, weight = Access(0, "f32", (576, 96, 16, 1)), Access(1, "f32", (144, 9, 3, 1))
    bodies = [Body(("f32",), stores=((Access(arg, "f32", (1152, 192, 32, 1)), 0),)) for arg in (2, 5)]
    made = [
        make(shape, access, access if make in (ConvWeightGrad, WinogradWeights) else weight, body, 3, 4)
        for make in (ConvForward, ConvInputGrad, ConvWeightGrad, WinogradForward, WinogradInput, WinogradWeights)
        for shape in shapes
        for body in bodies
    ]
    assert len({kernel.key() for kernel in made}) == len(made)


# ---------------------------------------------------------------- pooling


def pool_shape(channels, size, stride=None, padding=0, dilation=1, image=8, batch=2, ceil=False) -> PoolShape:
    size, padding, dilation, image = (v if isinstance(v, tuple) else (v, v) for v in (size, padding, dilation, image))
    stride = size if stride is None else stride if isinstance(stride, tuple) else (stride, stride)
    windows = torch.nn.functional.max_pool2d(torch.zeros(1, 1, *image), size, stride, padding, dilation, ceil)
    return PoolShape(batch, channels, image, tuple(windows.shape[2:]), size, stride, padding, dilation)


POOLINGS = {
    "2×2": pool_shape(32, 2),
    "2×2, odd image": pool_shape(20, 2, image=(7, 9)),
    "3×3 stride 2": pool_shape(24, 3, 2, 1, image=(9, 7)),
    "ceiling": pool_shape(16, 3, 2, image=(8, 9), ceil=True),
    "dilation": pool_shape(5, (2, 3), (1, 2), 1, (2, 1), image=(8, 11)),
    "overlapping": pool_shape(3, 5, 1, 2, image=6),
}


def reading(buffer: Buffer, arg: int) -> Body:
    return Body(loads=(buffer.access(arg),))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", POOLINGS)
def test_largest_in_windows(name, dtype):
    """Values and positions as PyTorch finds them, ties, NaN and -inf included; gradients by both kinds of place."""
    s, rng = POOLINGS[name], np.random.default_rng(2)
    x = rng.integers(-3, 3, (s.batch, *s.image, s.channels)).astype(dtype)
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(x.shape) < 0.3] = -np.inf
    ceil = name == "ceiling"
    value, place = torch.nn.functional.max_pool2d(
        channels_first(x), s.size, s.stride, s.padding, s.dilation, ceil, return_indices=True
    )
    shape = (s.batch, *s.counts, s.channels)
    buffers = [Buffer(x), *(Buffer(np.zeros(shape, kind)) for kind in (dtype, np.int64, np.uint8))]
    stores = tuple((b.access(i + 1), i) for i, b in enumerate(buffers[1:]))
    run(
        LargestInWindows(s, reading(buffers[0], 0), Body((OF_NUMPY[np.dtype(dtype)], "i64", "u8"), stores=stores)),
        buffers,
    )
    np.testing.assert_array_equal(buffers[1].array, channels_last(value))
    np.testing.assert_array_equal(buffers[2].array, channels_last(place))
    g = Buffer(rng.standard_normal(shape).astype(dtype))
    expected = np.zeros((s.batch, s.image[0] * s.image[1], s.channels))
    n, _, _, c = np.indices(shape)
    np.add.at(expected, (n, buffers[2].array, c), g.array)
    for winner, by in ((buffers[2], "position"), (buffers[3], "number")):
        found = Buffer(np.full(x.shape, np.nan, dtype))
        run(AddAtLargest(s, reading(g, 0), winner.access(1), storing(found, 2), by), [g, winner, found])
        np.testing.assert_allclose(found.array, expected.reshape(x.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", POOLINGS)
def test_window_sums(name):
    """Against a sum over all pairs of window and tap; the adjoint spreads what the windows were given."""
    s, rng = POOLINGS[name], np.random.default_rng(3)
    x = Buffer(rng.standard_normal((s.batch, *s.image, s.channels)).astype(np.float32))
    g = Buffer(rng.standard_normal((s.batch, *s.counts, s.channels)).astype(np.float32))
    sums, spread = np.zeros(g.array.shape), np.zeros(x.array.shape)
    for o in np.ndindex(*s.counts):
        for k in np.ndindex(*s.size):
            h, w = (o[i] * s.stride[i] + k[i] * s.dilation[i] - s.padding[i] for i in range(2))
            if 0 <= h < s.image[0] and 0 <= w < s.image[1]:
                sums[:, o[0], o[1]] += x.array[:, h, w]
                spread[:, h, w] += g.array[:, o[0], o[1]]
    for make, source, expected in ((WindowSums, x, sums), (SpreadSums, g, spread)):
        found = Buffer(np.full(expected.shape, np.nan, np.float32))
        run(make(s, reading(source, 0), storing(found, 1)), [source, found])
        np.testing.assert_allclose(found.array, expected, rtol=1e-5, atol=1e-5)


def test_largest_of_integers():
    s, rng = POOLINGS["3×3 stride 2"], np.random.default_rng(4)
    x = Buffer(rng.integers(-9, 9, (s.batch, *s.image, s.channels)).astype(np.int32))
    y = Buffer(np.zeros((s.batch, *s.counts, s.channels), np.int32))
    run(LargestInWindows(s, reading(x, 0), Body(("i32", "i64", "u8"), stores=((y.access(1), 0),))), [x, y])
    expected = torch.nn.functional.max_pool2d(channels_first(x.array), s.size, s.stride, s.padding)
    np.testing.assert_array_equal(y.array, channels_last(expected))
