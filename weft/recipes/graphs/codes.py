"""Codes of papers learned without labels, then logistic regression on them: what the recipes for DGI and GraphMAE share.

The encoder sees features and citations and no label; it is frozen before the first label is looked at. Logistic regression
learns from the 140 or 120 labelled papers, from codes of one length, with much decay; the step counts whose loss on the
validation papers is lowest. (The highest accuracy among 300 steps is chance for the most part. Of codes by deep graph infomax,
on the halves of the validation papers that did not choose: 72.3 % instead of 70.7 % of Citeseer's at eight seeds from 1000 on,
81.2 % instead of 80.7 % of Cora's at two.) Otherwise as in `citations.py`. Beside the figure: the same regression on the features as they are.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import weft

from ... import nn, optim
from ...nn import functional as F
from ...tensor import Tensor
from ..base import Recipe, Run
from ..settings import Settings, option
from .citations import Paper, restarted, spread_labels, summary

__all__ = ["CodeSettings", "Codes"]


@dataclass(kw_only=True)
class CodeSettings(Settings):
    """Settings of encoders of papers."""

    seeds: int = option(100, "encoders that are trained, at seeds from `seed` on", at_least=1)
    epochs: int = option(300, "steps of the encoder, at most", at_least=1)
    lr: float = option(1e-3, "its learning rate", above=0)
    weight_decay: float = option(0.0, "decay of its weights", at_least=0)
    hidden: int = option(512, "numbers of a code", at_least=1)
    steps: int = option(300, "steps of logistic regression, at most", at_least=1)
    decay: float = option(0.2, "decay of the weights of logistic regression", at_least=0)


class Codes(Recipe):
    """Many encoders of one kind on one citation network; a recipe states the encoder."""

    dataset: ClassVar[str]
    normalize: ClassVar[bool] = True  # whether features of a paper are divided by their sum

    @abstractmethod
    def model(self, settings: Any, paper: Paper) -> nn.Module:
        """A fresh encoder, with `loss` and `embed`."""

    @abstractmethod
    def loss(self, model: nn.Module, paper: Paper, *drawn: Tensor) -> Tensor:
        """What one step minimises."""

    @abstractmethod
    def drawn(self, settings: Any, paper: Paper, generator: np.random.Generator) -> tuple[Tensor, ...]:
        """What is drawn for one step: which vertices are exchanged or hidden."""

    def rate(self, settings: Any, done: int) -> float:
        """The learning rate after `done` steps."""
        return settings.lr

    @abstractmethod
    def embedded(self, model: nn.Module, paper: Paper) -> Tensor:
        """Codes of all papers: (N, D)."""

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        paper = Paper.read(self.dataset, run.root, self.normalize)
        run.check_folder()
        learner, rows = Encoding(self, run.settings, paper), []
        for seed in range(run.settings.seed, run.settings.seed + run.settings.seeds):
            rows.append(learner.learned(seed))
            run.folder.append({"kind": "seed", "seed": seed, **rows[-1]})
        raw = Probe(paper, paper.x.shape[1], run.settings.decay).fitted(
            of_one_length(paper.graph.x), run.settings.steps, 0
        )
        found = {self.goal.beside: spread_labels(paper), "features_accuracy": raw["test_accuracy"]}
        return summary(rows) | found, None


class Encoding:
    """One compiled step of the encoder and one of the regression, for all seeds."""

    def __init__(self, recipe: Codes, settings: Any, paper: Paper) -> None:
        self.recipe, self.settings, self.paper = recipe, settings, paper
        self.network = recipe.model(settings, paper)
        self.optimizer = optim.Adam(self.network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
        self.step, self.probe = weft.compile(self._step), None

    def _step(self, *drawn: Tensor) -> Tensor:
        self.network.train()
        self.optimizer.zero_grad()
        loss = self.recipe.loss(self.network, self.paper, *drawn)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def codes(self, seed: int) -> tuple[Tensor, int]:
        """Codes of all papers, and the step they are from."""
        weft.manual_seed(seed)
        restarted(self.network, self.recipe.model(self.settings, self.paper), self.optimizer)
        generator, patience = np.random.default_rng(seed), getattr(self.settings, "patience", None)
        lowest, kept, since, done = math.inf, None, 0, 0
        while done < self.settings.epochs:
            self.optimizer.param_groups[0]["lr"] = self.recipe.rate(self.settings, done)
            done += 1
            before = patience and [p.detach().clone() for p in self.network.parameters()]
            loss = self.step(*self.recipe.drawn(self.settings, self.paper, generator)).item()
            if patience is None:
                continue
            since = 0 if loss < lowest else since + 1
            if not since:
                lowest, kept = loss, before  # the loss is that of the weights before the step
            if since >= patience:
                break
        if kept is not None:
            with weft.no_grad():
                for now, best in zip(self.network.parameters(), kept, strict=True):
                    now.copy_(best)
        self.network.eval()
        with weft.no_grad():
            return self.recipe.embedded(self.network, self.paper), done

    def learned(self, seed: int) -> dict[str, float]:
        """Accuracies of logistic regression on the codes of one encoder."""
        codes, epoch = self.codes(seed)
        codes = of_one_length(codes)
        self.probe = self.probe or Probe(self.paper, codes.shape[1], self.settings.decay)
        return self.probe.fitted(codes, self.settings.steps, seed) | {"epoch": epoch}


def of_one_length(codes: Tensor) -> Tensor:
    """Each row over its length, times √D: numbers of about one. Shape: (N, D) → (N, D)"""
    return F.normalize(codes, dim=-1) * math.sqrt(codes.shape[-1])


class Probe:
    """Logistic regression on codes of the labelled papers, Adam, one compiled step for all."""

    def __init__(self, paper: Paper, width: int, decay: float) -> None:
        self.paper, self.layer = paper, nn.Linear(width, paper.classes)
        self.optimizer = optim.Adam(self.layer.parameters(), lr=0.01, weight_decay=decay)
        self.step = weft.compile(self._step)

    def _step(self, train: Tensor, held: Tensor) -> Tensor:
        y = self.paper.graph.y
        self.optimizer.zero_grad()
        F.cross_entropy(self.layer(train), y[self.paper.train]).backward()
        self.optimizer.step()
        with weft.no_grad():
            return F.cross_entropy(self.layer(held), y[self.paper.validation])

    def fitted(self, codes: Tensor, steps: int, seed: int) -> dict[str, float]:
        """Test and validation accuracy at the step whose loss on the validation papers is lowest."""
        weft.manual_seed(seed)
        restarted(self.layer, nn.Linear(self.layer.in_features, self.layer.out_features), self.optimizer)
        train, held, y = codes[self.paper.train], codes[self.paper.validation], self.paper.graph.y
        lowest, kept = math.inf, {}
        for _ in range(steps):
            loss = self.step(train, held).item()
            if loss < lowest:
                lowest, kept = loss, {name: value.clone() for name, value in self.layer.state_dict().items()}
        self.layer.load_state_dict(kept)
        with weft.no_grad():
            right = self.layer(codes).argmax(1) == y
        parts = ("test", self.paper.test), ("validation", self.paper.validation)
        return {f"{name}_accuracy": right[part].float().mean().item() for name, part in parts}
