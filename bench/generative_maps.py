"""Flows of simple maps for bench/generative.py: NICE, RealNVP, residual, Sylvester; Weft's programs and PyTorch's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from generative_flows import _normal, _torch_trained, _trained

ROWS, PIXELS, WIDE = 100, 784, 500  # NICE: images in a batch, their pixels, units of a hidden layer
POINTS, UNITS = 500, 64  # the others: points of the plane, units
COUPLINGS, BLOCKS, DIRECTIONS, NUMBERS = 8, 4, 8, 16
BOUND = 0.9
Program = Callable[[], Any]


def _nice() -> Program:
    import weft
    from weft.models.flows import NICE

    flow, x = NICE(PIXELS, (WIDE, WIDE), 4), weft.rand(ROWS, PIXELS)
    return _trained(flow, lambda: flow.forward_kld(x))


def _realnvp() -> Program:
    import weft
    from weft.models.flows import RealNVP

    flow, x = RealNVP(2, (UNITS, UNITS), COUPLINGS), weft.randn(POINTS, 2)
    return _trained(flow, lambda: flow.forward_kld(x))


def _residual() -> Program:
    import weft
    from weft.models.flows import ResidualFlow

    flow, x = ResidualFlow(2, (UNITS, UNITS), BLOCKS, bound=BOUND), weft.randn(POINTS, 2)
    return _trained(flow, lambda: flow.forward_kld(x))


def _sylvester() -> Program:
    """From noise to points, as a posterior has it."""
    from weft.models.flows import Flow, Sylvester

    flow = Flow([Sylvester(NUMBERS, DIRECTIONS) for _ in range(4)], NUMBERS)
    return _trained(flow, lambda: flow.reverse_kld(lambda x: -(x**2).sum(1), POINTS))


OURS: dict[str, Callable[[], Program]] = {
    "nice step, 4 couplings of 784–500–500, 100 images": _nice,
    "realnvp step, 8 couplings, 500 points": _realnvp,
    "residual flow step, 4 blocks, exact determinant": _residual,
    "sylvester flow step, 4 maps of 8 directions": _sylvester,
}


# ------------------------------------------------------------------------------------------ PyTorch's


def _mlp(*sizes: int, activation: Any = None) -> Any:
    import torch

    layers: list[Any] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(inputs, outputs), (activation or torch.nn.ReLU)()]
    return torch.nn.Sequential(*layers[:-1])


def _torch_nice() -> Program:
    import torch

    half = PIXELS // 2
    nets = [_mlp(half, WIDE, WIDE, half) for _ in range(4)]
    scale, x = torch.nn.Parameter(torch.zeros(PIXELS)), torch.rand(ROWS, PIXELS)

    def loss() -> Any:
        z = x * torch.exp(-scale)
        even, odd = z[:, ::2], z[:, 1::2]
        for number, net in reversed(list(enumerate(nets))):
            if number % 2:
                even = even - net(odd)
            else:
                odd = odd - net(even)
        z = torch.stack([even, odd], 2).flatten(1)
        logistic = -(torch.nn.functional.softplus(z) + torch.nn.functional.softplus(-z)).sum(1)
        return -(logistic - scale.sum()).mean()

    return _torch_trained([scale, *(p for net in nets for p in net.parameters())], loss)


def _torch_realnvp() -> Program:
    import torch

    nets = [_mlp(1, UNITS, UNITS, 2) for _ in range(COUPLINGS)]
    shifts, scales = ([torch.nn.Parameter(torch.zeros(2)) for _ in range(COUPLINGS)] for _ in range(2))
    x = torch.randn(POINTS, 2)

    def loss() -> Any:
        z, total = x, 0
        for number in reversed(range(COUPLINGS)):
            z = (z - shifts[number]) * torch.exp(-scales[number])
            stay, go = (z[:, 1:], z[:, :1]) if number % 2 else (z[:, :1], z[:, 1:])
            t, s = nets[number](stay).chunk(2, 1)
            s = 3 * torch.tanh(s / 3)
            go = (go - t) * torch.exp(-s)
            z = torch.cat([go, stay] if number % 2 else [stay, go], 1)
            total = total - scales[number].sum() - s.sum(1)
        return -(_normal(z) + total).mean()

    return _torch_trained([*shifts, *scales, *(p for net in nets for p in net.parameters())], loss)


def _torch_residual() -> Program:
    """Power iteration twice a step, as spectral normalisation has it; slopes by two gradients."""
    import torch

    class Lipschitz(torch.nn.Linear):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__(inputs, outputs)
            self.register_buffer("direction", torch.nn.functional.normalize(torch.randn(inputs), dim=0))

        def settle(self) -> None:
            with torch.no_grad():
                v = self.direction
                for _ in range(2):
                    v = torch.nn.functional.normalize(self.weight.mT @ (self.weight @ v), dim=0)
                self.direction = v

        def forward(self, x: Any) -> Any:
            size = (self.weight @ self.direction).norm()
            return torch.nn.functional.linear(x, self.weight * (BOUND / size.clamp(min=BOUND)), self.bias)

    class LipSwish(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.silu(x) / 1.1

    def net() -> Any:
        return torch.nn.Sequential(
            Lipschitz(2, UNITS), LipSwish(), Lipschitz(UNITS, UNITS), LipSwish(), Lipschitz(UNITS, 2)
        )

    nets = [net() for _ in range(BLOCKS)]
    shifts, scales = ([torch.nn.Parameter(torch.zeros(2)) for _ in range(BLOCKS)] for _ in range(2))
    points = torch.randn(POINTS, 2)

    def loss() -> Any:
        z, total = points.clone().requires_grad_(), 0
        for number in reversed(range(BLOCKS)):
            for layer in nets[number]:
                if isinstance(layer, Lipschitz):
                    layer.settle()
            z = (z - shifts[number]) * torch.exp(-scales[number])
            moved = nets[number](z)
            rows = [torch.autograd.grad(moved[:, i].sum(), z, create_graph=True)[0] for i in range(2)]
            det = (1 + rows[0][:, 0]) * (1 + rows[1][:, 1]) - rows[0][:, 1] * rows[1][:, 0]
            z, total = z + moved, total + det.log() - scales[number].sum()
        return -(_normal(z) + total).mean()

    return _torch_trained([*shifts, *scales, *(p for net in nets for p in net.parameters())], loss)


def _torch_sylvester() -> Program:
    import torch

    maps = [
        tuple(
            torch.nn.Parameter(scale * torch.randn(*size))
            for scale, size in (
                (1.0, (DIRECTIONS, NUMBERS)),
                (0.1, (DIRECTIONS, DIRECTIONS)),
                (0.1, (DIRECTIONS, DIRECTIONS)),
                (0.1, (DIRECTIONS,)),
            )
        )
        for _ in range(4)
    ]
    start, level = torch.eye(NUMBERS)[:, :DIRECTIONS], math.log(math.e - 1)

    def triangles(outer: Any, inner: Any) -> Any:
        slope = 1 + inner.diagonal()
        product = torch.nn.functional.softplus(outer.diagonal() + level) - 1
        return outer.triu(1) + torch.diag(product * slope / (1 + slope**2)), inner.triu(1) + torch.diag(slope)

    def loss() -> Any:
        x, total = torch.randn(POINTS, NUMBERS), 0
        first = -0.5 * (x**2).sum(1) - 0.5 * NUMBERS * math.log(2 * math.pi)
        for reflections, outer, inner, b in maps:
            q = start
            for v in reversed(reflections.unbind()):
                q = q - 2 * torch.outer(v, v @ q) / (v @ v)
            r, s = triangles(outer, inner)
            bend = torch.tanh((x @ q) @ s.mT + b)
            x = x + (bend @ r.mT) @ q.mT
            total = total + torch.log1p(r.diagonal() * s.diagonal() * (1 - bend**2)).sum(1)
        return (first - total + (x**2).sum(1)).mean()

    return _torch_trained([p for map in maps for p in map], loss)


PROGRAMS: dict[str, Callable[[], Program]] = dict(
    zip(OURS, (_torch_nice, _torch_realnvp, _torch_residual, _torch_sylvester), strict=True)
)
