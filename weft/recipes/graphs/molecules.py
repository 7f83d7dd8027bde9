"""Classes of small graphs, ten folds with a choice inside each: what the recipes for PROTEINS, ENZYMES and MUTAG share.

Protocol of Errica et al. (2020): in each fold, settings and the epoch are chosen on its validation part, and its test part is
looked at once. Their folds are used where they are there (tu-splits/NAME_splits.json beside the data; PROTEINS and ENZYMES),
stratified ones that do not depend on the seed otherwise. Beside the isomorphism network, by the same protocol: the same
choices for bags of vertices without their edges, and ridge regression with Weisfeiler and Leman's kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn, optim
from ...data.graph_batch import Batch
from ...data.sources.catalogue import FILES, Source
from ...data.sources.errors import SourceError
from ...data.sources.fetch import find
from ...data.sources.graphs import TUDataset
from ...graphs.folds import Fold, NestedResult, nested_evaluation, nested_folds, read_folds
from ...models.graphs.weisfeiler_leman import wl_kernel
from ...models.graphs.wholes import GIN, DeepSets
from ...nn import functional as F
from ..base import Recipe, Root, Run
from ..baselines import ridge
from ..settings import Settings, option

__all__ = ["MoleculeSettings", "Molecules"]

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of ridge regression
ROUNDS = (1, 2, 3, 4)  # of Weisfeiler and Leman's test


@dataclass(kw_only=True)
class MoleculeSettings(Settings):
    """Settings of classifiers of graphs."""

    epochs: int = option(100, "passes over the graphs of a fold, at most", at_least=1)
    patience: int = option(30, "passes without better validation after which training ends", at_least=1)
    batch_size: int = option(64, "graphs in one step", at_least=2)
    lr: float = option(0.01, "learning rate, falling along a cosine", above=0)
    weight_decay: float = option(1e-4, "decay of the weights", at_least=0)
    hidden: int = option(32, "units of each layer", at_least=1)
    layers: int = option(4, "layers", at_least=1)
    dropout: float = option(0.5, "share of what is said by a layer's readout that is dropped", at_least=0, at_most=0.95)
    limit: int | None = option(None, "run only so many of the folds", at_least=1)


class Molecules(Recipe):
    """An isomorphism network for one of TU Dortmund's sets; readouts by sum or mean, whichever is better in validation."""

    Settings = MoleculeSettings
    dataset: ClassVar[str]
    attributes: ClassVar[bool] = True

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        source = TUDataset(run.root, name=self.dataset, use_node_attr=self.attributes, download=run.root is None)
        folds = self.folds(source, run.root)[: settings.limit]
        run.check_folder()
        learner = GraphLearner(source, settings)
        make = {"gin": learner.gin, "bags": learner.bags}
        found = {
            name: nested_evaluation(folds, ("sum", "mean"), learner.fitting(kind), learner.tested)
            for name, kind in make.items()
        }
        found["kernel"] = by_kernel(source, folds)
        for number in range(len(folds)):
            figures = {name: float(result.test[number]) for name, result in found.items()}
            run.folder.append({"kind": "fold", "fold": number, **figures})
        told = {"test_accuracy": found["gin"].mean, "test_accuracy_deviation": found["gin"].deviation}
        others = {"structure_free_accuracy": found["bags"].mean, "kernel_accuracy": found["kernel"].mean}
        counts = np.bincount(source.targets.numpy())
        return told | others | {self.goal.beside: float(counts.max() / counts.sum()), "folds": len(folds)}, None

    def folds(self, source: TUDataset, root: Root) -> list[Fold]:
        """Published folds, or stratified ones."""
        for name in (self.dataset, f"{self.dataset}_full"):
            path = f"tu-splits/{name}_splits.json"
            try:
                return read_folds(find(FILES.get(path) or Source(path), root), len(source))
            except SourceError:
                continue
        return nested_folds(source.targets)


class GraphLearner:
    """Networks trained on some graphs of a set."""

    def __init__(self, source: TUDataset, settings: MoleculeSettings) -> None:
        self.source, self.settings, self.fits = source, settings, 0
        rows = np.concatenate([graph.x.numpy() for graph in source.graphs])
        self.y, self.scale = source.targets.numpy(), _scale(rows)

    def gin(self, readout: str) -> nn.Module:
        """An isomorphism network."""
        s = self.settings
        shape = self.source.num_features, s.hidden, self.source.num_classes
        return GIN(*shape, num_layers=s.layers, dropout=s.dropout, readout=readout)

    def bags(self, readout: str) -> nn.Module:
        """A network of bags of vertices."""
        shape = self.source.num_features, 2 * self.settings.hidden, self.source.num_classes
        return DeepSets(*shape, dropout=self.settings.dropout, readout=readout)

    def fitting(self, make: Callable[[str], nn.Module]) -> Callable[[str, NDArray, NDArray], tuple[float, Any]]:
        """The `fit` of `nested_evaluation`."""

        def fit(readout: str, train: NDArray, held: NDArray) -> tuple[float, Any]:
            self.fits += 1
            weft.manual_seed(self.settings.seed * 1000 + self.fits)
            return self._learned(make(readout), train, held)

        return fit

    def _learned(self, model: nn.Module, train: NDArray, held: NDArray) -> tuple[float, nn.Module]:
        settings, generator = self.settings, np.random.default_rng(self.settings.seed * 1000 + self.fits)
        optimizer = optim.Adam(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
        best, kept, since, asked = (-1.0, -math.inf), {}, 0, self._batches(held, 500)
        for epoch in range(settings.epochs):
            optimizer.param_groups[0]["lr"] = settings.lr * (0.5 + 0.5 * math.cos(math.pi * epoch / settings.epochs))
            model.train()
            for batch in self._batches(generator.permutation(train), settings.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(model(batch.x, batch.edge_index, batch.batch, batch.num_graphs), batch.y).backward()
                optimizer.step()
            found = self._asked(model, asked)
            since = 0 if found > best else since + 1
            if not since:
                best, kept = found, {name: value.clone() for name, value in model.state_dict().items()}
            if since >= settings.patience:
                break
        model.load_state_dict(kept)
        return best[0], model

    def _batches(self, numbers: NDArray, size: int) -> list[Batch]:
        parts = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        batches = [Batch.from_data_list([self.source.graphs[i] for i in part]) for part in parts if len(part) > 1]
        for batch in batches:
            batch.x = batch.x / weft.tensor(self.scale)
        return batches

    def _asked(self, model: nn.Module, batches: list[Batch]) -> tuple[float, float]:
        """Accuracy, and minus the loss."""
        model.eval()
        right, loss, count = 0, 0.0, 0
        with weft.no_grad():
            for batch in batches:
                said = model(batch.x, batch.edge_index, batch.batch, batch.num_graphs)
                right += int((said.argmax(1) == batch.y).sum())
                loss += F.cross_entropy(said, batch.y, reduction="sum").item()
                count += len(batch.y)
        return right / max(count, 1), -loss / max(count, 1)

    def tested(self, model: nn.Module, numbers: NDArray) -> float:
        """The `test` of `nested_evaluation`."""
        return self._asked(model, self._batches(numbers, 500))[0]


def _scale(rows: NDArray) -> NDArray:
    """The standard deviation of each column, 1 for columns of 0 and 1."""
    binary = np.isin(rows, (0, 1)).all(0)
    return np.where(binary, 1, np.maximum(rows.std(0), 1e-6)).astype(np.float32)


def by_kernel(source: TUDataset, folds: list[Fold]) -> NestedResult:
    """Ridge regression of one-hot classes with Weisfeiler and Leman's kernel; rounds and ridge chosen in validation."""
    labels = [graph.replace(x=graph.x[:, _columns(source)]) for graph in source.graphs]
    kernels = {rounds: wl_kernel(labels, rounds) for rounds in ROUNDS}
    y, classes = source.targets.numpy(), np.eye(source.num_classes)

    def fit(rounds: int, train: NDArray, held: NDArray) -> tuple[float, Any]:
        fits = ridge(kernels[rounds][np.ix_(train, train)], classes[y[train]], STRENGTHS)
        rows = kernels[rounds][np.ix_(held, train)]
        scores = [float(((rows @ w + b).argmax(1) == y[held]).mean()) for w, b in fits]
        return max(scores), (rounds, train, fits[int(np.argmax(scores))])

    def test(fitted: Any, numbers: NDArray) -> float:
        rounds, train, (w, b) = fitted
        return float(((kernels[rounds][np.ix_(numbers, train)] @ w + b).argmax(1) == y[numbers]).mean())

    return nested_evaluation(folds, ROUNDS, fit, test)


def _columns(source: TUDataset) -> NDArray:
    """The columns of x that are labels, 0 and 1: colours are made of these."""
    rows = np.concatenate([graph.x.numpy() for graph in source.graphs])
    return np.flatnonzero(np.isin(rows, (0, 1)).all(0))
