"""Lipschitz bounds and linear regions of networks that are no chains: residual, branching, densely connected.

Any network is a graph v_k = g_k(v_0, …, v_{k−1}) (N1 §1.5, eqs. 59–67). By the chain rule ∂v_k/∂x = Σ_i ∂g_k/∂v_i ∂v_i/∂x, so
L_k ≤ Σ_i ‖∂g_k/∂v_i‖ L_i: bounds travel along the tape as gradients do. Along a line a rectifier network is affine until
the next unit changes side, whatever the graph.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

from ...autograd.function import Function
from ...errors import OptionError
from ...func import jvp
from ...nn.module import Module
from ...tape.modes import switches
from ...tape.node import Node
from ...tape.tape import collect, edge_of
from ...tensor import Tensor, wrap
from ..drawing import array_of
from ..observe import Call, is_layer, listening
from .bounds import region_bounds
from .regions import RECTIFIERS, LineRegions
from .stretch import DENSE, jacobian_norms, layer_norm_bound

__all__ = ["GraphBound", "GraphLipschitz", "graph_line_regions", "graph_lipschitz"]

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class GraphBound:
    """One step of the graph: Lip(v_k) ≤ bound, with respect to the input of the whole network."""

    kind: str
    bound: float


@dataclasses.dataclass(frozen=True)
class GraphLipschitz:
    """lower ≤ Lip(f) ≤ upper: from the steps of the graph, and from the Jacobian at data (N,)."""

    steps: list[GraphBound]
    jacobian_norms: Array

    @property
    def upper(self) -> float:
        return self.steps[-1].bound if self.steps else 0.0

    @property
    def lower(self) -> float:
        return float(self.jacobian_norms.max(initial=0.0))


def graph_lipschitz(model: Module, x: Tensor) -> GraphLipschitz:
    """Bounds of the Lipschitz constant of any network, in the Euclidean norm; x is data (N, …).

    What modules do counts as in `lipschitz`; what happens between them is read off the tape:

        v + w                    L_v + L_w
        [v ‖ w]                  √(L_v² + L_w²), as max(v, w)
        c · v, A v               max |c| · L_v,  ‖A‖ · L_v
        relu, tanh, sigmoid …    the steepest slope · L_v

    so a residual block x + f(x) has 1 + Lip(f). Products of two things that depend on x, and layers that divide by
    something of the data, have no bound: an OptionError names them.

    >>> block = nn.Residual(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    >>> found = graph_lipschitz(block, weft.randn(8, 3))
    >>> bound = 1 + weft.linalg.matrix_norm(block.function[0].weight, 2).item()
    >>> abs(found.upper - bound) < 1e-6, found.lower <= found.upper
    (True, True)
    """
    model = copy.deepcopy(model).double().eval().requires_grad_(False)
    x = x.detach().double()
    one = (x[:1] if len(x) else x.new_zeros((1, *x.shape[1:]))).clone().requires_grad_()
    shapes: dict[int, Any] = {id(one): one}
    with listening(model, _Marking(), is_layer), _noting(shapes):
        y = model(one)
    found = {id(one): 1.0}
    steps = []
    for node in collect([edge_of(y)]) if y.requires_grad else ():
        found[id(node)] = _bound(node, found, shapes)
        known = node.index is None and node.op.title == _Known.__name__
        steps.append(GraphBound(node.saved.kind if known else node.op.title, found[id(node)]))
    return GraphLipschitz(steps, jacobian_norms(model, x))


class _Known(Function):
    """A layer whose norm is known, as one node of the tape."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, made: Tensor, norm: float, kind: str) -> Tensor:
        ctx.norm, ctx.kind, ctx.shape = norm, kind, tuple(made.shape)
        return made.clone()


class _Marking:
    """Told of a call, puts a node of its own in the place of a layer whose norm is known."""

    busy = False

    def __call__(self, call: Call) -> Tensor | None:
        if self.busy:  # the layer is run to find its norm
            return None
        self.busy = True
        try:
            norm = layer_norm_bound(call)
        except OptionError:
            return None  # perhaps its operations are known
        finally:
            self.busy = False
        return _Known.apply(call.input, call.output.detach(), norm, type(call.module).__name__)


class _noting:
    """Within it, the output of every node is kept by the node's identity, and the nodes alive with it."""

    def __init__(self, outs: dict[int, Any]) -> None:
        self.outs, self.nodes = outs, []

    def __enter__(self) -> None:
        self.before, switches.noting = switches.noting, self.note
        switches.renew()

    def __exit__(self, *_: object) -> None:
        switches.noting = self.before
        switches.renew()

    def note(self, node: Node, out: Any) -> None:
        self.nodes.append(node)
        self.outs[id(node)] = out


SLOPES = {  # the steepest slope of each operation
    "Relu": 1.0, "Tanh": 1.0, "Sigmoid": 0.25, "Abs": 1.0, "Sin": 1.0, "Cos": 1.0, "Atan": 1.0, "Neg": 1.0,
    "Asinh": 1.0, "Erf": 2 / math.sqrt(math.pi), "Softmax": 0.5, "Amax": 1.0, "Amin": 1.0, "Split": 1.0, "Unbind": 1.0,
    "Clone": 1.0,
}  # fmt: skip


def _bound(node: Node, found: dict[int, float], outs: dict[int, Any]) -> float:
    """Lip(v_k) from the bounds of what the node is given."""
    title = node.op.title
    moved = [(k, edge) for k, edge in enumerate(node.edges) if edge is not None]
    bounds = [found[id(edge)] for _, edge in moved]
    if node.index is not None:  # one of several results, which together have the bound
        return bounds[0]
    if title == _Known.__name__:
        return node.saved.norm * bounds[0]
    if title in SLOPES:
        return SLOPES[title] * bounds[0]
    if title in ("Add", "Sub", "Maximum", "Minimum"):
        wide = [b * _stretched(edge, node, outs) for b, (_, edge) in zip(bounds, moved, strict=True)]
        return sum(wide) if title in ("Add", "Sub") else math.hypot(*wide)
    if title == "Cat":
        return math.hypot(*bounds)
    if title in ("Mul", "Div") and len(moved) == 1 and (title, moved[0][0]) != ("Div", 1):
        edge, other = moved[0][1], node.saved[1 - moved[0][0]]
        size = np.abs(np.asarray(array_of(other) if isinstance(other, Tensor) else other, np.float64))
        factor = size.max(initial=0.0) if title == "Mul" else 1 / size.min(initial=np.inf)
        return float(factor) * bounds[0] * _stretched(edge, node, outs)
    if _is_linear(node, [k for k, _ in moved]):
        norms = [_operator_norm(node, k, _shape(edge, outs), outs[id(node)]) for k, edge in moved]
        return sum(norm * b for norm, b in zip(norms, bounds, strict=True))
    raise OptionError(
        f"graph_lipschitz: no bound is known for the operation {title}; products of two parts that depend on the input, and "
        "divisions by something of the data, have none"
    )


def _is_linear(node: Node, moved: list[int]) -> bool:
    linear, multilinear = getattr(node.op, "linear", ()), getattr(node.op, "multilinear", ())
    return all(k in linear for k in moved) if linear else len(moved) == 1 and moved[0] in multilinear


def _shape(edge: Any, outs: dict[int, Any]) -> tuple[int, ...]:
    if isinstance(edge, Node) and edge.index is not None:
        return tuple(outs[id(edge.edges[0])][edge.index].shape)
    if isinstance(edge, Node) and edge.op.title == _Known.__name__:
        return edge.saved.shape
    return tuple(outs[id(edge)].shape)


def _stretched(edge: Any, node: Node, outs: dict[int, Any]) -> float:
    """‖v‖ grows by this where v is repeated to the size of the output."""
    return math.sqrt(outs[id(node)].numel() / max(1, math.prod(_shape(edge, outs))))


def _operator_norm(node: Node, number: int, shape: tuple[int, ...], out: Tensor) -> float:
    """‖A‖ of a node that is linear in its input `number`: by its matrix, or by Lanczos on AᵀA where that is large."""
    size = math.prod(shape)
    if not size or not out.numel():
        return 0.0
    alone = [k == number for k in range(len(node.edges))]

    def push(v: Array) -> Array:
        tangents = [wrap(v.reshape(shape)) if use else None for use in alone]
        with weft.no_grad():
            return node.op.push(node, out.detach(), tangents).numpy().ravel()

    def pull(u: Array) -> Array:
        with weft.no_grad():
            return node.op.pull(node, wrap(u.reshape(out.shape)), alone)[number].numpy().ravel()

    if size <= DENSE:
        return float(np.linalg.norm(np.stack([push(v) for v in np.eye(size)], 1), 2))
    from scipy.sparse.linalg import LinearOperator, eigsh

    square = LinearOperator((size, size), lambda v: pull(push(v)), dtype=np.float64)
    start = np.random.default_rng(0).normal(size=size)
    return math.sqrt(max(0.0, eigsh(square, 1, v0=start, return_eigenvectors=False)[0]))


# ------------------------------------------------------------------------------ regions along a line

GAP = 1e-9  # relative distance behind a joint at which the next piece is looked at


def graph_line_regions(
    model: Module, start: Any = None, direction: Any = None, low: float = -1.0, high: float = 1.0
) -> LineRegions:
    """The linear regions along x = start + t · direction, low < t < high, of a rectifier network with any graph.

    From one joint to the next: on a piece every unit is affine in t, so its value and slope at one point (one run in
    forward mode) tell where it is zero, and the first of these zeros is the next joint. Rectifiers must be modules (ReLU,
    LeakyReLU, PReLU); all else must be affine, which is checked on every piece.

    >>> block = nn.Sequential(nn.Linear(1, 4), nn.Residual(nn.Sequential(nn.ReLU(), nn.Linear(4, 4))))
    >>> 1 <= graph_line_regions(block, low=-9.0, high=9.0).count <= 5
    True
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise OptionError(f"graph_line_regions: expected finite low < high, got {low} and {high}")
    model = copy.deepcopy(model).double().eval().requires_grad_(False)
    start = wrap((np.zeros(1) if start is None else array_of(start)).astype(np.float64))
    direction = wrap(np.ones(start.shape) if direction is None else array_of(direction).astype(np.float64))
    look = lambda t: _looked(model, start, direction, t)
    edges, pieces, widths = [low], [], []
    while edges[-1] < high:
        at = edges[-1] + GAP * (1 + abs(edges[-1]))
        y, slope, units, slopes, widths = look(at)
        with np.errstate(divide="ignore", invalid="ignore"):
            zeros = at - units / slopes
        following = zeros[(zeros > at) & np.isfinite(zeros)].min(initial=high)
        edges.append(min(float(following), high))
        pieces.append((slope, y - at * slope, units > 0))
        _check_affine(look, y, slope, at, edges[-1])
    columns = [np.stack(column) for column in zip(*pieces, strict=True)]
    return LineRegions(np.array(edges), *columns, region_bounds(1, widths))


def _looked(model: Module, start: Tensor, direction: Tensor, t: float) -> tuple[Array, Array, Array, Array, list[int]]:
    """The outputs and their slopes at t, all units before their rectifiers and their slopes, and the layers' widths."""

    def run(t: Tensor) -> tuple[Tensor, ...]:
        heard: list[Tensor] = []
        rectifiers = tuple(kind for kind, _ in RECTIFIERS)
        with listening(model, lambda call: heard.append(call.input), lambda m: isinstance(m, rectifiers)):
            y = model((start + t * direction).unsqueeze(0))
        return (y, *heard)

    with weft.no_grad():
        values, slopes = jvp(run, (wrap(np.array(t)),), (wrap(np.ones(())),))
    flat = [[x.numpy().ravel() for x in part] for part in (values, slopes)]
    units = [np.concatenate(part[1:]) if len(part) > 1 else np.zeros(0) for part in flat]
    return flat[0][0], flat[1][0], *units, [len(x) for x in flat[0][1:]]


def _check_affine(look: Callable, y: Array, slope: Array, at: float, end: float) -> None:
    """Refuse what is curved inside a piece: it would be a joint or a bend that no rectifier tells of."""
    middle = (at + end) / 2
    expected, size = y + (middle - at) * slope, 1 + np.abs(y).max(initial=0.0) + np.abs(slope).max(initial=0.0)
    if np.abs(look(middle)[0] - expected).max(initial=0.0) > 1e-6 * size:
        raise OptionError(
            f"graph_line_regions: between t = {at:.6g} and {end:.6g} the model is not affine, though no rectifier changes "
            "side there; expected a network of affine parts and modules ReLU, LeakyReLU, PReLU"
        )
