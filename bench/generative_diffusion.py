"""Diffusions for bench/generative.py: Weft's programs, and PyTorch's, plain eager code with the same networks and draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

POINTS, BATCH, IMAGES, WIDTH, STEPS = 256, 1000, 32, 16, 50
Program = Callable[[], Any]


# ------------------------------------------------------------------------------------------- Weft


def ours_points() -> Any:
    from weft.models.diffusion import DDPM, PointNetwork

    return DDPM(PointNetwork(2, 128, 3), (2,), "cosine", 1000)


def ours_images() -> Any:
    from weft.models.diffusion import DDPM, UNet

    return DDPM(UNet(1, WIDTH, (1, 2), attention=(1,), patch=2), (1, 28, 28), "cosine", 1000)


def ours_step(model: Any, *shape: int) -> Program:
    import weft

    optimizer, x = weft.optim.SGD(model.parameters(), lr=1e-3), weft.randn(*shape)

    @weft.compile
    def step() -> None:
        optimizer.zero_grad()
        model.loss(x).backward()
        optimizer.step()

    return step


def ours_sampling(model: Any, count: int, sampler: str, steps: int) -> Program:
    return lambda: model.sample(count, sampler=sampler, steps=steps)


def ours_flow() -> Program:
    from weft.models.diffusion import FlowMatching, PointNetwork

    model = FlowMatching(PointNetwork(2, 128, 3), (2,))
    return lambda: model.sample(BATCH, steps=STEPS)


OURS: dict[str, Callable[[], Program]] = {
    "ddpm step, perceptron 3 × 128, 1000 points": lambda: ours_step(ours_points(), BATCH, 2),
    "ddpm step, u-net of 16 channels, 32 images": lambda: ours_step(ours_images(), IMAGES, 1, 28, 28),
    "ddpm, 256 points, 200 ancestral steps": lambda: ours_sampling(ours_points(), POINTS, "ddpm", 200),
    "ddim, 256 points, 50 steps": lambda: ours_sampling(ours_points(), POINTS, "ddim", STEPS),
    "ddim, 8 images, u-net, 10 steps": lambda: ours_sampling(ours_images(), 8, "ddim", 10),
    "flow matching, 1000 points, 50 steps": ours_flow,
}


# ------------------------------------------------------------------------------------------- PyTorch


def embedded(t: Any, features: int) -> Any:
    import torch

    rates = torch.exp(-math.log(10000) * torch.arange(features // 2) / (features // 2))
    angles = t.float()[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], 1)


def points_network() -> Any:
    import torch
    from torch import nn

    class Points(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 128))
            self.first, self.last = nn.Linear(2, 128), nn.Linear(128, 2)
            self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(3))

        def forward(self, x: Any, t: Any) -> Any:
            time, h = self.time(embedded(t, 128)), self.first(x)
            for layer in self.layers:
                h = h + layer(torch.nn.functional.silu(h + time))
            return self.last(torch.nn.functional.silu(h))

    return Points()


def images_network() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Attention(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(8, channels)
            self.into, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

        def forward(self, x: Any) -> Any:
            h = self.into(self.norm(x).flatten(2).mT)
            q, k, v = h.unflatten(2, (3, 2, -1)).permute(2, 0, 3, 1, 4)
            h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            return x + self.out(h).mT.reshape(x.shape)

    class Level(nn.Module):
        def __init__(self, inputs: int, outputs: int, attention: bool) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)])
            self.first, self.second = (
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.Conv2d(outputs, outputs, 3, padding=1),
            )
            self.time = nn.Linear(4 * WIDTH, 2 * outputs)
            self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
            self.attention = Attention(outputs) if attention else nn.Identity()

        def forward(self, x: Any, time: Any) -> Any:
            h = self.first(F.silu(self.norms[0](x)))
            scale, shift = self.time(time)[:, :, None, None].chunk(2, 1)
            h = self.norms[1](h) * (1 + scale) + shift
            return self.attention(self.skip(x) + self.second(F.silu(h)))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            w = WIDTH
            self.time = nn.Sequential(nn.Linear(4 * w, 4 * w), nn.SiLU(), nn.Linear(4 * w, 4 * w))
            self.first, self.last = nn.Conv2d(4, w, 3, padding=1), nn.Conv2d(w, 4, 3, padding=1)
            self.down = nn.ModuleList([Level(w, w, False), Level(w, 2 * w, True)])
            self.shrink, self.grow = nn.Conv2d(w, w, 3, 2, 1), nn.Conv2d(2 * w, 2 * w, 3, padding=1)
            self.middle = nn.ModuleList([Level(2 * w, 2 * w, True), Level(2 * w, 2 * w, False)])
            self.low = nn.ModuleList([Level(4 * w, 2 * w, True), Level(3 * w, 2 * w, True)])
            self.high = nn.ModuleList([Level(3 * w, w, False), Level(2 * w, w, False)])
            self.norm = nn.GroupNorm(8, w)

        def forward(self, x: Any, t: Any) -> Any:
            time = F.silu(self.time(embedded(t, 4 * WIDTH)))
            kept = [self.first(F.pixel_unshuffle(x, 2))]
            kept.append(self.down[0](kept[-1], time))
            kept.append(self.shrink(kept[-1]))
            h = self.down[1](kept[-1], time)
            kept.append(h)
            for level in self.middle:
                h = level(h, time)
            for level in self.low:
                h = level(torch.cat([h, kept.pop()], 1), time)
            h = self.grow(F.interpolate(h, scale_factor=2.0, mode="nearest"))
            for level in self.high:
                h = level(torch.cat([h, kept.pop()], 1), time)
            return F.pixel_shuffle(self.last(F.silu(self.norm(h))), 2)

    return Network()


def cosine() -> Any:
    import torch

    f = torch.cos((torch.arange(1001) / 1000 + 0.008) / 1.008 * math.pi / 2) ** 2
    return torch.cumprod(1 - (1 - f[1:] / f[:-1]).clamp(max=0.999), 0)


def torch_step(network: Any, *shape: int) -> Program:
    import torch

    bars, x = cosine(), torch.randn(*shape)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)

    def step() -> None:
        t, noise = torch.randint(1000, (len(x),)), torch.randn_like(x)
        bar = bars[t].reshape(-1, *(1 for _ in shape[1:]))
        optimizer.zero_grad()
        ((network(bar.sqrt() * x + (1 - bar).sqrt() * noise, t) - noise) ** 2).mean().backward()
        optimizer.step()

    return step


def torch_sampling(network: Any, shape: tuple[int, ...], steps: int, noisy: bool) -> Program:
    import torch

    bars, times = cosine(), torch.arange(1000, 0, -1000 // steps).sub(1).tolist()

    @torch.no_grad()
    def walk() -> Any:
        x = torch.randn(shape)
        for t, after in zip(times, [*times[1:], -1], strict=True):
            bar, before = bars[t], bars[after] if after >= 0 else torch.tensor(1.0)
            epsilon = network(x, torch.full((len(x),), t))
            x0 = (x - (1 - bar).sqrt() * epsilon) / bar.sqrt()
            if noisy:
                beta = 1 - bar / before
                x = before.sqrt() * beta / (1 - bar) * x0 + (1 - beta).sqrt() * (1 - before) / (1 - bar) * x
                x = x + (beta * (1 - before) / (1 - bar)).sqrt() * torch.randn_like(x)
            else:
                x = before.sqrt() * x0 + (1 - before).sqrt() * epsilon
        return x

    return walk


def torch_flow() -> Program:
    import torch

    network = points_network()

    @torch.no_grad()
    def walk() -> Any:
        x = torch.randn(BATCH, 2)
        for number in range(STEPS):
            x = x + network(x, torch.full((BATCH,), number / STEPS)) / STEPS
        return x

    return walk


PROGRAMS: dict[str, Callable[[], Program]] = {
    "ddpm step, perceptron 3 × 128, 1000 points": lambda: torch_step(points_network(), BATCH, 2),
    "ddpm step, u-net of 16 channels, 32 images": lambda: torch_step(images_network(), IMAGES, 1, 28, 28),
    "ddpm, 256 points, 200 ancestral steps": lambda: torch_sampling(points_network(), (POINTS, 2), 200, True),
    "ddim, 256 points, 50 steps": lambda: torch_sampling(points_network(), (POINTS, 2), STEPS, False),
    "ddim, 8 images, u-net, 10 steps": lambda: torch_sampling(images_network(), (8, 1, 28, 28), 10, False),
    "flow matching, 1000 points, 50 steps": torch_flow,
}
