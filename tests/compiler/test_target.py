"""The processor as the system tells it: caches, cores, limits; and what results may depend on."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib

import numpy as np
import pytest

import weft
from weft.kernels.body import Access, Body
from weft.kernels.llvm.target import KIB, MIB, Caches, Target
from weft.kernels.matmul.product import Product, Tiling
from weft.nn import functional as F
from weft.runtime import processor
from weft.runtime.processor import Cache

SMALL, LARGE = Caches(16 * KIB, 64 * KIB, MIB), Caches(128 * KIB, 4 * MIB, 64 * MIB)
HYBRID = {  # /sys of a processor with fast cores 0-1 and slow cores 2-5 that share a second level
    "cpu0": [("Data", 1, "48K", "0-1"), ("Instruction", 1, "32K", "0-1"), ("Unified", 2, "1280K", "0-1")],
    "cpu2": [("Data", 1, "32K", "2"), ("Unified", 2, "2M", "2-5"), ("Unified", 3, "12288K", "0-5")],
    "cpu3": [("Data", 1, "0K", "3"), ("Unified", 2, "what?", "2-5")],
}


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Files of a system in a folder of its own."""

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    monkeypatch.setattr(processor, "_CPUS", tmp_path / "cpu")
    monkeypatch.setattr(processor, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(processor, "_OWN_GROUP", tmp_path / "own")
    processor.caches.cache_clear()
    yield write
    processor.caches.cache_clear()


@pytest.mark.skipif(not pathlib.Path("/sys").exists(), reason="reads Linux' files")
def test_caches_are_those_of_the_fast_cores(system):
    for core, entries in HYBRID.items():
        for number, values in enumerate(entries):
            names = ("type", "level", "size", "shared_cpu_list")
            system({f"cpu/{core}/cache/index{number}/{n}": f"{v}\n" for n, v in zip(names, values, strict=True)})
    # 48K shared by two threads is less for each than 32K alone: what one thread may count on decides
    assert processor.caches() == {1: Cache(32 * KIB, 1), 2: Cache(1280 * KIB, 2), 3: Cache(12 * MIB, 6)}


def test_where_the_system_tells_nothing_the_model_decides(system, monkeypatch):
    from weft.kernels.llvm import target

    assert processor.caches() == {}
    monkeypatch.setattr(target, "caches", dict)
    usual = Target.named("x86-64-v3").caches
    assert target._caches("znver3", usual) == Caches(32 * KIB, 512 * KIB, usual.last)
    assert target._caches("sapphirerapids", usual) == Caches(48 * KIB, 2 * MIB, usual.last)
    assert target._caches("unheard-of", usual) == usual


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux' control groups")
@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"own": "0::/\n", "cgroup/cpu.max": "max 100000\n"}, math.inf),
        ({"own": "0::/a/b\n", "cgroup/a/b/cpu.max": "max 100000\n", "cgroup/a/cpu.max": "150000 100000\n"}, 1.5),
        ({"own": "0::/a\n", "cgroup/cpu.max": "50000 100000\n", "cgroup/a/cpu.max": "300000 100000\n"}, 0.5),
        (
            {
                "own": "4:cpu,cpuacct:/job\n1:name=systemd:/job\n",
                "cgroup/cpu/job/cpu.cfs_quota_us": "250000\n",
                "cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            {
                "own": "4:cpu:/job\n",
                "cgroup/cpu/job/cpu.cfs_quota_us": "-1\n",
                "cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            },
            math.inf,
        ),
        ({"own": "nonsense\n"}, math.inf),
        ({}, math.inf),
    ],
)
def test_limits_of_control_groups(system, files, cores, monkeypatch):
    """Both versions, each group above counts; a part of a core is a core, and nothing raises the number there is."""
    system(files)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert processor._granted() == cores
    assert processor.available_cores() == min(4, math.ceil(min(4, cores)))


def test_a_named_target_has_caches_of_its_own(monkeypatch):
    """What `WEFT_TARGET` names is the same on every machine."""
    monkeypatch.setattr(processor, "caches", lambda: pytest.fail("the machine was asked"))
    assert Target.named("x86-64-v3").caches == Caches(32 * KIB, 512 * KIB, 16 * MIB)
    assert Target.named("x86-64-v3").usual.caches == Target.named("x86-64-v3").caches


def test_caches_decide_the_order_of_tiles_never_a_sum():
    """Depth, dot products, transposition and shared copies decide how numbers are added: the same for any caches."""
    body = Body(("f32",), (), (), (), ((Access(2, "f32", (4096, 1)), 0),))
    orders = set()
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        target = Target.named(name)
        for m, n, k in ((4, 512, 512), (64, 784, 512), (1024, 384, 2000), (1433, 16, 2708), (640, 4096, 1600)):
            for a, b in (((k, 1), (n, 1)), ((1, m), (n, 1)), ((k, 1), (1, k)), ((1, m), (1, k))):
                product = Product("f32", (), m, n, k, a, b, body)
                found = [Tiling.of(product, dataclasses.replace(target, caches=c)) for c in (SMALL, LARGE)]
                sums = {(t.lanes, t.rows, t.vectors, t.depth, t.at_once, t.turned, t.dots, t.shared) for t in found}
                assert len(sums) == 1
                orders |= {found[0].block != found[1].block, found[0].packed != found[1].packed}
    assert orders == {True, False}


def _results(monkeypatch, caches: Caches) -> list[np.ndarray]:
    """A step of each kind of kernel that asks about caches, compiled for a machine with such caches."""
    machine = dataclasses.replace(Target.named("host"), caches=caches)
    monkeypatch.setattr(Target, "host", staticmethod(lambda: machine))
    weft.manual_seed(0)
    x, w = weft.randn(96, 700), weft.randn(130, 700, requires_grad=True)
    images, taps = weft.randn(6, 16, 20, 20), weft.randn(24, 16, 3, 3, requires_grad=True)
    q, k, v = (weft.randn(2, 2, 150, 16, requires_grad=True) for _ in range(3))

    @weft.compile
    def step() -> list[weft.Tensor]:
        losses = (x @ w.t()).tanh().sum(), F.conv2d(images, taps, padding=1).tanh().sum()
        attended = F.scaled_dot_product_attention(q, k, v).tanh().sum()
        return [*losses, *weft.autograd.grad(sum(losses) + attended, (w, taps, q, k, v))]

    return [result.detach().numpy() for result in step()]


def test_bits_do_not_depend_on_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    for small, large in zip(_results(monkeypatch, SMALL), _results(monkeypatch, LARGE), strict=True):
        np.testing.assert_array_equal(small, large)
