"""How far a network can stretch distances: Lipschitz constants from above and from below (N1 §1.5).

‖f(x) − f(y)‖ ≤ L ‖x − y‖. From above: the product of the norms of the layers (thm. 1.4). From below: the largest
operator norm of the Jacobian over data, since Lip(f) is its supremum over all inputs (thm. 1.3).
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import weft

from ... import nn
from ...errors import OptionError
from ...func import linearize, vjp
from ...nn.module import Module
from ...tensor import Tensor, wrap
from ..drawing import COLOURS, Picture, array_of, blank
from ..flops import sizes
from ..observe import Call, chain, evaluating

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    *("LayerNormBound", "Lipschitz", "PowerIteration", "jacobian_norms", "jacobian_norms_by_power", "jacobians"),
    *("lipschitz", "power_iteration"),
]

Array = NDArray[np.float64]
SLOPES: dict[type, float | Callable[[Any], float]] = {  # the steepest slope of each activation
    nn.Identity: 1.0, nn.ReLU: 1.0, nn.Tanh: 1.0, nn.Hardtanh: 1.0, nn.Softsign: 1.0, nn.Arctan: 1.0,
    nn.Softplus: 1.0, nn.LogSigmoid: 1.0, nn.ReLU6: 1.0, nn.Sigmoid: 0.25, nn.Flatten: 1.0, nn.Unflatten: 1.0,
    nn.Dropout: 1.0, nn.Dropout1d: 1.0, nn.Dropout2d: 1.0, nn.Dropout3d: 1.0,
    nn.SELU: 1.0507009873554805 * 1.6732632423543772,
    nn.GELU: 1.1290,  # Φ(√2) + √2 φ(√2), rounded up; also for the approximation by tanh
    nn.SiLU: 1.0999, nn.Mish: 1.0886, nn.Softmax: 0.5,
    nn.LeakyReLU: lambda m: max(1.0, abs(m.negative_slope)),
    nn.PReLU: lambda m: max(1.0, float(np.abs(array_of(m.weight)).max())),
    nn.ELU: lambda m: max(1.0, abs(m.alpha)),
}  # fmt: skip
DENSE = 256  # inputs up to which the matrix of an affine layer is written down
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
OPERATORS = (
    *(
        nn.Conv1d,
        nn.Conv2d,
        nn.Conv3d,
        nn.ConvTranspose1d,
        nn.ConvTranspose2d,
        nn.AvgPool1d,
        nn.AvgPool2d,
        nn.AvgPool3d,
    ),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
)


@dataclasses.dataclass(frozen=True)
class LayerNormBound:
    """‖layer‖ ≤ norm: an operator norm for affine layers, the steepest slope for activations."""

    name: str
    kind: str
    norm: float


@dataclasses.dataclass(frozen=True)
class Lipschitz(Picture):
    """lower ≤ Lip(f) ≤ upper: the norms of the layers, and those of the Jacobian at data (N,)."""

    layers: list[LayerNormBound]
    jacobian_norms: Array

    @property
    def upper(self) -> float:
        return math.prod(layer.norm for layer in self.layers)

    @property
    def lower(self) -> float:
        return float(self.jacobian_norms.max(initial=0.0))

    def figure(self) -> Figure:
        """Norms of the layers; how the Jacobian's norms are distributed, up to the bound."""
        figure, axes = blank(1, 2, 4.2, 3.2)
        left, right = axes[0]
        shown = [layer for layer in self.layers if layer.norm != 1.0]
        bars = left.barh([f"{s.name} · {s.kind}" for s in shown], [s.norm for s in shown], color=COLOURS[0])
        left.bar_label(bars, fmt=" %.3g", fontsize=8)
        left.invert_yaxis()
        left.margins(x=0.2)
        left.set(title="norms of the layers (others are 1)", xlabel="norm")
        smallest = max(float(self.jacobian_norms.min(initial=self.upper)), 1e-6 * self.upper, 1e-300)
        right.hist(
            self.jacobian_norms, bins=np.geomspace(smallest, max(self.upper, 2 * smallest), 30), color=COLOURS[2]
        )
        right.axvline(self.upper, color=COLOURS[1], lw=2, label=f"product {self.upper:.3g}")
        right.axvline(self.lower, color="black", ls="--", lw=1.2, label=f"largest seen {self.lower:.3g}")
        right.set(title="norm of the Jacobian at data", xlabel="norm", ylabel="inputs", xscale="log")
        right.margins(y=0.45)  # room for the legend
        right.legend(fontsize=8, loc="upper left")
        return figure


def lipschitz(model: Module, x: Tensor) -> Lipschitz:
    """Bounds of the Lipschitz constant of a chain of layers, in the Euclidean norm; x is data (N, …).

    >>> found = lipschitz(MLP(64, [32], 10), images)
    >>> found.lower <= found.upper
    True
    """
    model = copy.deepcopy(model).double().eval()
    x = x.detach().double()
    found = chain(model, x, "lipschitz")
    layers = [LayerNormBound(call.name, type(call.module).__name__, layer_norm_bound(call)) for call in found]
    return Lipschitz(layers, jacobian_norms(model, x))


def layer_norm_bound(call: Call) -> float:
    """The norm of one layer, or its steepest slope; an OptionError where there is none."""
    module = call.module
    if isinstance(module, nn.Linear):
        return float(np.linalg.norm(array_of(module.weight), 2))
    if isinstance(module, NORMS) and module.running_var is not None:
        scale = 1.0 if module.weight is None else array_of(module.weight)
        return float(np.abs(scale / np.sqrt(array_of(module.running_var) + module.eps)).max())
    if isinstance(module, OPERATORS):
        return _operator_norm(module, (1, *call.input.shape[1:]))
    if isinstance(module, POOLS):
        axes = int(type(module).__name__[-2])
        kernel, stride = sizes(module.kernel_size, axes), sizes(module.stride or module.kernel_size, axes)
        if any(d > 1 for d in sizes(module.dilation, axes)):
            stride = (1,) * axes
        return math.sqrt(
            math.prod(-(-k // s) for k, s in zip(kernel, stride, strict=True))
        )  # windows that share a cell
    slope = next((slope for kind, slope in SLOPES.items() if isinstance(module, kind)), None)
    if slope is None:
        raise OptionError(
            f"lipschitz: no bound is known for {type(module).__name__} (layer {call.name}); layers that divide by "
            f"something of the data, such as LayerNorm, have none"
        )
    return float(slope(module) if callable(slope) else slope)


def _operator_norm(module: Module, shape: tuple[int, ...]) -> float:
    """The norm of an affine layer on one input of this shape: by its matrix, or by Lanczos on AᵀA where that is large.

    Power iteration would stop too low where the two largest singular values are close, as those of convolutions are.
    """
    size = math.prod(shape)
    if size <= DENSE:
        basis = weft.eye(size, dtype=weft.float64).reshape(size, *shape[1:])  # (n, n) → (n, *shape)
        with weft.no_grad():
            matrix = (module(basis) - module(basis * 0)).array.reshape(size, -1)
        return float(np.linalg.norm(matrix, 2))
    from scipy.sparse.linalg import LinearOperator, eigsh

    zero = weft.zeros(shape, dtype=weft.float64)
    _, push = linearize(module, zero)
    _, pull = vjp(module, zero)
    square = LinearOperator(
        (size, size), lambda v: pull(push(wrap(v.reshape(shape))))[0].array.ravel(), dtype=np.float64
    )
    return math.sqrt(eigsh(square, 1, v0=np.random.default_rng(0).normal(size=size), return_eigenvectors=False)[0])


@dataclasses.dataclass(frozen=True)
class PowerIteration:
    """The largest singular value of a linear map and its right singular vector; how many steps it took."""

    norm: float
    vector: Array
    steps: int
    converged: bool


def power_iteration(
    push: Callable[[Array], Array],
    pull: Callable[[Array], Array],
    size: int,
    steps: int = 5000,
    tolerance: float = 1e-9,
    generator: weft.Generator | None = None,
) -> PowerIteration:
    """v ← AᵀA v / ‖AᵀA v‖ from a random start; ‖A v‖ grows to ‖A‖.

    push: v (size,) ↦ A v of any shape; pull: u of that shape ↦ Aᵀ u (size,). Stops when ‖AᵀA v − σ² v‖ ≤ tolerance · σ²:
    then σ² is that close to an eigenvalue of AᵀA, from below.
    """
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    v = generator.normal((size,), np.float64)
    v /= np.linalg.norm(v)
    for step in range(1, steps + 1):
        u = push(v)
        back, square = pull(u), float(np.vdot(u, u))
        size_of_back = float(np.linalg.norm(back))
        if square == 0 or np.linalg.norm(back - square * v) <= tolerance * square:
            return PowerIteration(math.sqrt(square), v, step, True)
        v = back / size_of_back
    return PowerIteration(float(np.linalg.norm(push(v))), v, steps, False)


def jacobians(model: Module, x: Tensor) -> Array:
    """∂f(xₙ)/∂xₙ for every input of a batch, one sweep back for each output: (N, outputs, inputs).

    The model is run in evaluation mode, where an output depends on its own input only.
    """
    with evaluating(model):
        y, pull = vjp(model, x.detach())
        N, outputs = len(x), y.numel() // max(len(x), 1)
        rows = []
        for i in range(outputs):
            seed = np.zeros((N, outputs), y.array.dtype)
            seed[:, i] = 1
            rows.append(pull(wrap(seed.reshape(y.shape)))[0].array.reshape(N, -1))  # (N, *shape) → (N, inputs)
    return np.stack(rows, 1).astype(np.float64)


def jacobian_norms(model: Module, x: Tensor) -> Array:
    """‖∂f/∂x‖ at every input, the largest singular value: (N,)."""
    return np.linalg.norm(jacobians(model, x), 2, axis=(1, 2))


def jacobian_norms_by_power(
    model: Module, x: Tensor, steps: int = 50, generator: weft.Generator | None = None
) -> Array:
    """The same by power iteration on all inputs at once, for models with many outputs: (N,), approached from below."""
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    axes, shape = tuple(range(1, x.ndim)), (-1, *(1,) * (x.ndim - 1))
    v = generator.normal(tuple(x.shape), x.array.dtype)
    with evaluating(model):
        _, push = linearize(model, x.detach())
        _, pull = vjp(model, x.detach())
        for _ in range(steps):
            v = v / np.maximum(np.sqrt((v * v).sum(axes)), 1e-300).reshape(shape)
            u = push(wrap(v))
            v = pull(u)[0].array
    return np.sqrt((u.array.astype(np.float64) ** 2).reshape(len(x), -1).sum(1))
