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
from ...data.graph import Graph
from ...data.sources.catalogue import FILES, Source
from ...data.sources.errors import SourceError
from ...data.sources.fetch import find
from ...data.sources.graphs import TUDataset
from ...graphs.folds import Fold, NestedResult, nested_evaluation, nested_folds, read_folds
from ...graphs.padding import PaddedBatches
from ...models.graphs.weisfeiler_leman import wl_kernel
from ...models.graphs.wholes import GIN, DeepSets
from ...nn import functional as F
from ...tensor import Tensor
from ..base import Recipe, Root, Run
from ..baselines import ridge
from ..settings import Settings, option
from .citations import restarted

__all__ = ["MoleculeSettings", "Molecules"]

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of ridge regression
ORDERS = 4  # in which the graphs of a fold are gone through, one after the other
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
        found = {
            kind: nested_evaluation(folds, ("sum", "mean"), learner.fitting(kind), learner.tested)
            for kind in ("gin", "bags")
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
    """Networks trained on some graphs of a set, in batches of one size: each kind of network is compiled once for all folds."""

    def __init__(self, source: TUDataset, settings: MoleculeSettings) -> None:
        self.source, self.settings, self.fits = source, settings, 0
        scale = weft.tensor(_scale(np.concatenate([graph.x.numpy() for graph in source.graphs])))
        graphs = [graph.replace(x=graph.x / scale) for graph in source.graphs]
        self.batches = PaddedBatches(graphs, settings.batch_size)
        self.networks: dict[tuple[str, str], Network] = {}
        self.orders: tuple[bytes, list[list[Graph]]] = b"", []

    def model(self, kind: str, readout: str) -> nn.Module:
        """An isomorphism network ("gin"), or one of bags of vertices."""
        s, (inputs, classes) = self.settings, (self.source.num_features, self.source.num_classes)
        if kind == "gin":
            return GIN(inputs, s.hidden, classes, num_layers=s.layers, dropout=s.dropout, readout=readout)
        return DeepSets(inputs, 2 * s.hidden, classes, dropout=s.dropout, readout=readout)

    def fitting(self, kind: str) -> Callable[[str, NDArray, NDArray], tuple[float, Any]]:
        """The `fit` of `nested_evaluation`; what it leaves are the weights, and the network that they belong to."""

        def fit(readout: str, train: NDArray, held: NDArray) -> tuple[float, Any]:
            self.fits += 1
            weft.manual_seed(self.settings.seed * 1000 + self.fits)
            fresh = self.model(kind, readout)
            if (kind, readout) not in self.networks:
                self.networks[kind, readout] = Network(self.model(kind, readout), self.settings)
            network = self.networks[kind, readout]
            restarted(network.model, fresh, network.optimizer)
            best, kept = self._learned(network, self._ordered(train), list(self.batches.of(held)))
            return best[0], (network, kept)

        return fit

    def _ordered(self, train: NDArray) -> list[list[Graph]]:
        """The graphs that train in ORDERS orders, the same for all networks."""
        if self.orders[0] != train.tobytes():
            generator = np.random.default_rng(self.settings.seed)
            made = [list(self.batches.of(generator.permutation(train))) for _ in range(ORDERS)]
            self.orders = train.tobytes(), made
        return self.orders[1]

    def _learned(self, network: Network, orders: list[list[Graph]], held: list[Graph]) -> tuple[tuple, dict[str, Any]]:
        """The best (accuracy, minus loss) on what is held out, and the weights then."""
        settings, best, kept, since = self.settings, (-1.0, -math.inf), {}, 0
        for epoch in range(settings.epochs):
            rate = settings.lr * (0.5 + 0.5 * math.cos(math.pi * epoch / settings.epochs))
            network.learn(orders[epoch % len(orders)], rate)
            found = network.asked(held)
            since = 0 if found > best else since + 1
            if not since:
                best, kept = found, {name: value.clone() for name, value in network.model.state_dict().items()}
            if since >= settings.patience:
                break
        return best, kept

    def tested(self, fitted: Any, numbers: NDArray) -> float:
        """The `test` of `nested_evaluation`."""
        network, kept = fitted
        network.model.load_state_dict(kept)
        return network.asked(list(self.batches.of(numbers)))[0]


class Network:
    """One network with its compiled step and its compiled question, both for batches of one size."""

    def __init__(self, model: nn.Module, settings: MoleculeSettings) -> None:
        self.model = model
        self.optimizer = optim.Adam(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
        self.step, self.ask = weft.compile(self._step), weft.compile(self._ask)

    def _said(self, batch: Graph) -> Tensor:
        masks = {"node_mask": batch.node_mask} if isinstance(self.model, GIN) else {}
        return self.model(batch.x, batch.edge_index, batch.batch, batch.num_graphs, **masks)

    def _step(self, batch: Graph) -> None:
        self.model.train()
        self.optimizer.zero_grad()
        losses = F.cross_entropy(self._said(batch), batch.y, reduction="none") * batch.graph_mask
        (losses.sum() / batch.graph_mask.sum()).backward()
        self.optimizer.step()

    def _ask(self, batch: Graph) -> tuple[Tensor, Tensor, Tensor]:
        self.model.eval()
        with weft.no_grad():
            said, there = self._said(batch), batch.graph_mask
            losses = F.cross_entropy(said, batch.y, reduction="none") * there
            return ((said.argmax(1) == batch.y) & there).sum(), losses.sum(), there.sum()

    def learn(self, batches: list[Graph], rate: float) -> None:
        """A step for each batch."""
        self.optimizer.param_groups[0]["lr"] = rate
        for batch in batches:
            self.step(batch)

    def asked(self, batches: list[Graph]) -> tuple[float, float]:
        """Accuracy, and minus the loss."""
        right, loss, count = (sum(part.item() for part in parts) for parts in zip(*map(self.ask, batches), strict=True))
        return right / max(count, 1), -loss / max(count, 1)


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
