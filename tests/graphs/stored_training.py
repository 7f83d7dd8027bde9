"""A graph of 10 million edges and 1 million nodes written in pieces, and GraphSAGE trained from it: figures as JSON.

python tests/graphs/stored_training.py FOLDER
"""

from __future__ import annotations

import json
import pathlib
import resource
import sys
import time

import numpy as np

import weft
from weft import graphs as G
from weft.data import ArrayWriter
from weft.graphs.nn import SAGEConv

NODES, PIECE, PIECES, CLASSES, WIDTH, BATCH = 1_000_000, 1_000_000, 10, 8, 128, 512


def pieces():
    """Edges of which two thirds join nodes of one class, drawn piece by piece."""
    for number in range(PIECES):
        random = np.random.default_rng(number)
        source = random.integers(0, NODES, PIECE)
        other = random.integers(0, NODES // CLASSES, PIECE) * CLASSES + source % CLASSES
        target = np.where(random.random(PIECE) < 2 / 3, other, random.integers(0, NODES, PIECE))
        yield np.stack([source, target])


def features(folder: pathlib.Path) -> None:
    """x: noise with a weak trace of the class i mod 8; y."""
    (folder / "nodes").mkdir(parents=True, exist_ok=True)
    centres = np.random.default_rng(99).standard_normal((CLASSES, WIDTH)).astype(np.float32) * 0.15
    with (
        ArrayWriter(folder / "nodes" / "x.npy", (WIDTH,), "float32") as x,
        ArrayWriter(folder / "nodes" / "y.npy", (), "int64") as y,
    ):
        for first in range(0, NODES, 50_000):
            labels = np.arange(first, first + 50_000) % CLASSES
            noise = np.random.default_rng(first).standard_normal((50_000, WIDTH), np.float32)
            x.append(noise + centres[labels])
            y.append(labels)


class Network(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = SAGEConv(WIDTH, 32), SAGEConv(32, CLASSES)

    def forward(self, graph: G.Graph) -> weft.Tensor:
        hidden = self.first(graph.x, graph.edge_index).relu()
        return self.second(hidden, graph.edge_index)[:BATCH]


def main(folder: pathlib.Path) -> dict[str, float]:
    begin = time.perf_counter()
    features(folder)
    graph = G.write_graph(folder, pieces, NODES)
    written = time.perf_counter()
    weft.manual_seed(0)
    model = Network()
    optimizer = weft.optim.Adam(model.parameters(), lr=0.01)
    order = weft.Generator().manual_seed(1).permutation(NODES)

    @weft.compile
    def step(batch: G.Graph) -> weft.Tensor:
        optimizer.zero_grad()
        loss = weft.nn.functional.cross_entropy(model(batch), batch.y[:BATCH])
        loss.backward()
        optimizer.step()
        return loss.detach()

    @weft.compile
    def asked(batch: G.Graph) -> weft.Tensor:
        with weft.no_grad():
            return (model(batch).argmax(1) == batch.y[:BATCH]).float().mean()

    batches = lambda nodes, seed: G.NeighborLoader(graph, [10, 5], nodes, BATCH, seed=seed, padded=True)
    losses = [step(batch).item() for batch in batches(order[: BATCH * 40], 0)]
    right = [asked(batch).item() for batch in batches(order[-8 * BATCH :], 1)]
    files = sum(path.stat().st_size for path in folder.rglob("*.npy"))
    return {
        "edges": graph.num_edges,
        "traces": sum(map(len, step.plans.values())),
        "files_mb": files / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "first_loss": losses[0],
        "last_loss": float(np.mean(losses[-5:])),
        "accuracy": float(np.mean(right)),
        "seconds_writing": written - begin,
        "seconds_training": time.perf_counter() - written,
    }


if __name__ == "__main__":
    print(json.dumps(main(pathlib.Path(sys.argv[1]))))
