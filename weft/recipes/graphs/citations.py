"""Classes of papers in a citation network, the public split, many seeds: what the recipes for Cora and Citeseer share.

Protocol (Yang, Cohen and Salakhutdinov 2016): 20 labelled papers of each class, 500 for validation, 1000 for testing; all
features and all citations are known from the start. Of each seed's training the epoch counts whose validation accuracy is
highest (of several the one with the lower validation loss), and the test papers are looked at only there; training ends
when neither validation accuracy nor loss has become better for `patience` epochs (as in Veličković et al. 2018). Settings were
chosen by validation accuracy at seeds from 1000 on; the figure is the mean over seeds from `seed` on. Features of a paper
are divided by their sum. One compiled step serves all seeds: weights start anew each time.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn, optim
from ...data.graph import Graph
from ...data.sources.graphs import Planetoid
from ...graphs.nn.normalize import gcn_matrix
from ...graphs.propagation import label_propagation
from ...nn import functional as F
from ...sparse import SparseTensor
from ...tensor import Tensor
from ..base import Recipe, Root, Run
from ..settings import Settings, option

__all__ = ["CitationSettings", "Citations", "Learner", "Paper", "restarted", "spread_labels", "summary"]

ALPHAS = (0.5, 0.8, 0.9, 0.95, 0.99)  # among which that of label propagation is chosen


@dataclass(kw_only=True)
class CitationSettings(Settings):
    """Settings of classifiers of papers."""

    seeds: int = option(100, "networks that are trained, at seeds from `seed` on", at_least=1)
    epochs: int = option(200, "passes over the graph, at most", at_least=1)
    patience: int = option(
        100, "passes without better validation accuracy or loss after which training ends", at_least=1
    )
    lr: float = option(0.01, "learning rate", above=0)
    weight_decay: float = option(5e-4, "decay of the weights", at_least=0)
    hidden: int = option(16, "units of the hidden layer", at_least=1)
    dropout: float = option(0.5, "share of what a layer takes that is dropped", at_least=0, at_most=0.95)


@dataclass(frozen=True)
class Paper:
    """A citation network ready for training: features as a sparse matrix, D̃^-½ÃD̃^-½, and the three parts as numbers."""

    graph: Graph
    x: SparseTensor
    matrix: SparseTensor
    train: Tensor
    validation: Tensor
    test: Tensor
    classes: int

    @classmethod
    def read(cls, name: str, root: Root, normalize: bool = True) -> Paper:
        """One of Planetoid's sets."""
        source = Planetoid(root, name=name, normalize=normalize, download=root is None)
        graph = source[0]
        parts = [mask.nonzero().squeeze(1) for mask in (graph.train_mask, graph.val_mask, graph.test_mask)]
        matrix = gcn_matrix(graph.edge_index, num_nodes=graph.num_nodes)
        return cls(graph, graph.x.to_sparse(layout="csr"), matrix, *parts, source.num_classes)


class Citations(Recipe):
    """Many networks of one kind on one citation network; a recipe states the network."""

    dataset: ClassVar[str]

    @abstractmethod
    def model(self, settings: Any, paper: Paper) -> nn.Module:
        """A fresh network: (x, edges) → logits (N, classes)."""

    def edges(self, paper: Paper) -> Any:
        """What the network takes as the graph: D̃^-½ÃD̃^-½."""
        return paper.matrix

    def decayed(self, model: nn.Module) -> list[Tensor]:
        """The parameters that decay."""
        return list(model.parameters())

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        paper = Paper.read(self.dataset, run.root)
        run.check_folder()
        learner = Learner(self, run.settings, paper)
        rows = []
        for seed in range(run.settings.seed, run.settings.seed + run.settings.seeds):
            row = learner.learned(seed)
            rows.append(row)
            run.folder.append({"kind": "seed", "seed": seed, **row})
        return summary(rows) | {self.goal.beside: spread_labels(paper)}, None


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    """Means over seeds, and the deviation of the test accuracy between them."""
    columns = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    found = {name: float(values.mean()) for name, values in columns.items()}
    spread = float(columns["test_accuracy"].std(ddof=1)) if len(rows) > 1 else math.nan
    return found | {"test_accuracy_deviation": spread, "seeds": len(rows)}


class Learner:
    """One compiled epoch for all seeds: a step, then the whole graph without dropout."""

    def __init__(self, recipe: Citations, settings: Any, paper: Paper) -> None:
        self.recipe, self.settings, self.paper = recipe, settings, paper
        self.edges = recipe.edges(paper)
        self.network = recipe.model(settings, paper)
        chosen = {id(p) for p in recipe.decayed(self.network)}
        groups = [[p for p in self.network.parameters() if (id(p) in chosen) is decays] for decays in (True, False)]
        told = [
            {"params": part, "weight_decay": decay}
            for part, decay in zip(groups, (settings.weight_decay, 0.0), strict=True)
            if part
        ]
        self.optimizer = optim.Adam(told, lr=settings.lr)
        self.epoch = weft.compile(self._epoch)

    def _epoch(self) -> tuple[Tensor, Tensor]:
        """One step; then the loss on validation papers and what is said of all papers."""
        paper, y = self.paper, self.paper.graph.y
        self.network.train()
        self.optimizer.zero_grad()
        F.cross_entropy(self.network(paper.x, self.edges)[paper.train], y[paper.train]).backward()
        self.optimizer.step()
        self.network.eval()
        with weft.no_grad():
            said = self.network(paper.x, self.edges)
            return F.cross_entropy(said[paper.validation], y[paper.validation]), said.argmax(1)

    def learned(self, seed: int) -> dict[str, float]:
        """Accuracies at the epoch that is best on the validation papers."""
        weft.manual_seed(seed)
        restarted(self.network, self.recipe.model(self.settings, self.paper), self.optimizer)
        y, held = self.paper.graph.y.numpy(), self.paper.validation.numpy()
        best, lowest, since, kept = (-1.0, -math.inf), math.inf, 0, (y, 0)
        for epoch in range(1, self.settings.epochs + 1):
            loss, said = self.epoch()
            found = float((said.numpy()[held] == y[held]).mean()), -loss.item()
            since = 0 if found > best or -found[1] < lowest else since + 1
            if found > best:
                best, kept = found, (said.numpy().copy(), epoch)
            lowest = min(lowest, -found[1])
            if since >= self.settings.patience:
                break
        return _row(kept[0], y, self.paper) | {"epoch": kept[1]}


def restarted(network: nn.Module, fresh: nn.Module, optimizer: optim.Optimizer) -> None:
    """Give a network the weights of a fresh one and its optimiser the state before the first step, where they lie."""
    network.load_state_dict(fresh.state_dict())
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


def _row(said: NDArray, y: NDArray, paper: Paper) -> dict[str, float]:
    right = said == y
    return {
        f"{name}_accuracy": float(right[part.numpy()].mean())
        for name, part in (("test", paper.test), ("validation", paper.validation))
    }


def spread_labels(paper: Paper) -> float:
    """Test accuracy of label propagation (Zhou et al. 2004), its α chosen on the validation papers."""
    rows = []
    for alpha in ALPHAS:
        said = label_propagation(paper.graph, alpha=alpha, num_classes=paper.classes).argmax(1).numpy()
        rows.append(_row(said, paper.graph.y.numpy(), paper))
    return max(rows, key=lambda row: row["validation_accuracy"])["test_accuracy"]
