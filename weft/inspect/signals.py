"""What flows through a network in training: activations forward, gradients backward, updates of weights (N2 §3.6).

A unit is saturated for an input where its slope φ' is close to 0, dead where it is 0 for every input.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ..autograd import enable_grad, grad
from ..errors import OptionError, ShapeError
from ..nn.module import Module
from ..tensor import Tensor
from .drawing import COLOURS, Picture, array_of, blank
from .flops import ACTIVATIONS
from .observe import Call, evaluating, is_layer, listening

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    *("ActivationStatistics", "GradientFlow", "LayerActivations", "LayerGradient", "UpdateWatch"),
    *("activation_statistics", "gradient_flow"),
]

FLAT = 0.01  # a slope below this is saturated: tanh from |v| = 3.0, the logistic from 4.6 (N2 §3.6 says 3 and 5)


# ------------------------------------------------------------------------------------ forward


@dataclasses.dataclass(frozen=True)
class LayerActivations:
    """What came out of one activation layer over a batch.

    zero: share of outputs that are 0; saturated: share of (input, unit) pairs with |φ'| < 0.01; dead: numbers of the
    units whose slope is 0 for every input; histogram: counts and edges of the outputs
    """

    name: str
    kind: str
    units: int
    mean: float
    std: float
    zero: float
    saturated: float
    dead: tuple[int, ...]
    histogram: tuple[NDArray, NDArray]


@dataclasses.dataclass(frozen=True)
class ActivationStatistics(Picture):
    """One row for each call of an activation layer, in order."""

    layers: list[LayerActivations]

    @property
    def dead(self) -> int:
        return sum(len(layer.dead) for layer in self.layers)

    def __str__(self) -> str:
        return "\n".join(
            f"{r.name} {r.kind}: mean {r.mean:+.3f}, std {r.std:.3f}, {r.zero:.0%} zero, {r.saturated:.0%} saturated, "
            f"{len(r.dead)} of {r.units} dead"
            for r in self.layers
        )

    def figure(self) -> Figure:
        """Histograms of the outputs, one panel a layer."""
        across = min(4, max(len(self.layers), 1))
        figure, axes = blank(-(-len(self.layers) // across) or 1, across, 2.9, 2.5)
        for axis in axes.flat[len(self.layers) :]:
            axis.axis("off")
        for axis, layer in zip(axes.flat, self.layers, strict=False):
            counts, edges = layer.histogram
            axis.stairs(counts / max(counts.sum(), 1), edges, fill=True, color=COLOURS[0])
            axis.set_title(f"{layer.name} · {layer.kind}", fontsize=9)
            axis.set_xlabel(f"{layer.saturated:.0%} saturated, {len(layer.dead)}/{layer.units} dead", fontsize=8)
            axis.set_yscale("log")
            axis.tick_params(labelsize=7)
        return figure


def activation_statistics(model: Module, *inputs: Any) -> ActivationStatistics:
    """Mean, spread, zeros, saturation and dead units of every activation module over a batch, in evaluation mode.

    A unit is a channel of (N, C, H, W) maps, a feature of (N, F) and (N, T, F) outputs.

    >>> print(activation_statistics(model, images))
    hidden.0.activation ReLU: mean +0.412, std 0.601, 48% zero, 48% saturated, 3 of 128 dead
    """
    rows: list[LayerActivations] = []
    with evaluating(model), weft.no_grad(), listening(model, lambda c: rows.append(_statistics(c)), _is_activation):
        model(*inputs)
    if not rows:
        raise OptionError("activation_statistics: the model called no activation module (nn.ReLU, nn.Tanh …)")
    return ActivationStatistics(rows)


def _is_activation(module: Module) -> bool:
    return isinstance(module, ACTIVATIONS) and is_layer(module)


def _statistics(call: Call) -> LayerActivations:
    y, slope = array_of(call.output), _slopes(call)
    axis = 1 if y.ndim in (2, 4, 5) else y.ndim - 1
    others = tuple(i for i in range(y.ndim) if i != axis)
    dead = np.flatnonzero((slope == 0).all(others)) if slope.size else np.array([], int)
    share = lambda flags: float(flags.mean()) if flags.size else 0.0
    finite = y[np.isfinite(y)].astype(np.float64)
    return LayerActivations(
        call.name, type(call.module).__name__, y.shape[axis], float(finite.mean()) if finite.size else float("nan"),
        float(finite.std()) if finite.size else float("nan"), share(y == 0), share(np.abs(slope) < FLAT),
        tuple(dead.tolist()), np.histogram(finite, bins=40),
    )  # fmt: skip


def _slopes(call: Call) -> NDArray:
    """φ'(v) of every unit; for layers that mix their inputs (softmax) the gradient of a sum says nothing: ones."""
    if call.input.shape != call.output.shape or type(call.module).__name__ in ("Softmax", "LogSoftmax", "Softmax2d"):
        return np.ones(call.output.shape)
    with enable_grad():
        v = call.input.detach().clone().requires_grad_()
        return grad(call.module.forward(v * 1).sum(), v)[0].array  # a copy, in case the layer writes in place


# ------------------------------------------------------------------------------------ backward


@dataclasses.dataclass(frozen=True)
class LayerGradient:
    """Root mean squares: of a parameter, of its gradient, and of the gradient at the output of its layer."""

    name: str
    weight: float
    gradient: float
    signal: float

    @property
    def ratio(self) -> float:
        return self.gradient / self.weight if self.weight else float("inf")


@dataclasses.dataclass(frozen=True)
class GradientFlow(Picture):
    """One row for each parameter, in the order of the model."""

    loss: float
    layers: list[LayerGradient]

    @property
    def decay(self) -> float:
        """Gradient of the first weight over that of the last: much below 1 it vanishes, much above it explodes."""
        return self.layers[0].gradient / self.layers[-1].gradient if self.layers[-1].gradient else float("nan")

    def figure(self) -> Figure:
        """Gradients of weights and of their layers' outputs on their way back, on a logarithmic scale."""
        shown = [row for row in self.layers if row.name.endswith("weight")] or self.layers
        figure, axes = blank(width=max(5.0, 0.35 * len(shown)))
        axis, places, tiny = axes[0, 0], range(len(shown)), np.finfo(np.float64).tiny
        axis.plot(places, [max(r.gradient, tiny) for r in shown], "o-", color=COLOURS[0], label="of weights")
        axis.plot(places, [max(r.signal, tiny) for r in shown], "s--", color=COLOURS[1], label="at outputs")
        axis.set_xticks(places, [r.name.removesuffix(".weight") for r in shown], rotation=45, ha="right", fontsize=8)
        axis.set(yscale="log", ylabel="root mean square", title=f"gradients layer by layer (loss {self.loss:.3g})")
        axis.legend()
        return figure


def gradient_flow(model: Module, loss: Callable[[Any], Tensor], *inputs: Any) -> GradientFlow:
    """Sizes of the gradients of loss(model(*inputs)), in the mode the model is in.

    Neither `.grad` nor buffers (running means) are changed.

    >>> gradient_flow(model, lambda y: F.cross_entropy(y, labels), images).figure()
    """
    heard: dict[str, Tensor] = {}
    holds = lambda module: next(iter(module.parameters(recurse=False)), None) is not None
    with _buffers_kept(model), enable_grad(), listening(model, lambda c: heard.update({c.name: c.output}), holds):
        value = loss(model(*inputs))
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ShapeError(f"gradient_flow: expected loss to give one number, got {getattr(value, 'shape', value)!r}")
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        found = grad(value, [p for _, p in named] + list(heard.values()), allow_unused=True)
    signals = dict(zip(heard, map(_rms, found[len(named) :]), strict=True))
    rows = [
        LayerGradient(name, _rms(p), _rms(g), signals.get(name.rpartition(".")[0], 0.0))
        for (name, p), g in zip(named, found, strict=False)
    ]
    return GradientFlow(float(value), rows)


@contextlib.contextmanager
def _buffers_kept(model: Module) -> Iterator[None]:
    kept = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with weft.no_grad():
            for buffer, old in kept:
                buffer.copy_(old)


def _rms(x: Tensor | None) -> float:
    return 0.0 if x is None or x.numel() == 0 else float(np.sqrt((array_of(x).astype(np.float64) ** 2).mean()))


# ------------------------------------------------------------------------------------ updates


class UpdateWatch(Picture):
    """‖Δw‖ / ‖w‖ of every weight, step by step; about 10⁻³ is usual, much less learns slowly, much more is unstable.

    >>> watch = UpdateWatch(model)
    >>> for x, y in loader:
    ...     ...; optimizer.step(); watch.step()
    >>> watch.ratios["output.weight"]
    [0.0031, 0.0028, …]
    """

    def __init__(self, model: Module) -> None:
        self.model = model
        self.ratios: dict[str, list[float]] = {name: [] for name, p in model.named_parameters() if p.ndim > 1}
        self._last = self._weights()

    def step(self) -> dict[str, float]:
        """Note what changed since the last call; the ratios of this step."""
        now = self._weights()
        for name, weight in now.items():
            size = float(np.linalg.norm(self._last[name]))
            moved = float(np.linalg.norm(weight - self._last[name]))
            self.ratios[name].append(moved / size if size else float("inf") if moved else 0.0)
        self._last = now
        return {name: values[-1] for name, values in self.ratios.items()}

    def _weights(self) -> dict[str, NDArray]:
        return {n: array_of(p).copy() for n, p in self.model.named_parameters() if n in self.ratios}

    def figure(self) -> Figure:
        figure, axes = blank(width=6.0)
        axis = axes[0, 0]
        for i, (name, values) in enumerate(self.ratios.items()):
            axis.plot(range(1, len(values) + 1), values, color=COLOURS[i % len(COLOURS)], lw=1.2, label=name)
        axis.axhline(1e-3, color="grey", ls=":", lw=1)
        axis.set(yscale="log", xlabel="step", ylabel="‖Δw‖ / ‖w‖", title="size of updates")
        axis.legend(fontsize=7)
        return figure
