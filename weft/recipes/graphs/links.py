"""Missing citations: an autoencoder of the graph says which papers are joined; what the recipes for both networks share.

Protocol (Kipf and Welling 2016): of the undirected citations 85 % are for training, 5 % for validation and 10 % for testing,
drawn anew in each run; to each held-out citation comes a pair of papers without one. Messages pass along training citations
only, in both directions; features are 0 and 1 for words; pairs that are learned from as absent are drawn without knowing of the held-out ones. The epoch
counts whose validation AUC + AP is highest, asked every tenth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import weft

from ... import optim
from ...data.graph import Graph
from ...graphs.negatives import negative_sampling
from ...graphs.nn.normalize import gcn_norm
from ...graphs.splits import RandomLinkSplit
from ...metrics import auroc, average_precision
from ...models.graphs.autoencoders import VGAE, VariationalGCNEncoder
from ...tensor import Tensor
from ..base import Recipe, Run
from ..settings import Settings, option
from .citations import Paper, restarted

__all__ = ["LinkLearner", "LinkSettings", "Links"]


@dataclass(kw_only=True)
class LinkSettings(Settings):
    """Settings of autoencoders of citation networks."""

    runs: int = option(10, "splits, with a model each, at seeds from `seed` on", at_least=1)
    epochs: int = option(200, "passes over the graph", at_least=1)
    lr: float = option(0.01, "learning rate", above=0)
    hidden: int = option(64, "units of the hidden layer", at_least=1)
    code: int = option(32, "numbers of a code", at_least=1)
    dropout: float = option(0.5, "share of what a layer takes that is dropped", at_least=0, at_most=0.95)


class Links(Recipe):
    """Variational autoencoders of one citation network."""

    Settings = LinkSettings
    dataset: ClassVar[str]

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        paper = Paper.read(self.dataset, run.root, normalize=False)
        run.check_folder()
        learner, rows = LinkLearner(run.settings, paper), []
        for seed in range(run.settings.seed, run.settings.seed + run.settings.runs):
            rows.append(learner.learned(seed))
            run.folder.append({"kind": "run", "seed": seed, **rows[-1]})
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        spread = {}
        if len(rows) > 1:
            columns = {name: [row[name] for row in rows] for name in ("test_auc", "test_ap")}
            spread = {f"{name}_deviation": float(np.std(values, ddof=1)) for name, values in columns.items()}
        return means | spread | {"runs": len(rows)}, None


class LinkLearner:
    """One compiled step for all splits: as many citations are in each."""

    def __init__(self, settings: LinkSettings, paper: Paper) -> None:
        self.settings, self.paper = settings, paper
        self.model = self._fresh()
        self.optimizer = optim.Adam(self.model.parameters(), lr=settings.lr)
        self.step, self.coded = weft.compile(self._step), weft.compile(self._coded)

    def _fresh(self) -> VGAE:
        options = {"dropout": self.settings.dropout, "normalize": False}
        return VGAE(VariationalGCNEncoder(self.paper.x.shape[1], self.settings.hidden, self.settings.code, **options))

    def _step(self, edges: Tensor, weight: Tensor, there: Tensor, absent: Tensor) -> Tensor:
        self.model.train()
        self.optimizer.zero_grad()
        z = self.model.encode(self.paper.x, edges, weight)
        loss = self.model.recon_loss(z, there, absent) + self.model.kl_loss() / self.paper.graph.num_nodes
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _coded(self, edges: Tensor, weight: Tensor) -> Tensor:
        self.model.eval()
        with weft.no_grad():
            return self.model.encode(self.paper.x, edges, weight)

    def learned(self, seed: int) -> dict[str, float]:
        """AUC and AP on the test pairs at the epoch that is best on the validation pairs."""
        weft.manual_seed(seed)
        restarted(self.model, self._fresh(), self.optimizer)
        generator = weft.Generator().manual_seed(seed)
        parts = RandomLinkSplit(0.05, 0.1, add_negative_train_samples=False, generator=generator)(self.paper.graph)
        train, held, test = (part.edge_label_index.numpy()[:, part.edge_label.numpy() > 0] for part in parts)
        known, count = parts[0].edge_index, self.paper.graph.num_nodes
        edges, weight = gcn_norm(known, num_nodes=count)
        there, best, kept = weft.tensor(train), (-math.inf,), None
        for epoch in range(1, self.settings.epochs + 1):
            absent = negative_sampling(known, count, train.shape[1], generator=generator)
            self.step(edges, weight, there, absent)
            if epoch % 10 and epoch < self.settings.epochs:
                continue
            z = self.coded(edges, weight)
            found = _scores(z, held, _absent(parts[1]))
            if sum(found) > best[0]:
                best, kept = (sum(found), *found), z.clone()
        auc, precision = _scores(kept, test, _absent(parts[2]))
        features = _scores(self.paper.graph.x, test, _absent(parts[2]))
        told = {"test_auc": auc, "test_ap": precision, "validation_auc": best[1], "validation_ap": best[2]}
        return told | {"baseline_auc": features[0], "baseline_ap": features[1]}


def _absent(part: Graph) -> NDArray:
    return part.edge_label_index.numpy()[:, part.edge_label.numpy() == 0]


def _scores(z: Tensor, there: NDArray, absent: NDArray) -> tuple[float, float]:
    rows = z.numpy()
    said = [(rows[pairs[0]] * rows[pairs[1]]).sum(1) for pairs in (there, absent)]
    truth = np.repeat([1, 0], [len(part) for part in said])
    scores = np.concatenate(said).astype(np.float64)
    scores = 1 / (1 + np.exp(-scores))
    return float(auroc(scores, truth)), float(average_precision(scores, truth))
