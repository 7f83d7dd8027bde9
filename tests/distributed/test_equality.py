"""N ranks with parts of a batch train what one process trains with the joined batch: data parallel, ZeRO 1 and 3.

Twenty steps of an MLP (AdamW), a CNN with SyncBatchNorm (SGD) and a GPT (SGD), eager and compiled. The reference is one process
without MPI; ranks begin with weights of their own, and rank 0's count.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ..tables import slow_but
from .launching import rows_of, run_job

pytest.importorskip("mpi4py")

STRATEGIES, MODELS, KINDS = ("ddp", "zero1", "zero3"), ("mlp", "cnn", "gpt"), {"float32": 1e-6, "float64": 1e-12}
ALL = [f"{s}:{m}:{k}:{how}" for s in STRATEGIES for m in MODELS for k in KINDS for how in ("eager", "compiled")]
EAGER = [v for v in ALL if v.endswith("float64:eager")]
COMPILED = [f"{v}:float32:compiled" for v in ("ddp:mlp", "ddp:gpt", "zero1:mlp", "zero3:cnn")]
QUICK = {  # what is run on so many ranks by `make test`
    2: EAGER + COMPILED,
    3: [v for v in EAGER if v.startswith("zero3")],
    4: [v for v in EAGER if v.startswith("ddp")],
}


@functools.cache
def folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


@functools.cache
def alone() -> None:
    rows_of(run_job(1, "job_equality.py", folder().name, *(f"alone:{m}:{k}:eager" for m in MODELS for k in KINDS)))


def compare(size: int, variants: list[str]) -> None:
    alone()
    rows = rows_of(run_job(size, "job_equality.py", folder().name, *variants))
    assert [row["variant"] for row in rows] == variants
    assert all(row["equal"] for row in rows), "parameters differ between ranks"
    for variant in variants:
        _, model, kind, _ = variant.split(":")
        with np.load(Path(folder().name) / f"alone-{model}-{kind}-eager-1.npz") as one:
            with np.load(Path(folder().name) / f"{variant.replace(':', '-')}-{size}.npz") as many:
                assert set(one) == set(many)
                apart = max(float(np.abs(one[name] - many[name]).max(initial=0.0)) for name in one)
        assert apart <= KINDS[kind], f"{variant} on {size} ranks: {apart:.2e}"


@pytest.mark.parametrize("size", slow_but((2, 3), [2, 3, 4]))
def test_ranks_train_what_one_process_trains(size):
    compare(size, QUICK[size])


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_strategy_model_type_and_mode(size):
    compare(size, ALL)
