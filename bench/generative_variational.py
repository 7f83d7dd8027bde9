"""Variational models for bench/generative.py: Weft's programs, and PyTorch's, plain eager code with the same sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

PIXELS, HIDDEN, CODE, BATCH, CLASSES = 784, 200, 50, 100, 10
CONTEXT, STEPS, UNITS = 20, 4, 100  # of flow posteriors
LEVELS = (50, 20)
LOG_2PI = math.log(2 * math.pi)
Program = Callable[[], Any]


# ------------------------------------------------------------------------------------------- Weft


def stepping(model: Any, condition: bool = False) -> Program:
    """Bits drawn from brightness, the loss, a step of Adam."""
    import weft

    brightness, classes = weft.full((BATCH, PIXELS), 0.13), weft.arange(BATCH) % CLASSES if condition else None
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-3)

    @weft.compile
    def step() -> None:
        optimizer.zero_grad()
        model.loss(weft.bernoulli(brightness), classes).backward()
        optimizer.step()

    return step


def dense(objective: str = "ELBO", *numbers: float, **options: Any) -> Any:
    from weft.models import variational

    chosen = getattr(variational, objective)(*numbers)
    return variational.DenseVAE(PIXELS, (HIDDEN, HIDDEN), CODE, objective=chosen, **options)


def bent(kind: str, steps: int) -> Any:
    from weft.models.variational import flow_posterior

    return dense(posterior=flow_posterior(kind, CODE, steps, CONTEXT, UNITS))


def levels(kind: str) -> Any:
    from weft.models import variational

    return getattr(variational, kind)(PIXELS, (HIDDEN,), LEVELS)


def conditional() -> Any:
    from weft.models.variational import ConditionalVAE

    return ConditionalVAE(PIXELS, (HIDDEN, HIDDEN), CODE, conditions=CLASSES)


def drawing(model: Any) -> Program:
    return lambda: model.sample(BATCH)


def weighing() -> Program:
    import weft

    model, x = dense(), weft.bernoulli(weft.full((4, PIXELS), 0.13))
    return lambda: model.log_prob_bound(x, samples=1000)


OURS: dict[str, Callable[[], Program]] = {
    "vae step, 784–200–200–50, 100 images": lambda: stepping(dense()),
    "vae step, full covariance": lambda: stepping(dense(posterior="full")),
    "β-tc-vae step": lambda: stepping(dense("BetaTC", 60_000)),
    "iwae step, 5 samples": lambda: stepping(dense("IWAE", 5)),
    "dreg step, 5 samples": lambda: stepping(dense("DReG", 5)),
    "conditional vae step": lambda: stepping(conditional(), True),
    "vae step, 4 planar maps": lambda: stepping(bent("planar", STEPS)),
    "vae step, 2 iaf maps": lambda: stepping(bent("iaf", 2)),
    "markov vae step, 50–20": lambda: stepping(levels("MarkovVAE")),
    "ladder vae step, 50–20": lambda: stepping(levels("LadderVAE")),
    "vae, 100 images drawn": lambda: drawing(dense()),
    "markov vae, 100 images drawn": lambda: drawing(levels("MarkovVAE")),
    "vae likelihood, 4 images, 1000 samples": weighing,
}


# ------------------------------------------------------------------------------------------- PyTorch


def mlp(*sizes: int, norm: bool = False) -> Any:
    from torch import nn

    parts: list[Any] = []
    for a, b in itertools.pairwise(sizes[:-1]):
        parts += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if norm else []), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(sizes[-2], sizes[-1]))


def normal(z: Any) -> Any:
    return -0.5 * (z**2).sum(-1) - 0.5 * LOG_2PI * z.shape[-1]


def density(z: Any, mean: Any, log_scale: Any) -> Any:
    return normal((z - mean) * (-log_scale).exp()) - log_scale.sum(-1)


def drawn(said: Any, samples: int) -> tuple[Any, Any]:
    """z and log q, with the sizes of said: (B, 2c) → (K, B, c), (K, B)"""
    import torch

    mean, log_scale = said.chunk(2, -1)
    noise = torch.randn(samples, *mean.shape)
    return mean + log_scale.exp() * noise, normal(noise) - log_scale.sum(-1)


def likelihood(logits: Any, x: Any) -> Any:
    from torch.nn import functional as F

    return -F.binary_cross_entropy_with_logits(logits, x.expand_as(logits), reduction="none").sum(-1)


class Nets:
    """An encoder and a decoder, and what it costs to train them."""

    def __init__(self, said: int = 2 * CODE, given: int = 0, *more: Any) -> None:
        from torch import nn

        self.encoder, self.decoder = (
            mlp(PIXELS + given, HIDDEN, HIDDEN, said),
            mlp(CODE + given, HIDDEN, HIDDEN, PIXELS),
        )
        self.all = nn.ModuleList([self.encoder, self.decoder, *more])

    def step(self, loss: Callable[[Any], Any]) -> Program:
        import torch

        brightness = torch.full((BATCH, PIXELS), 0.13)
        optimizer = torch.optim.Adam(self.all.parameters(), lr=1e-3)

        def step() -> None:
            optimizer.zero_grad()
            loss(torch.bernoulli(brightness)).backward()
            optimizer.step()

        return step


def plain(given: bool = False) -> Program:
    import torch

    nets, classes = Nets(given=CLASSES if given else 0), torch.eye(CLASSES).repeat(BATCH // CLASSES, 1)
    join = lambda x: torch.cat([x, classes], -1) if given else x

    def loss(x: Any) -> Any:
        said = nets.encoder(join(x))
        mean, log_scale = said.chunk(2, -1)
        z = mean + log_scale.exp() * torch.randn_like(mean)
        kl = 0.5 * (mean**2 + (2 * log_scale).exp() - 1 - 2 * log_scale).sum(-1)
        return (kl - likelihood(nets.decoder(join(z)), x)).mean()

    return nets.step(loss)


def full() -> Program:
    import torch
    from torch.nn import functional as F

    nets = Nets(CODE + CODE * (CODE + 1) // 2)
    rows, columns = torch.tril_indices(CODE, CODE)

    def loss(x: Any) -> Any:
        said = nets.encoder(x)
        factor = torch.zeros(len(x), CODE, CODE)
        factor[:, rows, columns] = said[:, CODE:]
        diagonal = F.softplus(factor.diagonal(dim1=-2, dim2=-1)) + 1e-5
        factor, mean = factor.tril(-1) + torch.diag_embed(diagonal), said[:, :CODE]
        z = mean + (factor @ torch.randn(len(x), CODE, 1)).squeeze(-1)
        kl = 0.5 * ((factor**2).sum((-2, -1)) + (mean**2).sum(-1) - CODE) - diagonal.log().sum(-1)
        return (kl - likelihood(nets.decoder(z), x)).mean()

    return nets.step(loss)


def total_correlation() -> Program:
    nets = Nets()

    def loss(x: Any) -> Any:
        said = nets.encoder(x)
        (z,), (log_q,) = drawn(said, 1)
        mean, log_scale = said.chunk(2, -1)
        each = -0.5 * ((z[:, None] - mean) * (-log_scale).exp()) ** 2 - log_scale - 0.5 * LOG_2PI
        count = math.log(60_000 * len(x))
        together = each.sum(-1).logsumexp(1) - count
        alone = (each.logsumexp(1) - count).sum(-1)
        divergence = (log_q - together) + 6 * (together - alone) + (alone - normal(z))
        return (divergence - likelihood(nets.decoder(z), x)).mean()

    return nets.step(loss)


def importance(doubly: bool) -> Program:
    nets = Nets()

    def loss(x: Any) -> Any:
        said = nets.encoder(x)
        z, log_q = drawn(said, 5)
        if doubly:
            log_q = density(z, *said.detach().chunk(2, -1))
        log_weight = likelihood(nets.decoder(z), x) + normal(z) - log_q
        if doubly:
            shares = log_weight.detach().softmax(0).unsqueeze(-1)
            z.register_hook(lambda g: g * shares)
        return -(log_weight.logsumexp(0) - math.log(5)).mean()

    return nets.step(loss)


def planar() -> Program:
    import torch
    from torch import nn
    from torch.nn import functional as F

    values = nn.ParameterList([nn.Parameter(0.1 * torch.randn(2 * CODE + 1)) for _ in range(STEPS)])
    told = nn.ModuleList([nn.Linear(CONTEXT, 2 * CODE + 1, bias=False) for _ in range(STEPS)])
    nets = Nets(2 * CODE + CONTEXT, 0, values, told)

    def loss(x: Any) -> Any:
        said = nets.encoder(x)
        (z,), (log_q,) = drawn(said[:, :-CONTEXT], 1)
        for value, net in zip(values, told, strict=True):
            u, w, b = (value + net(said[:, -CONTEXT:])).split([CODE, CODE, 1], 1)
            along = (w * u).sum(1, keepdim=True)
            u = u + (F.softplus(along) - 1 - along) * w / (w**2).sum(1, keepdim=True)
            bend = torch.tanh((w * z).sum(1, keepdim=True) + b)
            log_q = log_q - torch.log1p((w * u).sum(1) * (1 - bend[:, 0] ** 2))
            z = z + u * bend
        return (log_q - normal(z) - likelihood(nets.decoder(z), x)).mean()

    return nets.step(loss)


def autoregressive() -> Program:
    import torch
    from torch import nn

    into = [nn.Linear(CODE, UNITS) for _ in range(2)]
    told = [nn.Linear(CONTEXT, UNITS, bias=False) for _ in range(2)]
    out = [nn.Linear(UNITS, 2 * CODE) for _ in range(2)]
    nets = Nets(2 * CODE + CONTEXT, 0, nn.ModuleList([*into, *told, *out]))
    degrees, places = torch.arange(UNITS) % (CODE - 1), torch.arange(CODE)
    first = (degrees[:, None] >= places).float()
    last = (places[:, None] > degrees).float().repeat(2, 1)

    def loss(x: Any) -> Any:
        said = nets.encoder(x)
        (z,), (log_q,) = drawn(said[:, :-CONTEXT], 1)
        for a, c, b in zip(into, told, out, strict=True):
            h = torch.relu(nn.functional.linear(z, a.weight * first, a.bias) + c(said[:, -CONTEXT:]))
            shift, log_scale = nn.functional.linear(h, b.weight * last, b.bias).chunk(2, -1)
            z, log_q = (shift + log_scale.exp() * z).flip(-1), log_q - log_scale.sum(-1)
        return (log_q - normal(z) - likelihood(nets.decoder(z), x)).mean()

    return nets.step(loss)


def chain(sizes: Sequence[int] = LEVELS) -> Any:
    """Networks of a Markov chain: upward, downward, to the pixels."""
    from torch import nn

    return nn.ModuleList(
        [
            mlp(PIXELS, HIDDEN, 2 * sizes[0]),
            mlp(sizes[0], HIDDEN, 2 * sizes[1]),
            mlp(sizes[1], HIDDEN, 2 * sizes[0]),
            mlp(sizes[0], HIDDEN, PIXELS),
        ]
    )


def markov() -> Program:
    nets = Nets()
    nets.all = chain()
    first, second, down, decoder = nets.all

    def loss(x: Any) -> Any:
        (low,), (log_q,) = drawn(first(x), 1)
        (high,), (more,) = drawn(second(low), 1)
        log_p = normal(high) + density(low, *down(high).chunk(2, -1)) + likelihood(decoder(low), x)
        return (log_q + more - log_p).mean()

    return nets.step(loss)


def ladder() -> Program:
    import torch
    from torch import nn

    nets = Nets()
    climb = nn.ModuleList([mlp(PIXELS, HIDDEN, HIDDEN, norm=True), mlp(HIDDEN, HIDDEN, HIDDEN, norm=True)])
    said = nn.ModuleList([nn.Linear(HIDDEN, 2 * c) for c in LEVELS])
    down, decoder = mlp(LEVELS[1], HIDDEN, 2 * LEVELS[0]), mlp(LEVELS[0], HIDDEN, PIXELS)
    nets.all = nn.ModuleList([climb, said, down, decoder])

    def loss(x: Any) -> Any:
        d = climb[0](x)
        (high,), (log_q,) = drawn(said[1](climb[1](d)), 1)
        (mean, log_scale), (expected, spread) = said[0](d).chunk(2, -1), down(high).chunk(2, -1)
        p, q = (-2 * log_scale).exp(), (-2 * spread).exp()
        joined = torch.cat([(p * mean + q * expected) / (p + q), -0.5 * (p + q).log()], -1)
        (low,), (more,) = drawn(joined, 1)
        log_p = normal(high) + density(low, expected, spread) + likelihood(decoder(low), x)
        return (log_q + more - log_p).mean()

    return nets.step(loss)


def draws(levels: bool) -> Program:
    import torch

    nets, (_, _, down, low_decoder) = Nets(), chain()

    @torch.no_grad()
    def draw() -> Any:
        if not levels:
            return torch.bernoulli(torch.sigmoid(nets.decoder(torch.randn(BATCH, CODE))))
        mean, log_scale = down(torch.randn(BATCH, LEVELS[1])).chunk(2, -1)
        low = mean + log_scale.exp() * torch.randn_like(mean)
        return torch.bernoulli(torch.sigmoid(low_decoder(low)))

    return draw


def weights() -> Program:
    import torch

    nets, x = Nets(), torch.bernoulli(torch.full((4, PIXELS), 0.13))

    @torch.no_grad()
    def weigh() -> Any:
        z, log_q = drawn(nets.encoder(x), 1000)
        log_weight = likelihood(nets.decoder(z), x) + normal(z) - log_q
        return log_weight.logsumexp(0) - math.log(1000)

    return weigh


PROGRAMS: dict[str, Callable[[], Program]] = dict(
    zip(
        OURS,
        [
            *(plain, full, total_correlation, lambda: importance(False), lambda: importance(True), lambda: plain(True)),
            *(planar, autoregressive, markov, ladder, lambda: draws(False), lambda: draws(True), weights),
        ],
        strict=True,
    )
)
