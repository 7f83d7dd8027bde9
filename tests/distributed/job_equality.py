"""Twenty steps of every model: python job_equality.py FOLDER [strategy:case:type:mode …]; without strategies, one process alone.

Rank 0 writes the final parameters and buffers of each to FOLDER; every rank says whether they are its own, bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys

import numpy as np

import weft
import weft.distributed as dist
from tests.distributed.cases import CASES, loss_of, part
from weft import nn
from weft.distributed.optim import ZeroRedundancyOptimizer
from weft.nn.parallel import DistributedDataParallel, fully_shard, whole_state_dict

dist.init_process_group()
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def prepared(strategy: str, case: str, model: nn.Module) -> tuple[nn.Module, weft.optim.Optimizer]:
    make = CASES[case][2]
    if strategy == "alone":
        return model, make(model.parameters())
    if strategy == "zero3":
        for block in getattr(model, "blocks", ()):
            fully_shard(block)
        fully_shard(model)
        return model, make(model.parameters())
    model = DistributedDataParallel(model, bucket_cap_mb=0.002)
    rule = make(model.parameters())
    if strategy == "zero1":
        options = {k: rule.defaults[k] for k in ("lr", "momentum") if k in rule.defaults}
        rule = ZeroRedundancyOptimizer(model.parameters(), type(rule), **options)
    return model, rule


def trained(strategy: str, case: str, kind: weft.dtype, compiled: bool) -> dict[str, np.ndarray]:
    make, batches, _ = CASES[case]
    weft.manual_seed(RANK * (strategy != "alone"))  # every rank begins elsewhere: rank 0 must win
    model, optimizer = prepared(strategy, case, make().to(kind))

    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = weft.compile(step) if compiled else step
    for x, y in batches(kind):
        run(part(x, RANK, SIZE), part(y, RANK, SIZE))
    if compiled:
        assert run.host_work() == {}
    if strategy == "zero3":
        return {name: value.numpy() for name, value in whole_state_dict(model).items()}
    return {name.removeprefix("module."): value.numpy() for name, value in model.state_dict().items()}


def main(folder: str, *variants: str) -> None:
    for variant in variants:
        strategy, case, kind, how = variant.split(":")
        found = trained(strategy, case, getattr(weft, kind), how == "compiled")
        digest = hashlib.sha256(b"".join(value.tobytes() for value in found.values())).hexdigest()
        every = [None] * SIZE
        dist.all_gather_object(every, digest)
        if RANK == 0:
            np.savez(pathlib.Path(folder) / f"{variant.replace(':', '-')}-{SIZE}.npz", **found)
            print(json.dumps({"variant": variant, "equal": len(set(every)) == 1}), flush=True)
    dist.destroy_process_group()


main(*sys.argv[1:])
