"""Receptive fields by formula and by gradient (N2 §6.4): what could influence an output, and what does."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import weft

from ..autograd import enable_grad, grad
from ..errors import OptionError, ShapeError
from ..nn.module import Module
from ..tensor import Tensor, wrap
from .drawing import COLOURS, Picture, array_of, blank
from .field import FieldTracer
from .observe import Call, listening, named_module

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ReceptiveField", "receptive_field"]

ROUNDING = 1e-13  # of the peak, in float64
SHARE = 1 - 0.9545  # of the peak: two standard deviations of a Gaussian (Luo et al. 2016)


@dataclasses.dataclass(frozen=True)
class ReceptiveField(Picture):
    """What one place of a feature map sees.

    theoretical: sizes along the axes by r' = r + (k − 1) d j (None where layers other than convolutions and pools mix
    places); gradient: mean |∂y/∂x| over inputs and channels, (H, W) or (L,); position: the place in the feature map
    """

    theoretical: tuple[int, ...] | None
    gradient: NDArray[np.float64]
    position: tuple[int, ...]

    @property
    def extent(self) -> tuple[int, ...]:
        """Sizes of the box outside of which every gradient is 0 (up to rounding, which fast convolutions spread)."""
        return tuple(stop - start for start, stop in self._box())

    def _box(self) -> list[tuple[int, int]]:
        touched = np.nonzero(self.gradient > ROUNDING * self.gradient.max(initial=0.0))
        return [(int(i.min()), int(i.max()) + 1) if i.size else (0, 0) for i in touched]

    @property
    def effective(self) -> float:
        """Side of the square (length of the interval) as large as where the gradient exceeds 4.55 % of its peak."""
        area = float((self.gradient > SHARE * self.gradient.max(initial=0.0)).sum())
        return area ** (1 / self.gradient.ndim)

    def figure(self) -> Figure:
        """The gradient as heat, with the box of what can be seen at all."""
        figure, axes = blank(width=4.2, height=3.8)
        axis, box = axes[0, 0], self._box()
        title = f"field {' × '.join(map(str, self.theoretical or self.extent))}, effective {self.effective:.1f}"
        if self.gradient.ndim == 1:
            axis.plot(self.gradient, color=COLOURS[0])
            axis.axvspan(box[0][0] - 0.5, box[0][1] - 0.5, color="grey", alpha=0.15)
            axis.set(xlabel="input", ylabel="mean |∂y/∂x|", title=title)
            return figure
        from matplotlib.patches import Rectangle

        shown = axis.imshow(self.gradient / max(self.gradient.max(), 1e-300), cmap="inferno", vmin=0)
        (top, bottom), (left, right) = box
        frame = Rectangle((left - 0.5, top - 0.5), right - left, bottom - top, fill=False, ec="white", ls="--", lw=1.2)
        axis.add_patch(frame)
        figure.colorbar(shown, ax=axis, shrink=0.85, label="mean |∂y/∂x|, relative")
        axis.set_title(title, fontsize=10)
        return figure


def receptive_field(
    model: Module,
    x: Tensor | Sequence[int],
    layer: str | Module | None = None,
    position: Sequence[int] | None = None,
    generator: weft.Generator | None = None,
) -> ReceptiveField:
    """The field of the middle of a layer's feature map (of the model's output unless named), or of another position.

    x: inputs (N, C, *sizes), or the size of a batch of normal noise; more inputs touch more of the field, since a
    rectifier or a maximum lets nothing through for some of them. A copy of the model is run, in float64.

    >>> receptive_field(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3)), (1, 1, 15, 15)).extent
    (5, 5)
    """
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    given = x.detach().double() if isinstance(x, Tensor) else wrap(generator.normal(tuple(x), np.float64))
    if given.ndim not in (3, 4):
        raise ShapeError(f"receptive_field: expected inputs (N, C, L) or (N, C, H, W), got {tuple(given.shape)}")
    part = model if layer is None else named_module(model, layer, "receptive_field")
    name = next(name for name, module in model.named_modules() if module is part)
    model = copy.deepcopy(model).double().eval()
    target = model.get_submodule(name)
    with enable_grad():
        given = given.clone().requires_grad_()
        y, size = _traced(model, given, target)
        place = _place(y, position)
        slope = grad(y[(slice(None), slice(None), *place)].abs().sum(), given)[0]
    return ReceptiveField(size, np.abs(array_of(slope)).mean((0, 1)), place)


def _traced(model: Module, x: Tensor, target: Module) -> tuple[Tensor, tuple[int, ...] | None]:
    """The output of one part of a model, and its field by the formula."""
    tracer, found = FieldTracer([x]), []

    def hear(call: Call) -> None:
        size = tracer.after(call.module, call.input, call.output)
        if call.module is target:
            found.append((call.output, size))

    with listening(model, hear, lambda module: True):
        model(x)
    if not found:
        raise OptionError("receptive_field: the layer was not called")
    return found[-1]


def _place(y: Tensor, position: Sequence[int] | None) -> tuple[int, ...]:
    if y.ndim < 3:
        raise ShapeError(f"receptive_field: expected a feature map (N, C, *sizes), the layer gave {tuple(y.shape)}")
    place = tuple(n // 2 for n in y.shape[2:]) if position is None else tuple(position)
    if len(place) != y.ndim - 2 or any(not 0 <= p < n for p, n in zip(place, y.shape[2:], strict=False)):
        raise OptionError(f"receptive_field: position {place} is not in a map of size {tuple(y.shape[2:])}")
    return place
