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
from ...data.dataset import k_fold
from ...data.graph import Graph
from ...data.sources.catalogue import FILES, Source
from ...data.sources.errors import SourceError
from ...data.sources.fetch import find
from ...data.sources.graphs import TUDataset
from ...graphs.folds import Fold, nested_evaluation, nested_folds, read_folds
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
KINDS = ("gin", "bags")
READOUTS = ("sum", "mean")
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
    members: int = option(1, "networks whose probabilities are averaged, each validated by another part", at_least=1)
    skip: int = option(0, "leave out so many folds at the beginning", at_least=0, at_most=9)
    limit: int | None = option(None, "run only so many of the folds", at_least=1)


class Molecules(Recipe):
    """An isomorphism network for one of TU Dortmund's sets; readouts by sum or mean, whichever is better in validation."""

    Settings = MoleculeSettings
    dataset: ClassVar[str]
    attributes: ClassVar[bool] = True

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings = run.settings
        source = TUDataset(run.root, name=self.dataset, use_node_attr=self.attributes, download=run.root is None)
        folds = list(enumerate(self.folds(source, run.root)))[settings.skip :][: settings.limit]
        run.check_folder()
        learner, kernels, rows = GraphLearner(source, settings), kernels_of(source), []
        for number, fold in folds:
            rows.append(
                {kind: learner.nested(kind, number, fold) for kind in KINDS}
                | {"kernel": by_kernel(kernels, source, fold)}
            )
            run.folder.append({"kind": "fold", "fold": number, **rows[-1]})
        found = {kind: np.array([row[kind] for row in rows]) for kind in rows[0]}
        told = {"test_accuracy": found["gin"].mean(), "test_accuracy_deviation": found["gin"].std()}
        others = {"structure_free_accuracy": found["bags"].mean(), "kernel_accuracy": found["kernel"].mean()}
        counts = np.bincount(source.targets.numpy())
        told = {name: float(value) for name, value in (told | others).items()}
        return told | {self.goal.beside: float(counts.max() / counts.sum()), "folds": len(folds)}, None

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
        self.classes: NDArray = source.targets.numpy()
        self.networks: dict[tuple[str, str], Network] = {}
        self.orders: dict[bytes, list[list[Graph]]] = {}

    def model(self, kind: str, readout: str) -> nn.Module:
        """An isomorphism network ("gin"), or one of bags of vertices."""
        s, (inputs, classes) = self.settings, (self.source.num_features, self.source.num_classes)
        if kind == "gin":
            return GIN(inputs, s.hidden, classes, num_layers=s.layers, dropout=s.dropout, readout=readout)
        return DeepSets(inputs, 2 * s.hidden, classes, dropout=s.dropout, readout=readout)

    def nested(self, kind: str, number: int, fold: Fold) -> float:
        """The test accuracy of one of ten folds: of sums and means as readouts the one that is better in validation."""
        self.fits = (10 * KINDS.index(kind) + number) * len(READOUTS) * self.settings.members  # whatever was run before
        return nested_evaluation([fold], READOUTS, self.fitting(kind), self.tested).mean

    def fitting(self, kind: str) -> Callable[[str, NDArray, NDArray], tuple[float, Any]]:
        """The `fit` of `nested_evaluation`; what it leaves are the weights of all members, and the network that they belong to."""

        def fit(readout: str, train: NDArray, held: NDArray) -> tuple[float, Any]:
            rows = [self._member(kind, readout, *part) for part in self._parts(train, held)]
            network = self.networks[kind, readout]
            return float(np.mean([best[0] for best, _ in rows])), (network, [kept for _, kept in rows])

        return fit

    def _member(self, kind: str, readout: str, train: NDArray, held: NDArray) -> tuple[tuple, dict[str, Any]]:
        """What `_learned` leaves of one network that starts anew."""
        self.fits += 1
        weft.manual_seed(self.settings.seed * 1000 + self.fits)
        fresh = self.model(kind, readout)
        if (kind, readout) not in self.networks:
            self.networks[kind, readout] = Network(self.model(kind, readout), self.settings)
        network = self.networks[kind, readout]
        restarted(network.model, fresh, network.optimizer)
        return self._learned(network, train, held)

    def _parts(self, train: NDArray, held: NDArray) -> list[tuple[NDArray, NDArray]]:
        """What each member learns from and what it is validated by: of several members each leaves out another part of both."""
        count = self.settings.members
        if count == 1:
            return [(train, held)]
        both = np.concatenate([train, held])
        cuts = k_fold(len(both), count, shuffle=True, seed=self.settings.seed, stratify=self.classes[both])
        return [(both[rest], both[out]) for rest, out in cuts]

    def _ordered(self, train: NDArray) -> list[list[Graph]]:
        """The graphs that train in ORDERS orders, the same for all networks."""
        key = train.tobytes()
        if key not in self.orders:
            if len(self.orders) >= self.settings.members:
                self.orders.clear()  # another fold
            generator = np.random.default_rng(self.settings.seed)
            self.orders[key] = [list(self.batches.of(generator.permutation(train))) for _ in range(ORDERS)]
        return self.orders[key]

    def _learned(self, network: Network, train: NDArray, held: NDArray) -> tuple[tuple, dict[str, Any]]:
        """The best (accuracy, minus loss) on what is held out, and the weights then."""
        settings, best, kept, since = self.settings, (-1.0, -math.inf), {}, 0
        orders, asked = self._ordered(train), list(self.batches.of(held))
        for epoch in range(settings.epochs):
            rate = settings.lr * (0.5 + 0.5 * math.cos(math.pi * epoch / settings.epochs))
            network.learn(orders[epoch % len(orders)], rate)
            said = network.probabilities(asked)
            losses = -np.log(np.maximum(said[np.arange(len(held)), self.classes[held]], 1e-9))
            found = self._right(said, held), -float(losses.mean())
            since = 0 if found > best else since + 1
            if not since:
                best, kept = found, {name: value.clone() for name, value in network.model.state_dict().items()}
            if since >= settings.patience:
                break
        return best, kept

    def _right(self, said: NDArray, numbers: NDArray) -> float:
        return float((said.argmax(1) == self.classes[numbers]).mean())

    def tested(self, fitted: Any, numbers: NDArray) -> float:
        """The `test` of `nested_evaluation`: of the mean of what all members say."""
        (network, members), batches, said = fitted, list(self.batches.of(numbers)), []
        for kept in members:
            network.model.load_state_dict(kept)
            said.append(network.probabilities(batches))
        return self._right(np.mean(said, 0), numbers)


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

    def _ask(self, batch: Graph) -> tuple[Tensor, Tensor]:
        self.model.eval()
        with weft.no_grad():
            return self._said(batch).softmax(1), batch.graph_mask

    def learn(self, batches: list[Graph], rate: float) -> None:
        """A step for each batch."""
        self.optimizer.param_groups[0]["lr"] = rate
        for batch in batches:
            self.step(batch)

    def probabilities(self, batches: list[Graph]) -> NDArray:
        """What is said of each graph, in the order of the batches: (graphs, classes)."""
        said = (self.ask(batch) for batch in batches)
        return np.concatenate([rows.numpy()[there.numpy()] for rows, there in said])


def _scale(rows: NDArray) -> NDArray:
    """The standard deviation of each column, 1 for columns of 0 and 1."""
    binary = np.isin(rows, (0, 1)).all(0)
    return np.where(binary, 1, np.maximum(rows.std(0), 1e-6)).astype(np.float32)


def kernels_of(source: TUDataset) -> dict[int, NDArray]:
    """Weisfeiler and Leman's kernel after each number of rounds: (graphs, graphs) each."""
    labels = [graph.replace(x=graph.x[:, _columns(source)]) for graph in source.graphs]
    return {rounds: wl_kernel(labels, rounds) for rounds in ROUNDS}


def by_kernel(kernels: dict[int, NDArray], source: TUDataset, fold: Fold) -> float:
    """Ridge regression of one-hot classes with one of the kernels; rounds and ridge chosen in validation."""
    y, classes = source.targets.numpy(), np.eye(source.num_classes)

    def fit(rounds: int, train: NDArray, held: NDArray) -> tuple[float, Any]:
        fits = ridge(kernels[rounds][np.ix_(train, train)], classes[y[train]], STRENGTHS)
        rows = kernels[rounds][np.ix_(held, train)]
        scores = [float(((rows @ w + b).argmax(1) == y[held]).mean()) for w, b in fits]
        return max(scores), (rounds, train, fits[int(np.argmax(scores))])

    def test(fitted: Any, numbers: NDArray) -> float:
        rounds, train, (w, b) = fitted
        return float(((kernels[rounds][np.ix_(numbers, train)] @ w + b).argmax(1) == y[numbers]).mean())

    return nested_evaluation([fold], ROUNDS, fit, test).mean


def _columns(source: TUDataset) -> NDArray:
    """The columns of x that are labels, 0 and 1: colours are made of these."""
    rows = np.concatenate([graph.x.numpy() for graph in source.graphs])
    return np.flatnonzero(np.isin(rows, (0, 1)).all(0))
