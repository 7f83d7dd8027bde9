"""The programs of `fewlabels` in PyTorch, eager: the same networks, sizes, draws and gradients, as one would write them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

Loss = Callable[[], torch.Tensor]


def stepping(parameters: Any, loss: Loss, before: Callable[[], Any] = lambda: None) -> Callable[[], None]:
    """One step of Adam."""
    optimizer = torch.optim.Adam(list(parameters), lr=1e-3)

    def step() -> None:
        before()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def network(sizes: tuple[int, ...]) -> nn.Sequential:
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def watched(said: torch.Tensor, mask: torch.Tensor, truth: torch.Tensor, sums: torch.Tensor) -> None:
    """How many pseudo-labels are used, and right."""
    sums += torch.stack([mask.sum(), (mask * (said == truth)).sum()])


def semi(method: str, sizes: tuple[int, ...], data: Any) -> Callable[[], None]:
    x, y, weak, strong, truth = (torch.tensor(part) for part in data)
    net, sums = network(sizes), torch.zeros(2)
    if method == "ladder":
        return ladder(sizes, x, y, weak)
    teacher = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True).requires_grad_(False)
    loss = globals()[method](net, teacher.eval(), x, y, weak, strong, truth, sums)
    follows = method in ("mean_teacher", "mixmatch", "fixmatch")
    return stepping(net.parameters(), loss, lambda: teacher.update_parameters(net) if follows else None)


def pseudo_label(net: Any, teacher: Any, x: Any, y: Any, weak: Any, strong: Any, truth: Any, sums: Any) -> Loss:
    def loss() -> torch.Tensor:
        labelled, unlabelled = net(torch.cat([x, weak])).split([len(x), len(weak)])
        largest, said = unlabelled.detach().softmax(-1).max(-1)
        mask = (largest >= 0.95).float()
        watched(said, mask, truth, sums)
        return F.cross_entropy(labelled, y) + (F.cross_entropy(unlabelled, said, reduction="none") * mask).mean()

    return loss


def pi_model(net: Any, teacher: Any, x: Any, y: Any, weak: Any, strong: Any, truth: Any, sums: Any) -> Loss:
    def loss() -> torch.Tensor:
        labelled, first, second = net(torch.cat([x, weak, strong])).split([len(x), len(weak), len(strong)])
        return F.cross_entropy(labelled, y) + F.mse_loss(second.softmax(-1), first.detach().softmax(-1))

    return loss


def mean_teacher(net: Any, teacher: Any, x: Any, y: Any, weak: Any, strong: Any, truth: Any, sums: Any) -> Loss:
    def loss() -> torch.Tensor:
        with torch.no_grad():
            target = teacher(weak).softmax(-1)
        labelled, student = net(torch.cat([x, strong])).split([len(x), len(strong)])
        watched(target.argmax(-1), torch.ones(len(target)), truth, sums)
        return F.cross_entropy(labelled, y) + F.mse_loss(student.softmax(-1), target)

    return loss


def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    p = p.log_softmax(-1)
    return (p.exp() * (p - q.log_softmax(-1))).sum(-1)


def unit(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x / x.abs().amax(1, keepdim=True).clamp(min=1e-30), dim=1)


def vat(net: Any, teacher: Any, x: Any, y: Any, weak: Any, strong: Any, truth: Any, sums: Any) -> Loss:
    def loss() -> torch.Tensor:
        labelled, said = net(torch.cat([x, weak])).split([len(x), len(weak)])
        clean = said.detach()
        step = (1e-2 * unit(torch.randn_like(weak))).requires_grad_()
        (gradient,) = torch.autograd.grad(divergence(clean, net(weak + step)).sum(), step)
        moved = weak + 2.0 * unit(gradient)
        return F.cross_entropy(labelled, y) + divergence(clean, net(moved)).mean()

    return loss


def mixmatch(net: Any, teacher: Any, x: Any, y: Any, weak: Any, strong: Any, truth: Any, sums: Any) -> Loss:
    beta = torch.distributions.Beta(0.5, 0.5)

    def loss() -> torch.Tensor:
        with torch.no_grad():
            first, second = net(torch.cat([weak, strong])).softmax(-1).chunk(2)
            q = (first + second) / 2
            q = q**2 / (q**2).sum(-1, keepdim=True)
            watched(q.argmax(-1), torch.ones(len(q)), truth, sums)
            every = torch.cat([x, weak, strong])
            target = torch.cat([F.one_hot(y, q.shape[1]).float(), q, q])
            share = beta.sample((len(every), 1))
            share, other = torch.maximum(share, 1 - share), torch.randperm(len(every))
            every, target = share * every + (1 - share) * every[other], share * target + (1 - share) * target[other]
        labelled, unlabelled = net(every).split([len(x), 2 * len(q)])
        known, guessed = target.split([len(x), 2 * len(q)])
        return -(known * labelled.log_softmax(-1)).sum(-1).mean() + F.mse_loss(unlabelled.softmax(-1), guessed)

    return loss


def fixmatch(net: Any, teacher: Any, x: Any, y: Any, weak: Any, strong: Any, truth: Any, sums: Any) -> Loss:
    def loss() -> torch.Tensor:
        labelled, first, second = net(torch.cat([x, weak, strong])).split([len(x), len(weak), len(strong)])
        largest, said = first.detach().softmax(-1).max(-1)
        mask = (largest >= 0.95).float()
        watched(said, mask, truth, sums)
        return F.cross_entropy(labelled, y) + (F.cross_entropy(second, said, reduction="none") * mask).mean()

    return loss


# ------------------------------------------------------------------------------------------------- the ladder


def normal(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def curve(a: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return a[0] * (a[1] * u + a[2]).sigmoid() + a[3] * u + a[4]


class LadderNetwork(nn.Module):
    def __init__(self, sizes: tuple[int, ...], noise: float = 0.3) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        self.up = nn.ModuleList([nn.Linear(a, b, bias=False) for a, b in pairs])
        self.down = nn.ModuleList([nn.Linear(b, a, bias=False) for a, b in pairs])
        self.beta = nn.ParameterList([nn.Parameter(torch.zeros(b)) for _, b in pairs])
        self.gamma = nn.Parameter(torch.ones(sizes[-1]))
        start = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])[:, None]
        self.means = nn.ParameterList([nn.Parameter(start * torch.ones(size)) for size in sizes])
        self.shares = nn.ParameterList([nn.Parameter(start * torch.ones(size)) for size in sizes])
        self.running = [[torch.zeros(b), torch.ones(b)] for _, b in pairs]
        self.noise = noise

    def active(self, k: int, z: torch.Tensor) -> torch.Tensor:
        return self.gamma * (z + self.beta[k]) if k == len(self.up) - 1 else F.relu(z + self.beta[k])

    def noisy(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        x = x + self.noise * torch.randn_like(x)
        layers = [x]
        for k, linear in enumerate(self.up):
            z = normal(linear(x))
            layers.append(z + self.noise * torch.randn_like(z))
            x = self.active(k, layers[-1])
        return x, layers

    def clean(self, x: torch.Tensor) -> list[Any]:
        layers: list[Any] = [(x, torch.zeros(1), torch.ones(1))]
        for k, linear in enumerate(self.up):
            before = linear(x)
            mean, var = before.mean(0), before.var(0, unbiased=False)
            with torch.no_grad():
                for kept, new in zip(self.running[k], (mean, var), strict=True):
                    kept.lerp_(new, 0.05)
            deviation = (var + 1e-5).sqrt()
            z = (before - mean) / deviation
            layers.append((z, mean, deviation))
            x = self.active(k, z)
        return layers

    def costs(self, x: torch.Tensor) -> list[torch.Tensor]:
        clean, (logits, seen) = self.clean(x), self.noisy(x)
        found, u = [], normal(logits.softmax(1))
        for k in reversed(range(len(seen))):
            mean = curve(self.means[k], u)
            guess = (seen[k] - mean) * curve(self.shares[k], u) + mean
            z, centre, deviation = clean[k]
            found.append(F.mse_loss((guess - centre) / deviation, z))
            if k:
                u = normal(self.down[k - 1](guess))
        return found[::-1]


def ladder(sizes: tuple[int, ...], x: torch.Tensor, y: torch.Tensor, weak: torch.Tensor) -> Callable[[], None]:
    net, weights = LadderNetwork(sizes), (1000.0, 10.0, *[0.1] * len(sizes))

    def loss() -> torch.Tensor:
        costs = sum(w * cost for w, cost in zip(weights, net.costs(weak), strict=False))
        return F.cross_entropy(net.noisy(x)[0], y) + costs

    return stepping(net.parameters(), loss)


# -------------------------------------------------------------------------------------------------- views


def encoder(width: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
        *(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def head(*sizes: int) -> nn.Sequential:
    a, b, c = sizes
    return nn.Sequential(nn.Linear(a, b, bias=False), nn.BatchNorm1d(b), nn.ReLU(), nn.Linear(b, c))


def simclr(width: int, data: Any) -> Callable[[], None]:
    first, second = (torch.tensor(part) for part in data)
    net, top = encoder(width), head(2 * width, 128, 64)
    n = len(first)
    itself, partner = torch.eye(2 * n, dtype=torch.bool), (torch.arange(2 * n) + n) % (2 * n)

    def loss() -> torch.Tensor:
        z = F.normalize(top(net(torch.cat([first, second]))), dim=-1)
        return F.cross_entropy((z @ z.mT / 0.5).masked_fill(itself, -math.inf), partner)

    return stepping([*net.parameters(), *top.parameters()], loss)


def byol(width: int, data: Any) -> Callable[[], None]:
    first, second = (torch.tensor(part) for part in data)
    net = nn.Sequential(encoder(width), head(2 * width, 128, 64))
    target = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True).requires_grad_(False)
    predictor = head(64, 128, 64)

    def distance(x: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
        return -F.cosine_similarity(x, aim, dim=-1).mean()

    def loss() -> torch.Tensor:
        with torch.no_grad():
            aims = [target(x) for x in (first, second)]
        said = [predictor(net(x)) for x in (first, second)]
        return (distance(said[0], aims[1]) + distance(said[1], aims[0])) / 2

    return stepping([*net.parameters(), *predictor.parameters()], loss, lambda: target.update_parameters(net))


class Block(nn.Module):
    def __init__(self, heads: int, dim: int, wide: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, wide), nn.GELU(), nn.Linear(wide, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.first(x)).reshape(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.second(x))


def mae(images: Any, patch: int, dim: int, layers: int) -> Callable[[], None]:
    x = torch.tensor(images)
    side = x.shape[2] // patch
    count, hidden = side * side, round(0.75 * side * side)
    body = nn.Sequential(*(Block(4, dim, 4 * dim) for _ in range(layers)), nn.LayerNorm(dim, eps=1e-6))
    decoder = nn.Sequential(Block(4, 32, 128), nn.LayerNorm(32, eps=1e-6))
    embed, between, pixels = nn.Linear(patch**2, dim), nn.Linear(dim, 32), nn.Linear(32, patch**2)
    token = nn.Parameter(torch.zeros(1, 1, 32))
    places_in, places_out = torch.randn(1, count, dim), torch.randn(1, count, 32)

    def taken(rows: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return rows.gather(1, at[..., None].expand(-1, -1, rows.shape[-1]))

    def loss() -> torch.Tensor:
        b = len(x)
        patches = x.reshape(b, side, patch, side, patch).permute(0, 1, 3, 2, 4).reshape(b, count, -1)
        order = torch.rand(b, count).argsort(1)
        back = order.argsort(1)
        codes = body(taken(embed(patches) + places_in, order[:, : count - hidden]))
        tokens = torch.cat([between(codes), token.expand(b, hidden, -1)], 1)
        said = pixels(decoder(taken(tokens, back) + places_out))
        mask = (back >= count - hidden).float()
        return (((said - patches) ** 2).mean(-1) * mask).sum() / (b * hidden)

    parts = (body, decoder, embed, between, pixels)
    return stepping([token, *(p for part in parts for p in part.parameters())], loss)


# ------------------------------------------------------------------------------------------------------ M2


def m2(features: int, hidden: int, code: int, data: Any) -> Callable[[], None]:
    x, y, unlabelled = (torch.tensor(part) for part in data)
    classes = 10
    mlp = lambda a, b: nn.Sequential(nn.Linear(a, hidden), nn.SiLU(), nn.Linear(hidden, b))
    enc, dec, classifier = mlp(features + classes, 2 * code), mlp(code + classes, 2 * features), mlp(features, classes)

    def bound(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        given = F.one_hot(y, classes).float()
        mean, log_scale = enc(torch.cat([x, given], 1)).chunk(2, 1)
        log_scale = log_scale.clamp(min=-10)
        z = mean + log_scale.exp() * torch.randn_like(mean)
        centre, spread = dec(torch.cat([z, given], 1)).chunk(2, 1)
        log_p = -0.5 * ((x - centre) / spread.exp()) ** 2 - spread - 0.5 * math.log(2 * math.pi)
        divergence = 0.5 * (mean**2 + (2 * log_scale).exp() - 1 - 2 * log_scale)
        return log_p.sum(1) - divergence.sum(1) - math.log(classes)

    def loss() -> torch.Tensor:
        labels = torch.arange(classes).repeat_interleave(len(unlabelled))
        each = bound(unlabelled.repeat(classes, 1), labels).reshape(classes, -1).T
        log_q = classifier(unlabelled).log_softmax(-1)
        total = bound(x, y).sum() + (log_q.exp() * (each - log_q)).sum()
        return 5.0 * F.cross_entropy(classifier(x), y) - total / (len(x) + len(unlabelled))

    return stepping([p for part in (enc, dec, classifier) for p in part.parameters()], loss)
