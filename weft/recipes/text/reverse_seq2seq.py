"""reverse-seq2seq: an encoder–decoder that learns to say twenty symbols backwards, and where it looks while it does.

The attention map of a solved reversal is the anti-diagonal: the t-th symbol said is the t-th from the end. So with
Luong's attention; Bahdanau's asks with the state before the step, and tends to look one place aside, where the
bidirectional encoder knows the neighbour too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import weft

from ... import nn, optim
from ...data.synthetic import reverse_task
from ...errors import OptionError
from ...models.sequences.seq2seq import Seq2Seq
from ...models.text.decoding import greedy_search
from ...tensor import Tensor
from ...train import Task, Trainer
from .. import pictures
from ..base import Goal, Root, Splits, Trained
from ..settings import TrainSettings, option
from ..shared import Pair, loaders, one_cycle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

F = nn.functional
START = 0  # the token that the decoder begins with; symbols are 1 … symbols


@dataclass(kw_only=True)
class ReverseSettings(TrainSettings):
    """Settings of reverse-seq2seq."""

    epochs: int = 5
    lr: float = 5e-3
    examples: int = option(20_000, "training sequences", at_least=1)
    length: int = option(20, "symbols of a sequence", at_least=1)
    symbols: int = option(8, "different symbols", at_least=2)
    order: Literal["reverse", "copy"] = option("reverse", "what is to be said")
    attention: Literal["luong", "bahdanau"] = option("luong", "the kind of attention")
    hidden: int = option(64, "units of encoder and decoder", at_least=1)


class Reversal(Task):
    """Teacher forcing in training; in tests the decoder is given what it said itself."""

    def __init__(self, settings: ReverseSettings, splits: Splits | None, attention: str | None) -> None:
        super().__init__()
        self.settings, self.splits = settings, splits
        tokens = settings.symbols + 1
        self.model = Seq2Seq(tokens, tokens, 32, settings.hidden, attention=attention)

    def training_step(self, batch: Any) -> Tensor:
        source, target = batch
        logits, _ = self.model(source, started(target))
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    def validation_step(self, batch: Any) -> None:
        self.figures(batch, "val")

    def test_step(self, batch: Any) -> None:
        self.figures(batch, "test")

    def figures(self, batch: Any, stage: str) -> None:
        """Sequences without a mistake, symbols that are right, and how often attention peaks where it should."""
        source, target = batch
        logits, weights = self.model(source, started(target), sampling=1.0)
        right = logits.argmax(-1) == target  # (B, T)
        places = weft.arange(target.shape[1])
        places = places.flip(0) if self.settings.order == "reverse" else places
        self.log(f"{stage}_exact", right.all(1).float().mean(), prog_bar=True)
        self.log(f"{stage}_symbols", right.float().mean())
        self.log(f"{stage}_on_diagonal", (weights.argmax(-1) == places).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> Any:
        optimizer = optim.Adam(self.parameters(), lr=self.settings.lr)
        return {"optimizer": optimizer, "lr_scheduler": one_cycle(self.settings, self.splits)(optimizer)}


class ReverseSeq2Seq(Trained):
    """A bidirectional GRU, and a GRU that writes with attention."""

    title = "Twenty symbols backwards, seq2seq with attention"
    Settings = ReverseSettings
    goal = Goal(
        "test_exact",
        at_least=0.99,
        data="1000 new sequences, all symbols right",
        baseline="the same network without attention",
        margin=0.1,
    )
    example = "symbols, such as 1 2 3 4"

    def data(self, settings: ReverseSettings, root: Root = None) -> Splits:
        streams = weft.Generator().manual_seed(settings.seed).split(3)
        counts = (settings.examples, *(min(n, settings.examples) for n in (500, 1000)))
        parts = (examples(settings, n, own) for n, own in zip(counts, streams, strict=True))
        return loaders(settings, *parts)

    def task(self, settings: ReverseSettings, splits: Splits | None = None) -> Task:
        return Reversal(settings, splits, settings.attention)

    def baseline(self, settings: ReverseSettings, splits: Splits) -> float:
        weft.manual_seed(settings.seed)
        task = Reversal(settings, splits, None)
        options = {"run_folder": False, "progress": False, **self.trainer_options(settings)}
        trainer = Trainer(max_epochs=settings.epochs, **options)
        trainer.fit(task, splits.train)
        return trainer.test(task, splits.test)["test_exact"]

    def trainer_options(self, settings: ReverseSettings) -> dict[str, Any]:
        return {"gradient_clip_val": 1.0}

    def predict(self, task: Task, input: Any) -> Any:
        said = [int(word) for word in str(input).replace(",", " ").split()]
        if not said or not all(1 <= symbol <= task.settings.symbols for symbol in said):
            raise OptionError(f"predict: expected symbols from 1 to {task.settings.symbols}, got {input!r}")
        state = task.model.start(weft.tensor([said]))
        written = greedy_search(task.model.step, weft.tensor([[START]]), state, max_new_tokens=len(said))
        return written[0, 1:].tolist()

    def picture(self, task: Task, splits: Splits) -> Figure:
        source, target = (part[:1] for part in splits.test.dataset.tensors)
        with weft.no_grad():
            _, weights = task.model(source, started(target), sampling=1.0)
        figure, axes = pictures.blank("reverse-seq2seq: where the decoder looks", width=5.4, height=5)
        axes.imshow(weights[0].numpy(), cmap="magma", vmin=0, vmax=1)
        axes.set(xlabel="symbol heard", ylabel="symbol said")
        axes.set_xticks(range(source.shape[1]), source[0].tolist(), fontsize=7)
        axes.set_yticks(range(target.shape[1]), target[0].tolist(), fontsize=7)
        figure.colorbar(axes.images[0], ax=axes, shrink=0.8)
        return figure


def examples(settings: ReverseSettings, count: int, generator: weft.Generator) -> Pair:
    """Sequences and what is to be said of them."""
    said, backwards = reverse_task(count, settings.length, symbols=settings.symbols, generator=generator)
    return said, backwards if settings.order == "reverse" else said


def started(target: Tensor) -> Tensor:
    """What the decoder is given: the start token, then the target without its last. Shape: (B, T) → (B, T)"""
    return F.pad(target[:, :-1], (1, 0), value=START)


recipe = ReverseSeq2Seq()
