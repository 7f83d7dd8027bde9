"""What layers over a sequence cost, how much of that must wait, and how far a signal has to go (N2 §5.6.3), measured.

Four layers over n vectors of d numbers, reduced to what the table is about (no projections): the products they compute
are counted, the longest chain of operations is read off the tape, and paths are found from which outputs depend on
which inputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import weft

from ...errors import OptionError
from ...func import jacrev
from ...tape.modes import switches
from ...tape.node import Node
from ...tape.tape import collect, edge_of
from ...tensor import Tensor

__all__ = ["LayerCost", "ScoreScale", "dependence", "layer_costs", "path_length", "score_scales"]

Layer = Callable[[Tensor], Tensor]


@dataclasses.dataclass(frozen=True)
class LayerCost:
    """multiplications: those of the layer's products; sequential: the longest chain of operations that need each other's
    results; path: how many steps a signal takes from the first to the last place."""

    name: str
    multiplications: int
    sequential: int
    path: int


def layer_costs(length: int, features: int, kernel: int = 3, neighbourhood: int = 8) -> list[LayerCost]:
    """The table of N2 §5.6.3, measured: n = length, d = features, k = kernel, r = neighbourhood.

        self-attention                 n²·d products    O(1) in sequence    path 1
        recurrent                      n·d²             O(n)                n
        convolutional (dilated)        k·n·d²           O(1)                log_k n
        self-attention (restricted)    r·n·d            O(1)                n / r

    >>> for cost in layer_costs(16, 4): print(cost.name, cost.multiplications, cost.path)
    self-attention 2048 1
    recurrent 256 15
    convolutional 768 3
    self-attention (restricted) 1152 4
    """
    if min(length, features, kernel) < 2 or neighbourhood < 2:
        raise OptionError("layer_costs: length, features, kernel and neighbourhood must be at least 2")
    x = weft.Generator().manual_seed(0).normal((length, features), np.float64)
    x, half = weft.tensor(x), neighbourhood // 2
    mix = lambda count: weft.tensor(
        weft.Generator().manual_seed(count).normal((count * features, features), np.float64)
        / math.sqrt(count * features)
    )
    recur, convolve = mix(1), mix(kernel)
    state = lambda h: _shifted(h, 1) @ recur  # what one time hands to the next
    layers: dict[str, tuple[Layer, Callable[[int], Layer]]] = {
        "self-attention": (_attention, lambda _: _attention),
        "recurrent": (lambda x: _recurrent(x, recur), lambda _: lambda h: h + state(h)),
        "convolutional": (
            lambda x: _convolution(x, convolve, kernel, 1),
            lambda depth: lambda x: _convolution(x, convolve, kernel, kernel**depth),
        ),
        "self-attention (restricted)": (lambda x: _restricted(x, half), lambda _: lambda x: _restricted(x, half)),
    }
    return [LayerCost(name, *_counted(layer, x), _path(step, x)) for name, (layer, step) in layers.items()]


def dependence(function: Layer, x: Tensor) -> NDArray[np.bool_]:
    """D[i, j]: whether row i of f(x) depends on row j of x, that is ∂f_i/∂x_j ≠ 0 at this x: (T, T)."""
    jacobian = jacrev(function)(x.detach()).detach().numpy()  # (T, D', T, D)
    return (jacobian != 0).any((1, 3))


def path_length(steps: Sequence[NDArray[np.bool_]]) -> int | None:
    """How many of the steps, one after the other, connect the last place with the first; None if all do not."""
    reach = np.eye(len(steps[0]), dtype=bool) if len(steps) else np.zeros((1, 1), bool)
    for count, step in enumerate(steps, 1):
        reach = (step.astype(int) @ reach) > 0
        if reach[-1, 0]:
            return count
    return None


def _path(step: Callable[[int], Layer], x: Tensor) -> int:
    steps: list[NDArray[np.bool_]] = []
    while (found := path_length(steps)) is None if steps else True:
        steps.append(dependence(step(len(steps)), x))
    return found


# -------------------------------------------------------------------------------------- the layers


def _attention(x: Tensor) -> Tensor:
    return ((x @ x.mT) / math.sqrt(x.shape[-1])).softmax(-1) @ x


def _restricted(x: Tensor, half: int) -> Tensor:
    """Attention of every place to the `half` before and behind it, and to itself: windows of r + 1 rows."""
    features = x.shape[1]
    wide = weft.cat([x.new_zeros((half, features)), x, x.new_zeros((half, features))])
    windows = wide.unfold(0, 2 * half + 1, 1)  # (n, d, r + 1)
    scores = x.unsqueeze(1) @ windows / math.sqrt(features)  # (n, 1, r + 1)
    return (scores.softmax(-1) @ windows.mT).squeeze(1)


def _convolution(x: Tensor, weight: Tensor, kernel: int, dilation: int) -> Tensor:
    """A causal convolution: each place sees `kernel` places, `dilation` apart, up to itself."""
    seen = weft.cat([_shifted(x, k * dilation) for k in range(kernel)], 1)  # (n, k·d)
    return seen @ weight


def _recurrent(x: Tensor, weight: Tensor) -> Tensor:
    state, states = x[0] * 0, []
    for row in x:
        state = ((state.unsqueeze(0) @ weight).squeeze(0) + row).tanh()
        states.append(state)
    return weft.stack(states)


def _shifted(x: Tensor, by: int) -> Tensor:
    by = min(by, len(x))
    return weft.cat([x.new_zeros((by, x.shape[1])), x[: len(x) - by]])


# -------------------------------------------------------------------------------------- counting


def _counted(layer: Layer, x: Tensor) -> tuple[int, int]:
    """The multiplications of all products, and the longest chain of nodes between input and output."""
    products: list[int] = []

    def note(node: Node, out: Tensor) -> None:
        if node.op.title == "Matmul":
            left, right = node.saved
            products.append(out.numel() * (right.shape[-2] if right is not None else left.shape[-1]))

    before, switches.noting = switches.noting, note
    switches.renew()
    try:
        y = layer(x.detach().requires_grad_())
    finally:
        switches.noting = before
        switches.renew()
    return sum(products), _depth(edge_of(y))


def _depth(node: Node) -> int:
    depth: dict[int, int] = {}
    for one in collect([node]):  # earliest first
        depth[id(one)] = 1 + max((depth.get(id(edge), 0) for edge in one.edges), default=0)
    return depth[id(node)]


# ---------------------------------------------------------------------------- why scores are scaled


@dataclasses.dataclass(frozen=True)
class ScoreScale:
    """Scores q·k of random vectors with d numbers, plain and divided by √d.

    variance, largest, slope: pairs (plain, scaled) of the variance of the scores, the mean of the largest of the
    weights softmax gives to `keys` of them, and the mean size ‖diag p − ppᵀ‖_F of its slope.
    """

    features: int
    variance: tuple[float, float]
    largest: tuple[float, float]
    slope: tuple[float, float]


def score_scales(
    features: Sequence[int] = (4, 16, 64, 256),
    keys: int = 32,
    samples: int = 2000,
    generator: weft.Generator | None = None,
) -> list[ScoreScale]:
    """Why dot products are divided by √d (N4 §11): for independent q and k of unit variance Var(q·k) = d.

    Without the scale one key takes all the weight as d grows, and the slope of softmax goes to 0.

    >>> [found] = score_scales([64])
    >>> abs(found.variance[0] / 64 - 1) < 0.1, found.slope[1] > found.slope[0]
    (True, True)
    """
    generator = weft.Generator().manual_seed(0) if generator is None else generator
    return [_scale(d, keys, samples, generator) for d in features]


def _scale(d: int, keys: int, samples: int, generator: weft.Generator) -> ScoreScale:
    q, k = generator.normal((samples, d), np.float64), generator.normal((samples, keys, d), np.float64)
    plain = np.einsum("nd,nkd->nk", q, k)
    pairs = []
    for scores in (plain, plain / math.sqrt(d)):
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        squares = (p * p).sum(1)
        slope = np.sqrt(np.maximum(squares - 2 * (p**3).sum(1) + squares**2, 0))  # ‖diag p − ppᵀ‖_F
        pairs.append((float(scores.var()), float(p.max(1).mean()), float(slope.mean())))
    return ScoreScale(d, *zip(*pairs, strict=True))
