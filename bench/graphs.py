"""Steps of graph networks against PyTorch, sparse products against the memory, and what attention over edges keeps.

    python bench/graphs.py [--rounds 9] [--threads 1] [--only GCN] [--json FILE]

GCN, GAT and GIN, two layers each, with dropout as their papers have it; a step is forward, backward and Adam, compiled
in Weft, eager in PyTorch. PyTorch computes in two forms: rows gathered, weighed and added by `index_add`, and products with
a CSR matrix (`torch.sparse.mm`). Where weights are learned PyTorch has no CSR form and its COO form makes a dense
gradient of all pairs of vertices, so GAT is measured by `index_add` alone. The ratio is to the faster one. Each library runs in a process of its own, in turns; medians of
processor time (one thread) or time (several). Graphs: one of Cora's sizes, one of 100,000 vertices and 1,000,000 edges whose ends are drawn uniformly, the
hardest case for caches, both with a self-loop at every vertex.

Bytes of a sparse product y = A x with E entries: for every entry the row of x that it reads, its column (4 bytes) and
value (4), for every row the result once. Rows that are found in a cache count as if they came from memory, so a graph with
near neighbours shows what a cache is worth. Beside them what memory gives that is read in order (BLAS's dot product of two
arrays of 96 MiB), for a product reads ten times what it writes, and what `bench/machine.py` copies ("streams"), which
counts both ways. Each is measured in turns, a product after one that does not count, as in a loop of training.

Memory: the most that a GAT step adds to what is there before it, by the number of edges.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import byte_probes, clock, peak_memory

SIZES = {  # vertices, edges, features, hidden, classes
    "Cora-sized": (2708, 10556, 1433, 16, 7),
    "100k/1M": (100_000, 1_000_000, 64, 64, 16),
}
FORMS = {"weft": ("edges",), "torch": ("index_add", "sparse.mm")}


def drawn(name: str) -> dict[str, np.ndarray]:
    """A graph: sources and targets with self-loops, features, classes."""
    n, count, width, _, classes = SIZES[name]
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n, (2, count))
    loops = np.arange(n)
    x = rng.random((n, width)) < 0.0127 if width > 1000 else rng.standard_normal((n, width))
    edges = np.concatenate([ends, np.stack([loops, loops])], 1)
    degree = np.bincount(edges[1], minlength=n)
    return {
        "edges": edges,
        "weights": (1 / np.sqrt(degree[edges[0]] * degree[edges[1]])).astype(np.float32),
        "x": x.astype(np.float32),
        "y": rng.integers(0, classes, n),
    }


# ------------------------------------------------------------------------------------- what sums over edges


class Weft:
    """Sums over edges by `weft.graphs.segment`."""

    def __init__(self, library: Any, graph: dict[str, np.ndarray], form: str) -> None:
        from weft.graphs import segment

        self.edges, self.weights = library.tensor(graph["edges"]), library.tensor(graph["weights"])
        self.ops = segment

    def summed(self, x: Any, normal: bool) -> Any:
        return self.ops.aggregate(x, self.edges, self.weights if normal else None)

    def attended(self, left: Any, right: Any, value: Any, activation: Any, dropout: Any) -> Any:
        return self.ops.edge_attention((left, right), value, self.edges, dropout=dropout, activation=activation)


class Torch:
    """The same by `index_add` or `torch.sparse.mm`."""

    def __init__(self, library: Any, graph: dict[str, np.ndarray], form: str) -> None:
        self.torch, self.form, n = library, form, len(graph["x"])
        self.edges = library.tensor(graph["edges"])
        self.weights, self.source, self.target, self.n = library.tensor(graph["weights"]), *self.edges, n
        matrix = lambda values: library.sparse_coo_tensor(self.edges.flip(0), values, (n, n)).to_sparse_csr()
        self.normal, self.plain = matrix(self.weights), matrix(library.ones_like(self.weights))

    def summed(self, x: Any, normal: bool) -> Any:
        if self.form == "sparse.mm":
            return self.torch.sparse.mm(self.normal if normal else self.plain, x)
        messages = x[self.source]
        messages = messages * self.weights[:, None] if normal else messages
        return self.torch.zeros(self.n, x.shape[1]).index_add(0, self.target, messages)

    def attended(self, left: Any, right: Any, value: Any, activation: Any, dropout: Any) -> Any:
        score = activation(left[self.source] + right[self.target])
        heads = score.shape[1]
        index = self.target[:, None].expand(-1, heads)
        top = score.new_full((self.n, heads), -1e30).scatter_reduce(0, index, score.detach(), "amax")
        parts = (score - top[self.target]).exp()
        total = self.torch.zeros(self.n, heads).index_add(0, self.target, parts)
        weights = dropout(parts / total[self.target])
        messages = weights[:, :, None] * value[self.source]
        return self.torch.zeros(self.n, *value.shape[1:]).index_add(0, self.target, messages)


# ------------------------------------------------------------------------------------------------ the networks


def gcn(library: Any, sums: Any, sizes: tuple[int, ...]) -> tuple[list[Any], Callable]:
    """H′ = dropout(relu(Â X W₁ + b₁)), Z = Â H′ W₂ + b₂ (Kipf and Welling, 2017)."""
    first, second = library.nn.Linear(sizes[0], sizes[1]), library.nn.Linear(sizes[1], sizes[2])
    drop = library.nn.Dropout(0.5)

    def layer(linear: Any, x: Any) -> Any:
        return sums.summed(x @ linear.weight.T, True) + linear.bias

    return [first, second], lambda x: layer(second, drop(layer(first, drop(x)).relu()))


def gat(library: Any, sums: Any, sizes: tuple[int, ...]) -> tuple[list[Any], Callable]:
    """Eight heads that share the hidden units, then one of the classes (Veličković and others, 2018)."""
    width, hidden, classes = sizes
    functional, drop = library.nn.functional, library.nn.Dropout(0.6)

    def attention(inputs: int, heads: int, each: int) -> tuple[list[Any], Callable]:
        linear = library.nn.Linear(inputs, heads * each, bias=False)
        ends = library.nn.Linear(each, 2 * heads)  # its weight: a vector of each head for either end

        def layer(x: Any) -> Any:
            value = linear(drop(x)).reshape(-1, heads, each)
            left, right = ((value * part).sum(-1) for part in ends.weight.reshape(2, heads, each))
            activation = lambda score: functional.leaky_relu(score, 0.2)
            return sums.attended(left, right, value, activation, drop).reshape(-1, heads * each)

        return [linear, ends], layer

    (first, one), (second, two) = (
        attention(width, 8, max(8, hidden // 8)),
        attention(8 * max(8, hidden // 8), 1, classes),
    )
    return [*first, *second], lambda x: two(functional.elu(one(x)))


def gin(library: Any, sums: Any, sizes: tuple[int, ...]) -> tuple[list[Any], Callable]:
    """h′ᵥ = MLP(hᵥ + Σ hᵤ) (Xu and others, 2019); the first product comes before the sum, which is the same."""
    width, hidden, classes = sizes
    nn = library.nn
    layers = [
        nn.Linear(width, hidden),
        nn.Linear(hidden, hidden),
        nn.Linear(hidden, hidden),
        nn.Linear(hidden, classes),
    ]

    def forward(x: Any) -> Any:
        x = (sums.summed(x @ layers[0].weight.T, False) + layers[0].bias).relu()
        x = layers[1](x).relu()
        x = layers[2](sums.summed(x, False)).relu()
        return layers[3](x)

    return layers, forward


MODELS = {"GCN": gcn, "GAT": gat, "GIN": gin}


def step_of(library: Any, model: str, size: str, form: str) -> Callable[[], Any]:
    """One training step."""
    graph = drawn(size)
    sums = (Weft if library.__name__ == "weft" else Torch)(library, graph, form)
    library.manual_seed(0)
    parts, forward = MODELS[model](library, sums, SIZES[size][2:])
    x, y = library.tensor(graph["x"]), library.tensor(graph["y"])
    optimizer = library.optim.Adam([p for part in parts for p in part.parameters() if p is not None], lr=0.01)

    def step() -> Any:
        loss = library.nn.functional.cross_entropy(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return library.compile(step) if library.__name__ == "weft" else step


# ------------------------------------------------------------------------------------------------------ in turns


def worker(name: str, keys: list[tuple[str, str, str]], threads: int, connection: Any) -> None:
    """Processor seconds of a step of the program that the driver asks for, until it hangs up."""
    library = importlib.import_module(name)
    library.set_num_threads(threads)
    steps = {}
    for key in keys:
        steps[key] = step_of(library, *key)
        for _ in range(2):
            steps[key]()
    connection.send("ready")
    now = clock(threads)
    while (asked := connection.recv()) is not None:
        start = now()
        steps[asked]()
        connection.send(now() - start)


def measure(names: list[tuple[str, str]], rounds: int, threads: int) -> dict[str, dict[str, float]]:
    """Median seconds by program and form."""
    context, peers, times = multiprocessing.get_context("spawn"), {}, {}
    for library, forms in FORMS.items():
        keys = [(*name, form) for name in names for form in forms if (name[0], form) != ("GAT", "sparse.mm")]
        ours, theirs = context.Pipe()
        process = context.Process(target=worker, args=(library, keys, threads, theirs), daemon=True)
        process.start()
        theirs.close()
        ours.recv()
        peers[library] = ours, process, keys
    for _ in range(rounds):
        for ours, _, keys in peers.values():
            for key in keys:
                ours.send(key)
                times.setdefault(key, []).append(ours.recv())
    for ours, process, _ in peers.values():
        ours.send(None)
        process.join()
    found: dict[str, dict[str, float]] = {}
    for (model, size, form), seconds in times.items():
        found.setdefault(f"{model} {size}", {})[form] = statistics.median(seconds)
    return found


# --------------------------------------------------------------------------------------- products and memory


def products(threads: int) -> dict[str, dict[str, float]]:
    """GB/s of sparse products, and the shares of what the machine reads and copies, measured in turns with it."""
    import weft

    weft.set_num_threads(threads)
    n, count, *_ = SIZES["100k/1M"]
    rng, found = np.random.default_rng(0), {}
    source, far = rng.integers(0, n, count), rng.integers(0, n, count)
    near = (source + rng.integers(-1000, 1000, count)) % n
    streams, now = byte_probes(threads)["streams"], clock(threads)
    ones = np.ones((2, 24 * 2**20), np.float32)
    for label, target in (("ends anywhere", far), ("ends within 1000", near)):
        matrix = weft.sparse_coo_tensor(np.stack([target, source]), weft.randn(count), (n, n)).to_sparse_csr()
        for width in (16, 64, 256):
            x = weft.randn(n, width)
            product = weft.compile(lambda x, matrix=matrix: weft.sparse.mm(matrix, x))
            product(x)

            def seconds(work: Callable, *given: Any) -> float:
                start = now()
                work(*given)
                return now() - start

            rows = []
            for _ in range(9):
                copied, read = streams(), ones.nbytes / seconds(np.dot, *ones) / 1e9
                product(x)
                rows.append((seconds(product, x), read, copied))
            spent, reads, copies = map(statistics.median, zip(*rows, strict=True))
            rate = (matrix.nnz * (4 * width + 8) + 4 * n * width) / spent / 1e9
            shares = {"share": rate / reads, "share of copies": rate / copies}
            found[f"{label}, {width} columns"] = {"GB/s": rate, "reads": reads, "copies": copies, **shares}
    return found


def gat_memory(count: int, form: str) -> float:
    """MiB that two GAT steps of 8 heads × 8 features need at most beside the graph of `count` edges; run alone."""
    import weft

    SIZES["memory"] = (20_000, count, 64, 64, 16)
    library = importlib.import_module("torch") if form != "edges" else weft
    library.set_num_threads(1)
    step = step_of(library, "GAT", "memory", form)
    peak_memory(restart=True)
    before = peak_memory()
    for _ in range(2):
        step()
    return peak_memory() - before


def memory() -> dict[str, dict[str, float]]:
    """What a step adds for 0.5, 1 and 2 million edges, each in a process of its own."""
    found: dict[str, dict[str, float]] = {}
    for form in ("edges", "index_add"):
        for count in (500_000, 1_000_000, 2_000_000):
            code = f"import graphs; print(graphs.gat_memory({count}, {form!r}))"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=HERE)
            found.setdefault(form, {})[str(count)] = float(done.stdout)
    return found


HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="only the steps with this in their name; 'products', 'memory'")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    for library in ("OMP", "MKL", "OPENBLAS", "WEFT"):
        os.environ[f"{library}_NUM_THREADS"] = str(options.threads)
    names = [(model, size) for model in MODELS for size in SIZES if options.only in f"{model} {size}"]
    steps = measure(names, options.rounds, options.threads) if names else {}
    print(f"{'step, ms':<24}{'weft':>9}{'index_add':>11}{'sparse.mm':>11}{'ratio':>8}")
    for name, by_form in steps.items():
        ratio = by_form["edges"] / min(by_form[form] for form in FORMS["torch"] if form in by_form)
        shown = (f"{1e3 * by_form[form]:.1f}" if form in by_form else "–" for form in ("edges", *FORMS["torch"]))
        print("{:<24}{:>9}{:>11}{:>11}{:>8.2f}".format(name, *shown, ratio))
    whole = not options.only
    rates = products(options.threads) if whole or options.only == "products" else {}
    for name, row in rates.items():
        print(
            f"SpMM, {name}: {row['GB/s']:.1f} GB/s, {row['share']:.0%} of {row['reads']:.1f} read in order, "
            f"{row['share of copies']:.0%} of {row['copies']:.1f} copied"
        )
    kept = memory() if whole or options.only == "memory" else {}
    for form, by_count in kept.items():
        print(f"GAT step, {form}: " + ", ".join(f"{int(c):,} edges {most:.0f} MiB" for c, most in by_count.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"steps": steps, "products": rates, "memory": kept}, file, indent=1)


if __name__ == "__main__":
    main()
