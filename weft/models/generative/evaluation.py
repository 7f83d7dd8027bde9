"""How good a model of data is, said so that it can be compared: every likelihood with its side and its interval.

A figure also names the examples it was taken on (their number, a hash of them, how they were binarised), what was done to
them before the model saw them, and the seeds of whatever was drawn. `rank` refuses what cannot be compared.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import weft

from ...distributions import Transform
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .protocol import Bound, GenerativeModel

__all__ = ["BINARISATIONS", "Evaluation", "Likelihood", "evaluate", "rank", "split_hash"]

BINARISATIONS = ("fixed", "dynamic", "threshold", "native")  # native: data that are bits by themselves
DEVIATIONS = 1.96  # of a normal distribution, on both sides: 95 %
BATCH = 500


@dataclass(frozen=True)
class Likelihood:
    """One figure: the mean of log p over the examples, exact or from one side.

    nats: the mean; error: its standard error, from the choice of examples and from what was drawn (`drawn_error` alone)
    side: "lower", "upper", or None for exact values; by_seed: the mean for each seed
    """

    method: str
    kind: str
    side: str | None
    nats: float
    error: float
    drawn_error: float
    bits_per_dim: float
    by_seed: tuple[float, ...]
    seconds: float

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean over all examples there could be lies, or its bound, with 95 %."""
        return self.nats - DEVIATIONS * self.error, self.nats + DEVIATIONS * self.error


@dataclass(frozen=True)
class Evaluation:
    """All likelihoods of one model on one set of examples. `str` of it is a table, `to_dict` for JSON."""

    model: str
    parameters: int
    examples: int
    shape: tuple[int, ...]
    split: str
    binarisation: str | None
    preprocessing: str
    seeds: tuple[int, ...]
    likelihoods: tuple[Likelihood, ...]

    def side(self, side: str) -> Likelihood | None:
        """The best figure from this side: an exact one, the largest lower bound, the smallest upper bound."""
        fitting = [found for found in self.likelihoods if found.side in (None, side)]
        best = max if side == "lower" else min
        return next((f for f in fitting if f.side is None), None) or best(fitting, key=lambda f: f.nats, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as values that JSON can hold."""
        rows = [asdict(found) | {"interval": found.interval} for found in self.likelihoods]
        return asdict(self) | {"likelihoods": rows}

    @property
    def data(self) -> str:
        """The examples in words."""
        kind = f", {self.binarisation} binarisation" if self.binarisation else ""
        return f"{self.examples} examples {self.shape}{kind}, split {self.split}, {self.preprocessing}"

    def __str__(self) -> str:
        lines = [f"{self.model} ({self.parameters} parameters) on {self.data}, seeds {list(self.seeds)}"]
        for f in self.likelihoods:
            low, high = f.interval
            side = {None: "=", "lower": "≥", "upper": "≤"}[f.side]
            figures = f"{side} {f.nats:9.3f} nats  95 % [{low:.3f}, {high:.3f}]  {f.bits_per_dim:.4f} bits/dim"
            lines.append(f"  {f.method:<24}{figures}  ({f.kind}, {f.seconds:.1f} s)")
        return "\n".join(lines)


def evaluate(
    model: GenerativeModel,
    data: Any,
    *,
    name: str | None = None,
    binarisation: str | None = None,
    transform: Transform | None = None,
    levels: int | None = None,
    seeds: Sequence[int] = (0,),
    samples: Sequence[int] = (1, 5, 50),
    options: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Every likelihood that the model has, on these examples.

    Exact `log_prob`; `elbo`; `log_prob_bound` from each side that it takes, once for each seed: one run of an estimator
    says nothing about its own error. Where it takes `samples`, a curve over their number.

    data: (N, *event), or a set with such tensors; binarisation: "fixed", "dynamic", "threshold" or "native", which bits
    must name, as these are different sets (a set's own attribute of this name will do)
    levels: x are whole numbers below this, and get uniform noise in [0, 1) before all else; log p(x + u) in the mean is
    then a lower bound of log P(x). transform: what the model sees is transform(x), whose log|det J| is added
    options: for `log_prob_bound`, such as {"temperatures": 5000}

    >>> from weft.models.energy import BernoulliRBM
    >>> found = evaluate(BernoulliRBM(4, 3), weft.ones(2, 4), binarisation="native", options={"temperatures": 10})
    >>> [(f.method, f.side) for f in found.likelihoods]
    [('log_prob', None), ('log_prob_bound', 'lower'), ('log_prob_bound', 'upper')]
    """
    x = _examples(data)
    binarisation = _named(x, binarisation or getattr(data, "binarisation", None))
    if not seeds:
        raise OptionError("evaluate: expected at least one seed")
    asked = _Asked(model, x, transform, levels, tuple(seeds), dict(options or {}))
    with weft.no_grad():
        likelihoods = tuple(asked.all(samples))
    if not likelihoods:
        raise OptionError(
            f"evaluate: {type(model).__name__} has no likelihood, exact or bounded; it has {model.promises}"
        )
    return Evaluation(
        name or type(model).__name__,
        sum(p.numel() for p in model.parameters()),
        len(x),
        tuple(x.shape[1:]),
        split_hash(x),
        binarisation,
        _described(transform, levels),
        tuple(seeds),
        likelihoods,
    )


def rank(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """The best first, by exact values, or by bounds of one side; what lies on different examples or sides is refused.

    An exact value counts for either side. With bounds from both sides, models are ranked by the lower ones.
    """
    found = list(evaluations)
    sets = {(e.split, e.binarisation) for e in found}
    if len(sets) > 1:
        told = "; ".join(f"{e.model}: {e.data}" for e in found)
        raise OptionError(f"rank: the figures are of different data and cannot be compared: {told}")
    for side in ("lower", "upper"):
        figures = [e.side(side) for e in found]
        if all(figures):
            return [e for _, e in sorted(zip(figures, found, strict=True), key=lambda pair: -pair[0].nats)]
    sides = ", ".join(f"{e.model} {'/'.join(sorted({f.side for f in e.likelihoods if f.side}))}" for e in found)
    raise OptionError(
        f"rank: a lower and an upper bound cannot be ranked, they may enclose the same likelihood ({sides}); take bounds of "
        "one side for all, or exact values"
    )


def split_hash(x: Tensor) -> str:
    """The first 16 hexadecimal digits of SHA-256 over type, sizes and bytes: the same examples in the same order."""
    array = x.detach().contiguous().numpy()
    digest = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    digest.update(memoryview(array).cast("B"))
    return digest.hexdigest()[:16]


class _Asked:
    """A model and examples, made ready for it, and the figures that come of them."""

    def __init__(
        self,
        model: GenerativeModel,
        x: Tensor,
        transform: Any,
        levels: int | None,
        seeds: tuple[int, ...],
        options: dict,
    ) -> None:
        self.model, self.x, self.transform, self.levels = model, x, transform, levels
        self.seeds, self.options = seeds, options
        self.size = math.prod(x.shape[1:])

    def all(self, samples: Sequence[int]) -> Iterable[Likelihood]:
        promises = self.model.promises
        if "log_prob" in promises:
            yield self.figure("log_prob", promises["log_prob"], None, self.exact)
        if "elbo" in promises:
            yield self.figure("elbo", promises["elbo"], "lower", self.elbo)
        if "log_prob_bound" in promises:
            takes = inspect.signature(self.model.log_prob_bound).parameters
            for extra in [{"samples": k} for k in samples] if "samples" in takes else [{}]:
                for side in ("lower", "upper") if "side" in takes else (None,):
                    yield self.bounded(promises["log_prob_bound"], side, extra)

    def exact(self, y: Tensor, generator: Any) -> Bound:
        value = weft.cat([self.model.log_prob(part) for part in y.split(BATCH)])
        return Bound(value, "", weft.zeros(1))

    def elbo(self, y: Tensor, generator: Any) -> Bound:
        options = {"generator": generator} if "generator" in inspect.signature(self.model.elbo).parameters else {}
        return Bound(weft.cat([self.model.elbo(part, **options) for part in y.split(BATCH)]), "lower", weft.zeros(1))

    def bounded(self, kind: str, side: str | None, extra: dict[str, int]) -> Likelihood:
        options = self.options | extra | ({} if side is None else {"side": side})
        ask = lambda y, generator: self.model.log_prob_bound(y, generator=generator, **options)
        method = "log_prob_bound" + "".join(f", {name} = {value}" for name, value in extra.items())
        return self.figure(method, kind, side, ask)

    def figure(self, method: str, kind: str, side: str | None, ask: Any) -> Likelihood:
        """The mean over examples and seeds, and its error; exact values without noise need one seed."""
        started, drawn = time.perf_counter(), bool(self.levels) or method != "log_prob"
        rows, errors = [], []
        for seed in self.seeds if drawn else self.seeds[:1]:
            generator = weft.Generator().manual_seed(seed)
            y, volume = self.prepared(generator)
            found = ask(y, generator)
            side = found.side or side
            rows.append((found.value + volume).double())
            errors.append(found.error.double().mean().item())
        if self.levels:  # Jensen: the mean of log p over the noise is not above log P
            side, kind = self._only_lower(side), "bound"
        return self._likelihood(method, kind, side, rows, errors, time.perf_counter() - started)

    def _only_lower(self, side: str | None) -> str:
        if side == "upper":
            raise OptionError(
                "evaluate: an upper bound of log p(x + u) is none of log P(x): with levels ask models for lower bounds"
            )
        return "lower"

    def prepared(self, generator: Any) -> tuple[Tensor, Tensor]:
        """What the model sees, and log|det dy/dx| of each example: (N, *event), (N,)"""
        x = self.x if self.levels is None else self.x + weft.rand(self.x.shape, generator=generator, dtype=self.x.dtype)
        if self.transform is None:
            return x, weft.zeros(len(x), dtype=x.dtype)
        y = self.transform(x)
        volume = self.transform.log_abs_det_jacobian(x, y)
        return y, volume.reshape(len(x), -1).sum(1)

    def _likelihood(
        self, method: str, kind: str, side: str | None, rows: list[Tensor], errors: list[float], seconds: float
    ) -> Likelihood:
        by_seed = tuple(row.mean().item() for row in rows)
        each = weft.stack(rows).mean(0)  # (N,)
        nats, count = each.mean().item(), len(rows)
        between = math.sqrt(sum((value - nats) ** 2 for value in by_seed) / (count - 1) / count) if count > 1 else 0.0
        drawn = max(between, math.sqrt(sum(error**2 for error in errors)) / count)  # the worse of both accounts
        examples = each.std().item() / math.sqrt(len(each)) if len(each) > 1 else 0.0
        error = math.hypot(examples, drawn)
        bits = -nats / (self.size * math.log(2))
        return Likelihood(method, kind, side, nats, error, drawn, bits, by_seed, seconds)


def _examples(data: Any) -> Tensor:
    """(N, *event) of a tensor, a loader or a set: its first tensors, in order."""
    if isinstance(data, Tensor):
        x = data
    elif hasattr(data, "tensors"):
        x = data.tensors[0]
    elif hasattr(data, "dataset"):
        return _examples(data.dataset)
    else:
        rows = (
            data.gather(range(len(data)))
            if hasattr(data, "gather")
            else weft.stack([data[i] for i in range(len(data))])
        )
        x = rows[0] if isinstance(rows, tuple | list) else rows
    if x.ndim < 2 or not len(x):
        raise ShapeError(f"evaluate: expected examples (N, *event), got {tuple(x.shape)}")
    return x


def _named(x: Tensor, binarisation: str | None) -> str | None:
    if binarisation is not None and binarisation not in BINARISATIONS:
        raise OptionError(f"evaluate: binarisation is one of {', '.join(BINARISATIONS)}, got {binarisation!r}")
    if binarisation is None and ((x == 0) | (x == 1)).all().item():
        raise OptionError(
            "evaluate: the examples are bits; say how they came about, binarisation='fixed', 'dynamic', 'threshold' or "
            "'native': likelihoods on these are of different data"
        )
    return binarisation


def _described(transform: Transform | None, levels: int | None) -> str:
    steps = [f"dequantised ({levels} levels)"] if levels else []
    steps += [f"{type(transform).__name__} with its log-determinant"] if transform is not None else []
    return ", ".join(steps) or "as they are"
