"""Adversarial models for bench/generative.py: the steps of both players, and drawing; Weft's programs, then PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

POINTS, HIDDEN, CRITIC, IMAGES, LATENT, WIDTH = 256, 128, 5, 64, 64, 32
RATE, BETAS = 1e-4, (0.0, 0.9)
Program = Callable[[], Any]

NAMES = (
    "gan hinge step, 3 × 128, 256 points",
    "wgan-gp step, 3 × 128, 5 critic steps",
    "dcgan step, 28×28, width 32, 64 images",
    "cyclegan step, 2 × 64, 256 points",
    "gan sampling, 3 × 128, 1024 points",
    "dcgan sampling, 28×28, 64 images",
)


# ------------------------------------------------------------------------------------------------- Weft


def played(model: Any, batch: Any, k: int = 1) -> Program:
    """The step of `AdversarialTraining`, without its trainer."""
    import weft
    from weft.models.adversarial.training import shared_out

    sides = [list(side) for side in (model.generator_parameters(), model.discriminator_parameters())]
    drawing, telling = (weft.optim.Adam(side, lr=RATE, betas=BETAS) for side in sides)

    @weft.compile
    def step() -> None:
        parts = shared_out(batch, k)
        for part in parts:
            model.discriminator_loss(part).backward(inputs=sides[1])
            telling.step()
            telling.zero_grad()
        model.generator_loss(parts[-1]).backward(inputs=sides[0])
        drawing.step()
        drawing.zero_grad()

    return step


def plane(loss: str = "hinge", penalties: Any = ()) -> Any:
    from weft.models.adversarial import GAN, mlp

    return GAN(mlp(2, (HIDDEN,) * 3, 2), mlp(2, (HIDDEN,) * 3, 1), 2, loss, penalties=penalties)


def convolutional() -> Any:
    from weft.models.adversarial import GAN, DCDiscriminator, DCGenerator

    return GAN(DCGenerator(LATENT, 1, 28, WIDTH), DCDiscriminator(1, 28, WIDTH), LATENT)


def wasserstein() -> Program:
    import weft
    from weft.models.adversarial import GradientPenalty

    return played(plane("wasserstein", [GradientPenalty(0.1)]), weft.randn(CRITIC * POINTS, 2), CRITIC)


def cycle() -> Program:
    import weft
    from weft.models.adversarial import CycleGAN, mlp

    nets = [mlp(2, (64, 64), out) for out in (2, 2, 1, 1)]
    return played(CycleGAN(*nets), (weft.randn(POINTS, 2), weft.randn(POINTS, 2)))


def sampling(make: Callable[[], Any], n: int) -> Program:
    model = make().eval()
    return lambda: model.sample(n)


def images() -> Any:
    import weft

    return weft.rand(IMAGES, 1, 28, 28) * 2 - 1


def points() -> Any:
    import weft

    return weft.randn(POINTS, 2)


OURS: dict[str, Callable[[], Program]] = dict(
    zip(
        NAMES,
        (
            lambda: played(plane(), points()),
            wasserstein,
            lambda: played(convolutional(), images()),
            cycle,
            lambda: sampling(plane, 1024),
            lambda: sampling(convolutional, IMAGES),
        ),
        strict=True,
    )
)


# ------------------------------------------------------------------------------------------------- PyTorch


def rows(inputs: int, hidden: tuple[int, ...], outputs: int) -> Any:
    from torch import nn

    sizes, layers = [inputs, *hidden, outputs], []
    for i in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def maps() -> tuple[Any, Any]:
    """DCGAN's players."""
    from torch import nn

    make = nn.Sequential(
        nn.Linear(LATENT, 2 * WIDTH * 49, bias=False),
        nn.Unflatten(1, (2 * WIDTH, 7, 7)),
        nn.BatchNorm2d(2 * WIDTH),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, 2, 1, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
        nn.ConvTranspose2d(WIDTH, 1, 4, 2, 1),
        nn.Tanh(),
    )
    tell = nn.Sequential(
        nn.Conv2d(1, WIDTH, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(WIDTH, 2 * WIDTH, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * WIDTH),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2 * WIDTH * 49, 1),
    )
    return make, tell


def adams(make: Any, tell: Any) -> list[Any]:
    import torch

    return [torch.optim.Adam(net.parameters(), lr=RATE, betas=BETAS) for net in (make, tell)]


def their_game(make: Any, tell: Any, x: Any, latent: int, told: Any, drawn: Any, k: int = 1) -> Program:
    """k steps of the discriminator with fresh noise, one of the generator, each with its own gradients alone."""
    import torch

    drawing, telling = adams(make, tell)
    parts = x.chunk(k)

    def step() -> None:
        for part in parts:
            with torch.no_grad():
                fake = make(torch.randn(len(part), latent))
            telling.zero_grad()
            told(tell, part, fake).backward()
            telling.step()
        tell.requires_grad_(False)
        drawing.zero_grad()
        drawn(tell(make(torch.randn(len(part), latent)))).backward()
        drawing.step()
        tell.requires_grad_(True)

    return step


def their_wasserstein(tell: Any, x: Any, fake: Any) -> Any:
    import torch

    alpha = torch.rand(len(x), 1)
    at = (alpha * x + (1 - alpha) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(tell(at).sum(), at, create_graph=True)
    return tell(fake).mean() - tell(x).mean() + 0.1 * ((slope.norm(dim=1) - 1) ** 2).mean()


def their_hinge(tell: Any, x: Any, fake: Any) -> Any:
    return (1 - tell(x)).relu().mean() + (1 + tell(fake)).relu().mean()


def their_logistic(tell: Any, x: Any, fake: Any) -> Any:
    from torch.nn.functional import softplus

    return softplus(-tell(x)).mean() + softplus(tell(fake)).mean()


def their_plane(told: Any, k: int = 1) -> Program:
    import torch

    make, tell = rows(2, (HIDDEN,) * 3, 2), rows(2, (HIDDEN,) * 3, 1)
    return their_game(make, tell, torch.randn(k * POINTS, 2), 2, told, lambda score: -score.mean(), k)


def their_images() -> Program:
    import torch

    x = torch.rand(IMAGES, 1, 28, 28) * 2 - 1
    return their_game(*maps(), x, LATENT, their_logistic, lambda s: torch.nn.functional.softplus(-s).mean())


def their_cycle() -> Program:
    import torch

    forth, back, tell_x, tell_y = (rows(2, (64, 64), out) for out in (2, 2, 1, 1))
    x, y = torch.randn(2, POINTS, 2)
    makers, tellers = torch.nn.ModuleList([forth, back]), torch.nn.ModuleList([tell_x, tell_y])
    drawing, telling = adams(makers, tellers)
    half = lambda score, to: 0.5 * ((score - to) ** 2).mean()

    def step() -> None:
        with torch.no_grad():
            a, b = back(y), forth(x)
        telling.zero_grad()
        (half(tell_x(x), 1) + half(tell_x(a), 0) + half(tell_y(y), 1) + half(tell_y(b), 0)).backward()
        telling.step()
        tellers.requires_grad_(False)
        drawing.zero_grad()
        a, b = back(y), forth(x)
        loss = half(tell_x(a), 1) + half(tell_y(b), 1)
        (loss + 10 * ((back(b) - x).abs().mean() + (forth(a) - y).abs().mean())).backward()
        drawing.step()
        tellers.requires_grad_(True)

    return step


def their_sampling(make: Any, latent: int, n: int) -> Program:
    import torch

    make.eval()

    def draw() -> Any:
        with torch.no_grad():
            return make(torch.randn(n, latent))

    return draw


PROGRAMS: dict[str, Callable[[], Program]] = dict(
    zip(
        NAMES,
        (
            lambda: their_plane(their_hinge),
            lambda: their_plane(their_wasserstein, CRITIC),
            their_images,
            their_cycle,
            lambda: their_sampling(rows(2, (HIDDEN,) * 3, 2), 2, 1024),
            lambda: their_sampling(maps()[0], LATENT, IMAGES),
        ),
        strict=True,
    )
)
