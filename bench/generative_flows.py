"""Flows for bench/generative.py: Weft's programs, and the same in plain eager PyTorch."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

ROWS, HIDDEN, MADES = 100, 256, 5
NUMBERS, BINS = 11, 8  # of the spline flow
SHAPE, FEATURES = (1, 16, 16), 32  # of Glow's images and hidden maps
STEPS = 8  # of the continuous flow
TOLERANCE = 1e-5
Program = Callable[[], Any]


# ------------------------------------------------------------------------------------------ Weft's


def _trained(model: Any, loss: Callable[[], Any]) -> Program:
    import weft

    optimizer = weft.optim.SGD(model.parameters(), lr=1e-5)

    @weft.compile
    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def _maf() -> Program:
    import weft
    from weft.models.flows import MaskedAutoregressiveFlow

    flow, x = MaskedAutoregressiveFlow(784, (HIDDEN,), MADES, batch_norm=False), weft.randn(ROWS, 784)
    return _trained(flow, lambda: flow.forward_kld(x))


def _maf_sampling() -> Program:
    from weft.models.flows import MAF, Flow

    flow = Flow(MAF(64, (HIDDEN,)), 64)
    return lambda: flow.sample(ROWS)


def _spline() -> Program:
    import weft
    from weft.models.flows import NeuralSplineFlow

    flow, x = NeuralSplineFlow(NUMBERS, (128,), 2, bins=BINS), weft.randn(ROWS, NUMBERS)
    return _trained(flow, lambda: flow.forward_kld(x))


def _glow() -> Program:
    import weft
    from weft.models.flows import Glow

    flow, x = Glow(SHAPE, scales=1, steps=2, features=FEATURES), weft.randn(16, *SHAPE)
    return _trained(flow, lambda: flow.forward_kld(x))


def _field() -> Any:
    from weft.models.flows import VectorField

    return VectorField(2, (64, 64))


def _continuous() -> Program:
    import weft
    from weft.models.flows import Continuous, Flow

    flow = Flow(Continuous(_field(), method="rk4", options={"num_steps": STEPS}), 2)
    x = weft.randn(ROWS, 2)
    return _trained(flow, lambda: flow.forward_kld(x))


def _ode() -> Program:
    import weft
    from weft.integrate import odeint

    field, x, times = _field(), weft.randn(ROWS, 2), weft.tensor([0.0, 5.0])

    @weft.compile
    @weft.no_grad()
    def solve() -> Any:
        return odeint(field, x, times, rtol=TOLERANCE, atol=TOLERANCE)

    return solve


OURS: dict[str, Callable[[], Program]] = {
    "maf step, 5 × 784–256, 100 images": _maf,
    "maf sampling, 100 rows of 64 numbers": _maf_sampling,
    "spline flow step, 2 couplings of 11 numbers": _spline,
    "glow step, 2 steps of 32 maps, 16 images": _glow,
    "continuous flow step, rk4, 8 steps": _continuous,
    "neural ode, dopri5, 100 rows": _ode,
}


# ------------------------------------------------------------------------------------------ PyTorch's


def _torch_trained(parameters: list[Any], loss: Callable[[], Any]) -> Program:
    import torch

    optimizer = torch.optim.SGD(parameters, lr=1e-5)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def _normal(z: Any) -> Any:
    return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(1)


def _torch_made(size: int) -> tuple[list[Any], Callable[[Any], tuple[Any, Any]]]:
    """x → mean and log-scale under fixed masks."""
    import torch

    first, last = torch.nn.Linear(size, HIDDEN), torch.nn.Linear(HIDDEN, 2 * size)
    degrees = torch.arange(HIDDEN) * (size - 1) // HIDDEN
    seen = (degrees[:, None] >= torch.arange(size)).float()
    used = (torch.arange(size).repeat_interleave(2)[:, None] > degrees).float()

    def forward(x: Any) -> tuple[Any, Any]:
        h = torch.relu(torch.nn.functional.linear(x, first.weight * seen, first.bias))
        theta = torch.nn.functional.linear(h, last.weight * used, last.bias).unflatten(1, (size, 2))
        return theta[..., 0], 7 * torch.tanh(theta[..., 1] / 7)

    return [*first.parameters(), *last.parameters()], forward


def _torch_maf() -> Program:
    import torch

    x, mades = torch.randn(ROWS, 784), [_torch_made(784) for _ in range(MADES)]

    def loss() -> Any:
        z, total = x, 0
        for number, (_, made) in enumerate(mades):
            z = z.flip(1) if number else z
            mean, scale = made(z)
            z, total = (z - mean) * torch.exp(-scale), total - scale.sum(1)
        return -(_normal(z) + total).mean()

    return _torch_trained([p for parameters, _ in mades for p in parameters], loss)


def _torch_maf_sampling() -> Program:
    import torch

    _, made = _torch_made(64)

    @torch.no_grad()
    def draw() -> Any:
        z, x = torch.randn(ROWS, 64), torch.zeros(ROWS, 64)
        for place in range(64):
            mean, scale = made(x)
            x[:, place] = z[:, place] * torch.exp(scale[:, place]) + mean[:, place]
        return x

    return draw


def _torch_spline() -> Program:
    import torch

    kept, moved = NUMBERS // 2, NUMBERS - NUMBERS // 2
    nets = [
        torch.nn.Sequential(torch.nn.Linear(a, 128), torch.nn.ReLU(), torch.nn.Linear(128, b * (3 * BINS - 1)))
        for a, b in ((kept, moved), (moved, kept))
    ]
    factors = [torch.nn.Parameter(torch.randn(NUMBERS, NUMBERS) * 0.1) for _ in range(4)]
    scales = [torch.nn.Parameter(torch.zeros(NUMBERS)) for _ in range(2)]
    x, eye = torch.randn(ROWS, NUMBERS), torch.eye(NUMBERS)

    def loss() -> Any:
        z, total = x, 0
        for number in (1, 0):
            lower, upper = factors[2 * number].tril(-1) + eye, factors[2 * number + 1].triu(1)
            upper = upper + torch.diag(torch.exp(scales[number]))
            half = torch.linalg.solve_triangular(lower, z.mT, upper=False)
            z = torch.linalg.solve_triangular(upper, half, upper=True).mT
            total = total - scales[number].sum()
            first, second = z[:, :kept], z[:, kept:]
            stay, go = (second, first) if number else (first, second)
            theta = nets[number](stay).unflatten(1, (go.shape[1], 3 * BINS - 1))
            go, slope = _torch_rational(go, theta)
            z = torch.cat([go, stay] if number else [stay, go], 1)
            total = total + slope.sum(1)
        return -(_normal(z) + total).mean()

    return _torch_trained([*factors, *scales, *(p for net in nets for p in net.parameters())], loss)


def _torch_rational(y: Any, theta: Any, bound: float = 3.0) -> tuple[Any, Any]:
    """The inverse of a rational-quadratic spline with linear tails, as in nflows: bins by searchsorted, gathers."""
    import torch

    sizes = [
        2 * bound * (1e-3 + (1 - 1e-3 * BINS) * part.softmax(-1)) for part in theta[..., : 2 * BINS].split(BINS, -1)
    ]
    knots = [torch.nn.functional.pad(size.cumsum(-1), (1, 0)) - bound for size in sizes]
    slopes = torch.nn.functional.pad(torch.nn.functional.softplus(theta[..., 2 * BINS :]) + 1e-3, (1, 1), value=1.0)
    inside, clamped = y.abs() < bound, y.clamp(-bound, bound)
    number = (torch.searchsorted(knots[1].contiguous(), clamped[..., None].contiguous()) - 1).clamp(0, BINS - 1)
    take = lambda values: values.gather(-1, number)[..., 0]
    w, h, x0, y0 = take(sizes[0]), take(sizes[1]), take(knots[0]), take(knots[1])
    left, right = take(slopes), take(slopes[..., 1:])
    s, up = h / w, clamped - y0
    curve = left + right - 2 * s
    a, b, c = h * (s - left) + up * curve, h * left - up * curve, -s * up
    place = 2 * c / (-b - (b**2 - 4 * a * c).clamp(min=0).sqrt())
    across = place * (1 - place)
    slope = (
        2 * s.log()
        + (right * place**2 + 2 * s * across + left * (1 - place) ** 2).log()
        - 2 * (s + curve * across).log()
    )
    return torch.where(inside, x0 + place * w, y), torch.where(inside, -slope, torch.zeros(()))


def _torch_glow() -> Program:
    import torch

    channels = 4 * SHAPE[0]
    half = channels // 2
    conv = torch.nn.Conv2d
    nets = [
        torch.nn.Sequential(
            conv(half, FEATURES, 3, padding=1), torch.nn.ReLU(), conv(FEATURES, FEATURES, 1), torch.nn.ReLU(),
            conv(FEATURES, 2 * half, 3, padding=1),
        )
        for _ in range(2)
    ]  # fmt: skip
    shifts, scales, logs = ([torch.nn.Parameter(torch.zeros(channels)) for _ in range(2)] for _ in range(3))
    factors = [torch.nn.Parameter(torch.randn(channels, channels) * 0.1) for _ in range(4)]
    x, eye = torch.randn(16, *SHAPE), torch.eye(channels)

    def loss() -> Any:
        z = torch.nn.functional.pixel_unshuffle(x, 2)
        pixels, total = z.shape[2] * z.shape[3], 0
        for number, net in enumerate(nets):
            z = z * scales[number].exp()[:, None, None] + shifts[number][:, None, None]
            upper = factors[2 * number + 1].triu(1) + torch.diag(logs[number].exp())
            matrix = (factors[2 * number].tril(-1) + eye) @ upper
            z = torch.nn.functional.conv2d(z, matrix[:, :, None, None])
            stay, go = z.chunk(2, 1)
            t, s = net(stay).unflatten(1, (half, 2)).unbind(2)
            s = 2 * torch.tanh(s / 2)
            z = torch.cat([stay, go * s.exp() + t], 1)
            total = total + (scales[number].sum() + logs[number].sum()) * pixels + s.flatten(1).sum(1)
        return -(_normal(z.flatten(1)) + total).mean()

    return _torch_trained([*shifts, *scales, *logs, *factors, *(p for net in nets for p in net.parameters())], loss)


def _torch_field() -> tuple[Any, Callable[[Any, Any], Any]]:
    import torch

    net = torch.nn.Sequential(
        torch.nn.Linear(3, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)
    )
    return net, lambda t, x: net(torch.cat([x, t.expand(len(x), 1)], 1))


def _torch_continuous() -> Program:
    """The same rule of fourth order with eight steps, exact trace by two gradients."""
    import torch

    net, field = _torch_field()
    x = torch.randn(ROWS, 2)

    def both(t: Any, x: Any) -> tuple[Any, Any]:
        value = field(t, x)
        slopes = [torch.autograd.grad(value[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(2)]
        return value, slopes[0] + slopes[1]

    def loss() -> Any:
        z, total, h = x.clone().requires_grad_(), 0, torch.tensor(-1.0 / STEPS)
        for number in range(STEPS):
            t = 1 + number * h
            k1, v1 = both(t, z)
            k2, v2 = both(t + h / 3, z + h * k1 / 3)
            k3, v3 = both(t + h * 2 / 3, z + h * (k2 - k1 / 3))
            k4, v4 = both(t + h, z + h * (k1 - k2 + k3))
            z = z + h * (k1 + 3 * k2 + 3 * k3 + k4) / 8
            total = total + h * (v1 + 3 * v2 + 3 * v3 + v4) / 8
        return -(_normal(z) + total).mean()

    return _torch_trained(list(net.parameters()), loss)


def _torch_ode() -> Program:
    """torchdiffeq where it is installed; else Dormand and Prince's steps with the same controller and tolerance."""
    import torch

    from weft.integrate import METHODS

    if importlib.util.find_spec("torchdiffeq"):
        from torchdiffeq import odeint

        _, field = _torch_field()
        start, times = torch.randn(ROWS, 2), torch.tensor([0.0, 5.0])
        return torch.no_grad()(lambda: odeint(field, start, times, rtol=TOLERANCE, atol=TOLERANCE))

    table = METHODS["dopri5"]
    _, field = _torch_field()
    x = torch.randn(ROWS, 2)

    @torch.no_grad()
    def solve() -> Any:
        t, end, y, dt = torch.tensor(0.0), 5.0, x, torch.tensor(0.05)
        first = field(t, y)
        while t < end:
            slopes = [first]
            for c, row in zip(table.c, table.a, strict=True):
                slopes.append(field(t + c * dt, y + dt * sum(a * k for a, k in zip(row, slopes, strict=True))))
            new = y + dt * sum(b * k for b, k in zip(table.b, slopes, strict=True))
            error = dt * sum(e * k for e, k in zip(table.error, slopes, strict=True))
            limit = TOLERANCE + TOLERANCE * torch.maximum(y.abs(), new.abs())
            ratio = (error / limit).pow(2).mean().sqrt()
            good = bool(ratio <= 1)
            if good:
                t, y, first = t + dt, new, slopes[-1]
            dt = dt * (0.9 * ratio.clamp(min=1e-10) ** -0.2).clamp(1.0 if good else 0.2, 10.0 if good else 1.0)
        return y

    return solve


PROGRAMS: dict[str, Callable[[], Program]] = dict(
    zip(OURS, (_torch_maf, _torch_maf_sampling, _torch_spline, _torch_glow, _torch_continuous, _torch_ode), strict=True)
)
