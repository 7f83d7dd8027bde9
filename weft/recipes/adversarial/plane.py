"""What gan-ring and gan-grid share: mixtures in the plane whose modes are known, three games on each, figures and pictures."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import weft

from ...data import DataLoader, TensorDataset
from ...metrics.modes import ModeCounts, mode_counts
from ...models.adversarial.gan import GAN
from ...models.adversarial.penalties import GradientPenalty, ZeroPenalty
from ...models.adversarial.rows import mlp
from ...models.adversarial.training import AdversarialTraining
from ...tensor import Tensor
from ...train import Trainer
from ...train.callbacks import EMA
from .. import pictures
from ..base import Recipe, Run
from ..settings import Settings, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GAMES", "PlaneGAN", "PlaneSettings"]

# loss, penalties, steps of the discriminator, Adam's betas. The plain game has Adam as it comes: also its rate, which does
# not fall, and no averages.
GAMES: dict[str, Any] = {
    "hinge": ("hinge", lambda s: [ZeroPenalty(s.r1)], 1, (0.0, 0.9)),
    "wasserstein": ("wasserstein", lambda s: [GradientPenalty(s.gp)], None, (0.0, 0.9)),
    "plain": ("minimax", lambda s: [], 1, (0.9, 0.999)),
}
PLAIN_RATE = 1e-3
EPOCH = 100  # steps between two looks at the rates
DRAWN = 10_000


@dataclass(kw_only=True)
class PlaneSettings(Settings):
    """Settings of games in the plane."""

    steps: int = option(4000, "steps of the generator", at_least=1)
    batch_size: int = option(256, "points in a step of either player", at_least=2)
    hidden: int = option(128, "units of each of three hidden layers of both players", at_least=1)
    lr: float = option(5e-4, "learning rate of both, falling to 0 in the second half", above=0)
    r1: float = option(0.1, "weight of the R1 penalty beside the hinge loss", at_least=0)
    gp: float = option(0.1, "weight of the gradient penalty of the Wasserstein critic", at_least=0)
    critic_steps: int = option(5, "steps of the Wasserstein critic for one of the generator", at_least=1)
    average: float = option(0.99, "decay of the mean of the generator's weights that is tested", at_least=0)


class PlaneGAN(Recipe):
    """Hinge with R1, WGAN-GP and the plain game, the same networks and rates; a subclass states the mixture."""

    Settings = PlaneSettings
    noise: float  # of each mode
    scale: float = 1.0  # the games see points divided by this

    @abstractmethod
    def points(self, n: int, generator: weft.Generator) -> Tensor:
        """n fresh points: (n, 2)"""

    @abstractmethod
    def centres(self) -> Tensor:
        """Of the modes: (K, 2)"""

    def least_modes(self) -> int:
        """How many modes the goal asks for."""
        return len(self.centres())

    def fit(self, run: Run) -> tuple[dict[str, float], Any]:
        settings, figures, drawn = run.settings, {}, {}
        for number, name in enumerate(GAMES):
            drawn[name] = self.played(name, settings)
            found = mode_counts(drawn[name], self.centres(), self.noise)
            row = {f"{name}_modes": float(found.modes), f"{name}_good": found.good, f"{name}_kl": _finite(found)}
            run.folder.append({"kind": "epoch", "epoch": number, "step": settings.steps, **row})
            figures |= row
        streams = weft.Generator().manual_seed(settings.seed).split(2)
        real = self.points(DRAWN, streams[1])
        run.draw(lambda: self.picture(real, drawn))
        figures["data_good"] = mode_counts(real, self.centres(), self.noise).good
        games = [figures[f"{name}_good"] * (figures[f"{name}_modes"] >= self.least_modes()) for name in list(GAMES)[:2]]
        return {"good": min(games), self.goal.beside: figures["plain_good"], **figures}, None

    def played(self, name: str, settings: PlaneSettings) -> Tensor:
        """10,000 draws of a generator after one of `GAMES`: (10000, 2)"""
        loss, penalties, steps, betas = GAMES[name]
        k, width = steps or settings.critic_steps, (settings.hidden,) * 3
        weft.manual_seed(settings.seed)
        gan = GAN(mlp(2, width, 2), mlp(2, width, 1), 2, loss, penalties=penalties(settings))
        epochs = max(settings.steps // EPOCH, 1)
        plain = name == "plain"
        rate = PLAIN_RATE if plain else settings.lr
        options = {"betas": betas, "steps": k, "epochs": None if plain else epochs}
        task = AdversarialTraining(gan, (rate, rate), **options)
        batch, count = k * settings.batch_size, min(EPOCH, settings.steps)
        stream = weft.Generator().manual_seed(settings.seed).split(2)[0]
        data = TensorDataset(self.points(batch * count, stream) / self.scale)
        loader = DataLoader(data, batch_size=batch, shuffle=True, drop_last=True, seed=settings.seed)
        callbacks = [EMA(settings.average, part="model.generator")] if settings.average and not plain else []
        Trainer(max_epochs=epochs, run_folder=False, progress=False, callbacks=callbacks).fit(task, loader)
        return self.scale * gan.sample(DRAWN, generator=weft.Generator().manual_seed(settings.seed + 1))

    def picture(self, real: Tensor, drawn: dict[str, Tensor]) -> Figure:
        """Data beside the draws of each game."""
        figure, axes = pictures.blank(self.title, 1 + len(drawn), width=3.2, height=3.5)
        limit = 1.25 * self.centres().abs().max().item()
        for axis, (name, points) in zip(axes, {"data": real, **drawn}.items(), strict=True):
            axis.plot(*points[:2500].numpy().T, ".", ms=1.5, alpha=0.4, color=pictures.COLOURS[0])
            axis.set(title=name, xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xticks=[], yticks=[])
        return figure


def _finite(found: ModeCounts) -> float:
    return found.kl if found.good else 99.0
