"""Codes that are whole numbers, and learned priors, for bench/generative.py: Weft's programs and PyTorch's, plain eager code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from generative_variational import BATCH, CODE, HIDDEN, PIXELS, Nets, density, drawing, drawn, likelihood, mlp, stepping

VARIABLES, CLASSES = 30, 10
INPUTS = 500
CODES, WIDTH, ENTRY = 128, 32, 16
Program = Callable[[], Any]


# ------------------------------------------------------------------------------------------- Weft


def quantised() -> Any:
    from weft import nn
    from weft.models.variational import ConvolutionalVQVAE

    model = ConvolutionalVQVAE((1, 28, 28), CODES, ENTRY, WIDTH)
    model.encoder = nn.Sequential(nn.Unflatten(1, (1, 28, 28)), model.encoder)
    model.decoder = nn.Sequential(model.decoder, nn.Flatten(1))
    return model


def gumbel() -> Any:
    from weft.models.variational import DenseGumbelVAE

    return DenseGumbelVAE(PIXELS, (HIDDEN, HIDDEN), VARIABLES, CLASSES, activation="tanh")


def vamp() -> Any:
    from weft.models.variational import DenseVampVAE

    return DenseVampVAE(PIXELS, (HIDDEN, HIDDEN), CODE, inputs=INPUTS)


OURS: dict[str, Callable[[], Program]] = {
    "vq-vae step, 7×7 of 128 codes": lambda: stepping(quantised()),
    "gumbel vae step, 30 of 10 classes": lambda: stepping(gumbel()),
    "vae step, 500 pseudo-inputs": lambda: stepping(vamp()),
    "vq-vae, 100 images drawn": lambda: drawing(quantised()),
    "gumbel vae, 100 images drawn": lambda: drawing(gumbel()),
    "vae, pseudo-inputs, 100 images drawn": lambda: drawing(vamp()),
}


# ------------------------------------------------------------------------------------------- PyTorch


def residual() -> Any:
    from torch import nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.spread = nn.Conv2d(2 * WIDTH, WIDTH, 3, padding=1, bias=False)
            self.mix = nn.Conv2d(WIDTH, 2 * WIDTH, 1, bias=False)

        def forward(self, x: Any) -> Any:
            return x + self.mix(nn.functional.relu(self.spread(nn.functional.relu(x))))

    return Residual()


def convolutions() -> Any:
    """Nets with convolutions in their place."""
    from torch import nn

    nets = Nets()
    nets.encoder = nn.Sequential(
        *(nn.Conv2d(1, WIDTH, 4, 2, 1), nn.ReLU(), nn.Conv2d(WIDTH, 2 * WIDTH, 4, 2, 1), residual(), nn.ReLU()),
        *(nn.Conv2d(2 * WIDTH, ENTRY, 1), nn.BatchNorm2d(ENTRY, affine=False)),
    )
    nets.decoder = nn.Sequential(
        *(nn.Conv2d(ENTRY, 2 * WIDTH, 3, padding=1), residual(), nn.ReLU()),
        *(nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(WIDTH, 1, 4, 2, 1)),
    )
    nets.all = nn.ModuleList([nets.encoder, nets.decoder])
    return nets


def quantising() -> Program:
    import torch
    from torch.nn import functional as F

    nets, codebook = convolutions(), torch.randn(CODES, ENTRY)
    counts, sums = torch.ones(CODES), codebook.clone()

    @torch.no_grad()
    def follow(rows: Any, codes: Any) -> None:
        own = F.one_hot(codes, CODES).float()
        counts.mul_(0.9).add_(own.sum(0), alpha=0.1)
        sums.mul_(0.9).add_(own.T @ rows, alpha=0.1)
        dead = counts < 0.05 * len(rows) / CODES
        some = rows[torch.randint(len(rows), (CODES,))]
        codebook.copy_(torch.where(dead[:, None], some, sums / counts.clamp(min=1e-6)[:, None]))
        counts[dead] = len(rows) / CODES / 2
        sums[dead] = some[dead] * (len(rows) / CODES / 2)

    def loss(x: Any) -> Any:
        z = nets.encoder(x.reshape(-1, 1, 28, 28)).movedim(1, -1)
        rows = z.reshape(-1, ENTRY)
        with torch.no_grad():
            codes = ((codebook**2).sum(1) - 2 * rows @ codebook.T).argmin(1)
        entries = codebook[codes]
        follow(rows.detach(), codes)
        commitment = 0.25 * ((rows - entries) ** 2).sum() / len(x)
        values = (rows + (entries - rows).detach()).reshape(z.shape).movedim(-1, 1)
        return commitment - likelihood(nets.decoder(values).flatten(1), x).mean()

    return nets.step(loss)


def choosing() -> Program:
    import torch
    from torch.nn import functional as F

    nets = Nets(VARIABLES * CLASSES)
    nets.decoder = mlp(VARIABLES * CLASSES, HIDDEN, HIDDEN, PIXELS)
    nets.all = torch.nn.ModuleList([nets.encoder, nets.decoder])

    def loss(x: Any) -> Any:
        logits = nets.encoder(x).unflatten(1, (VARIABLES, CLASSES)).log_softmax(-1)
        y = F.gumbel_softmax(logits, tau=1.0)
        kl = (logits.exp() * (logits + math.log(CLASSES))).sum((1, 2))
        return (kl - likelihood(nets.decoder(y.flatten(1)), x)).mean()

    return nets.step(loss)


def pseudo_inputs() -> tuple[Any, Any]:
    import torch
    from torch import nn

    inputs = nn.Parameter(0.1 * torch.randn(INPUTS, PIXELS))
    nets = Nets()
    nets.all = nn.ModuleList([nets.encoder, nets.decoder, nn.ParameterList([inputs])])
    return nets, inputs


def mixing() -> Program:
    import torch

    nets, inputs = pseudo_inputs()

    def loss(x: Any) -> Any:
        (z,), (log_q,) = drawn(nets.encoder(x), 1)
        mean, log_scale = nets.encoder(torch.sigmoid(inputs)).chunk(2, -1)
        log_p = density(z[:, None], mean, log_scale).logsumexp(1) - math.log(INPUTS)
        return (log_q - log_p - likelihood(nets.decoder(z), x)).mean()

    return nets.step(loss)


def draws(kind: str) -> Program:
    import torch
    from torch.nn import functional as F

    images, rows = convolutions(), Nets(VARIABLES * CLASSES)
    rows.decoder = mlp(VARIABLES * CLASSES, HIDDEN, HIDDEN, PIXELS)
    (nets, inputs), codebook = pseudo_inputs(), torch.randn(CODES, ENTRY)

    def logits() -> Any:
        if kind == "vq":
            return images.decoder(codebook[torch.randint(CODES, (BATCH, 7, 7))].movedim(-1, 1)).flatten(1)
        if kind == "gumbel":
            return rows.decoder(F.one_hot(torch.randint(CLASSES, (BATCH, VARIABLES)), CLASSES).flatten(1).float())
        said = nets.encoder(torch.sigmoid(inputs))[torch.randint(INPUTS, (BATCH,))]
        return nets.decoder(drawn(said, 1)[0][0])

    @torch.no_grad()
    def draw() -> Any:
        return torch.bernoulli(torch.sigmoid(logits()))

    return draw


PROGRAMS: dict[str, Callable[[], Program]] = {
    "vq-vae step, 7×7 of 128 codes": quantising,
    "gumbel vae step, 30 of 10 classes": choosing,
    "vae step, 500 pseudo-inputs": mixing,
    "vq-vae, 100 images drawn": lambda: draws("vq"),
    "gumbel vae, 100 images drawn": lambda: draws("gumbel"),
    "vae, pseudo-inputs, 100 images drawn": lambda: draws("vamp"),
}
