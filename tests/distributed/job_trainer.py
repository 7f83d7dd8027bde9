"""Trainer on whatever ranks there are: python job_trainer.py FOLDER STRATEGY [epochs] [batch] [resume]; the result as JSON.

The set has 52 examples, so that with 4 ranks × 4 the last joint batch has 4 for four ranks, and with 2 × 12 it has 4 for two;
the network has dropout, which must draw what one process would draw.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time

import numpy as np

import weft
from weft import metrics, nn
from weft.data import DataLoader, TensorDataset
from weft.nn.parallel import whole_state_dict
from weft.train import Callback, Task, Trainer, parts

OPTIONS = {"compile": os.environ.get("COMPILE", "1") == "1"}


class Learned(Task):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.25), nn.Linear(16, 4))
        self.accuracy = metrics.Accuracy()

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        out = self.net(x)
        self.measure("val_accuracy", self.accuracy, out, y)
        return nn.functional.cross_entropy(out, y)

    def configure_optimizers(self):
        optimizer = weft.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [weft.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)]


class Harm(Callback):
    """What a test does to rank 1: HARM is a list of 'what:step', one for each start of the job."""

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        plan = os.environ.get("HARM", "").split(",")
        life = int(os.environ.get("WEFT_RESTARTS", "0"))
        what, _, step = plan[life].partition(":") if life < len(plan) else ("", "", "")
        if what and trainer.global_step == int(step):
            getattr(self, what)(trainer.ranks.rank == 1)

    def terminate(self, chosen: bool) -> None:
        if chosen:
            os.kill(os.getpid(), signal.SIGTERM)

    def kill(self, chosen: bool) -> None:
        if chosen:
            self.die()

    def collective(self, chosen: bool) -> None:
        """Rank 1 waits for the others when it dies; compiled, the others wait for rank 1."""
        if chosen and OPTIONS["compile"]:
            time.sleep(1)
            self.die()
        elif chosen:
            threading.Timer(0.3, self.die).start()
        elif not OPTIONS["compile"]:
            time.sleep(5)

    def checkpoint(self, chosen: bool) -> None:
        """Rank 1 dies when half of its part is written."""
        if chosen:
            parts.save = lambda tree, path: (path.write_bytes(b"half a file"), self.die())

    def hang(self, chosen: bool) -> None:
        if chosen:
            time.sleep(600)

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, strategy: str, epochs: str = "4", batch: str = "12", resume: str = "") -> None:
    weft.manual_seed(3)
    x = weft.randn(52, 8)
    y = (x @ weft.randn(8, 4)).argmax(1)
    train = DataLoader(TensorDataset(x, y), batch_size=int(batch), shuffle=True, seed=1)
    val = DataLoader(TensorDataset(x[:33], y[:33]), batch_size=int(batch))
    task = Learned()
    trainer = Trainer(int(epochs), run_folder=folder, strategy=strategy, progress=False, callbacks=[Harm()], **OPTIONS)
    history = trainer.fit(task, train, val, resume=bool(resume))
    found = {name: value.numpy() for name, value in whole_state_dict(task).items()}
    digest = hashlib.sha256(b"".join(value.tobytes() for value in found.values())).hexdigest()
    if trainer.ranks.first:
        np.savez(os.path.join(folder, f"final-{trainer.ranks.size}.npz"), **found)
    row = {"rank": trainer.ranks.rank, "digest": digest, "steps": trainer.global_step, "rows": history.rows}
    print(json.dumps(row | {"compiled": trainer.loop.step.run.compiled is not None}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
