"""A training with one of these methods that is interrupted and resumed ends where the whole one ends, bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset
from weft.train import Callback, Classification, Task, Trainer
from weft.train.methods import (
    AdversarialTraining,
    CurriculumSampler,
    GradualUnfreezing,
    IterativePruning,
    add_adapters,
    add_lora,
    layer_groups,
    pgd,
)

from .problems import assert_same, digits, mlp, weights


class StopAt(Callback):
    """Ctrl-C after some steps."""

    def on_train_batch_end(self, trainer, task, outputs, batch, batch_idx) -> None:
        if trainer.global_step == 6:  # in the middle of the second epoch
            raise KeyboardInterrupt


def plain(change: Callable[[nn.Module], object] = lambda model: None) -> Task:
    model = mlp(dropout=0.1)
    change(model)
    return Classification(model, lr=1e-2)


def in_groups() -> Task:
    model = mlp()
    return Classification(model, optimizer=lambda _: weft.optim.AdamW(layer_groups(model, lr=1e-2)))


CASES: dict[str, tuple[Callable[[], Task], Callable[[], list[Callback]]]] = {
    "pruning": (plain, lambda: [IterativePruning(0.8, end=2)]),
    "unfreezing": (in_groups, lambda: [GradualUnfreezing(["0.*", "3.*"], every=2)]),
    "lora": (lambda: plain(add_lora), list),
    "adapters": (lambda: plain(lambda model: add_adapters(model, "0", 4)), list),
    "attacks": (lambda: AdversarialTraining(mlp(), functools.partial(pgd, epsilon=0.1, steps=2), lr=1e-2), list),
}


def data() -> DataLoader:
    x, y = digits(128)
    return DataLoader(TensorDataset(x, y), batch_size=32, sampler=CurriculumSampler(x.sum(1), 2, seed=3))


def run(name: str, folder: Path, *more: Callback, resume: bool = False) -> Task:
    make, callbacks = CASES[name]
    weft.manual_seed(1)
    task = make()
    trainer = Trainer(max_epochs=3, run_folder=folder, progress=False, callbacks=[*callbacks(), *more], compile="error")
    trainer.fit(task, data(), resume=resume)
    return task


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_training_goes_on_to_the_same_weights(name, tmp_path) -> None:
    whole = run(name, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(name, tmp_path / "cut", StopAt())
    assert_same(weights(whole), weights(run(name, tmp_path / "cut", resume=True)))
