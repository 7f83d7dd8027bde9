"""weft.distributed: every call gives what NumPy says, on 2, 3 and 4 ranks; what is wrong is named with its rank."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

import weft
import weft.distributed as dist
from weft.errors import DistributedError, OptionError, ShapeError, StateError

from .launching import ROOT, environment, rows_of, run_job

pytest.importorskip("mpi4py")


@functools.cache
def calls(size: int) -> list[dict]:
    return sorted(rows_of(run_job(size, "job_calls.py")), key=lambda row: row["rank"])


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_calls_give_what_numpy_says_on_every_rank(size):
    assert [row["rank"] for row in calls(size)] == list(range(size))


def test_sizes_types_and_calls_that_differ_are_named_with_their_ranks():
    for row in calls(4):
        assert "ranks 1, 2, 3: all_reduce float32 (13) sum; rank 0: all_reduce float32 (14) sum" in row["sizes"]
        assert "ranks 1, 2, 3: all_reduce float64 (15) sum; rank 0: all_reduce float32 (15) sum" in row["types"]
        assert "rank 1 sends 12 bytes to rank 0, which expects 8" in row["pairs"]
        assert "barrier" in row["calls"] and "rank 0: all_reduce float32 (1) sum" in row["calls"]
        assert row["calls_seconds"] < 10


def test_a_rank_that_hangs_is_found_by_the_timeout_and_named():
    for row in calls(4):
        if row["rank"] != 1:
            assert "rank 1 did not come within 1 s" in row["hung"] and "ranks 0, 2, 3 waited" in row["hung"]


def test_calls_inside_of_native_code_that_differ_or_hang_are_named():
    for row in calls(4):
        assert "ranks 1, 2, 3: all_reduce float32 (13) sum; rank 0: all_reduce float32 (14) sum" in row["native_sizes"]
        assert "rank 1: barrier" in row["native_calls"] and "all_reduce float32 (3) sum" in row["native_calls"]
        if row["rank"] != 1:
            assert "rank 1 did not come within 0.5 s" in row["native_hung"]


@pytest.fixture
def alone():
    dist.init_process_group()
    yield
    dist.destroy_process_group()


def test_alone_every_call_works(alone):
    x = weft.arange(3.0)
    for call in (dist.all_reduce, lambda t: dist.broadcast(t, 0), lambda t: dist.reduce(t, 0)):
        call(x)
    assert x.tolist() == [0.0, 1.0, 2.0]
    found, gathered = [weft.empty(3)], weft.empty(1, 3)
    dist.all_gather(found, x)
    dist.all_gather_into_tensor(gathered, x)
    dist.gather(x, [y := weft.empty(3)], dst=0)
    dist.scatter(z := weft.empty(3), [x], src=0)
    dist.reduce_scatter(s := weft.empty(3), [x])
    dist.all_to_all([a := weft.empty(3)], [x])
    dist.barrier()
    assert all(weft.equal(t, x) for t in (found[0], gathered[0], y, z, s, a))
    assert dist.all_reduce(x, async_op=True).wait() and dist.get_world_size() == 1
    objects = [None]
    dist.all_gather_object(objects, "one")
    assert objects == ["one"] and dist.new_group([0]).size == 1


def test_variables_for_scripts_are_taken_back(monkeypatch):
    """RANK in the environment makes the next script of this process believe that a launcher has started it."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "1")  # a launcher's stays
    dist.init_process_group()
    assert os.environ["RANK"] == "0"
    dist.destroy_process_group()
    assert "RANK" not in os.environ and os.environ["WORLD_SIZE"] == "1"


def test_alone_nothing_is_imported():
    code = "import sys, weft, weft.distributed as d; d.init_process_group(); d.all_reduce(weft.ones(3)); print('mpi4py' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), cwd=ROOT, check=True
    )
    assert found.stdout.strip() == "False"


def test_what_is_wrong_before_anything_is_sent():
    with pytest.raises(StateError, match="init_process_group"):
        dist.all_reduce(weft.ones(1))
    with pytest.raises(OptionError, match="backend"):
        dist.init_process_group("carrier pigeon")
    with pytest.raises(DistributedError, match="weft launch -n 3"):
        dist.init_process_group(world_size=3)


def test_wrong_arguments(alone):
    with pytest.raises(StateError, match="twice"):
        dist.init_process_group()
    with pytest.raises(ShapeError, match="rank 0 gave 2 tensors, the group has 1 ranks"):
        dist.all_gather([weft.empty(1)] * 2, weft.empty(1))
    with pytest.raises(ShapeError, match=r"expected \(4,\) or \(1, 4\)"):
        dist.all_gather_into_tensor(weft.empty(3), weft.empty(4))
    with pytest.raises(TypeError, match="integers"):
        dist.all_reduce(weft.ones(1), dist.ReduceOp.BAND)
    with pytest.raises(OptionError, match="rank 5 is not in"):
        dist.broadcast(weft.ones(1), src=5)
    with pytest.raises(OptionError, match="different ranks"):
        dist.new_group([0, 0])
