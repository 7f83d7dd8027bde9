"""DistributedDataParallel as PyTorch's scripts use it, and what it says when it is used wrongly."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable

import pytest

import weft
import weft.distributed as dist
from weft import nn

from .launching import HERE, ROOT, SECONDS, environment, mpiexec, rows_of, run_job
from .test_launch import launch

pytest.importorskip("mpi4py")


@functools.cache
def figures() -> list[dict]:
    return rows_of(run_job(2, "job_ddp.py"))


def test_accumulation_buffers_unused_parameters_and_norms_are_those_of_the_joined_batch():
    assert sorted(row["rank"] for row in figures()) == [0, 1]


def test_unused_parameters_and_models_that_differ_are_named():
    for row in figures():
        assert "no gradient to unused.weight, unused.bias" in row["unused"]
        assert "the model of rank 1 is another than that of rank 0" in row["differing"] and "(4, 6)" in row["differing"]


def test_a_compiled_step_of_ranks_on_one_machine_is_one_native_table():
    """No Python between; buckets are put up one by one between kernels, and all before the first is waited for."""
    for row in figures():
        assert row["segments"] == 1 and row["published"] == 6 and row["before_last"] >= 6


def test_a_compiled_step_sends_buckets_while_it_computes():
    """As between machines: all buckets are started before the first is waited for, with kernels between."""
    for row in figures():
        assert row["buckets"] == 6 and row["between"] >= 6


def test_by_the_clock_buckets_are_with_all_ranks_before_the_last_gradient_is_there():
    assert all(row["seen_early"] >= 1 for row in figures())


def test_gradients_travel_in_the_order_in_which_they_are_whole():
    for row in figures():
        assert set(row["order"][:2]) == {"last.weight", "last.bias"} and row["order"][2] == "shared"


def test_alone_a_compiled_step_is_that_of_the_module_kernel_by_kernel():
    def kernels(wrap: Callable[[nn.Module], nn.Module]) -> list:
        weft.manual_seed(0)
        model = wrap(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)))
        optimizer = weft.optim.AdamW(model.parameters())

        def step(x: weft.Tensor) -> weft.Tensor:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = weft.compile(step)
        for _ in range(2):
            run(weft.ones(4, 6))
        return [(slot.step.kernel.key(), slot.phase) for slot in run.plans.popitem()[1][0].plan.slots]

    dist.init_process_group()
    assert kernels(nn.parallel.DistributedDataParallel) == kernels(lambda model: model)
    dist.destroy_process_group()


def test_the_tutorial_script_gives_the_same_under_weft_launch_and_mpiexec(tmp_path):
    sums = []
    for number, start in enumerate(("launch", "mpiexec")):
        words = (str(HERE / "tutorial.py"), str(tmp_path / f"{number}.weft"))
        if start == "launch":
            job = launch("-n", "2", *words)
        else:
            job = subprocess.run(
                mpiexec(2, *words),
                env=environment(),
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
                cwd=ROOT,
            )
        assert job.returncode == 0, job.stderr[-2000:]
        found = re.findall(r"rank (\d) of 2 \(local \1\): (-?[\d.]+)", job.stdout)
        assert sorted(rank for rank, _ in found) == ["0", "1"] and len({total for _, total in found}) == 1
        sums.append(found[0][1])
    assert sums[0] == sums[1]
