"""What tests of variational models share: seeds, weights that are not small, models with closed forms."""

from __future__ import annotations

import weft
from weft import nn
from weft.models.variational import VAE, SharedVariance

DOUBLE = {"dtype": weft.float64}


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def filled(model, seed: int = 0, scale: float = 0.7):
    """The model in float64 with normal weights, so that nothing is near 0 by its start."""
    model = model.double()
    generator = seeded(seed)
    with weft.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * weft.randn(parameter.shape, generator=generator, **DOUBLE))
    return model


class Said(nn.Module):
    """An encoder that says the same whatever it sees, a row for each example: gradients of single draws, row by row."""

    def __init__(self, said):
        super().__init__()
        self.said = nn.Parameter(said)

    def forward(self, x):
        return self.said


def one_example(said, samples_rows: int, posterior="diagonal", objective=None):
    """A linear-Gaussian VAE over (rows) copies of one x, each with its own posterior parameters."""
    model = VAE(
        Said(said.repeat(samples_rows, 1)),
        nn.Linear(2, 3, **DOUBLE),
        2,
        SharedVariance(weft.float64),
        posterior=posterior,
    )
    filled(model.decoder, 3)
    model.objective = objective or model.objective
    return model


def bits(rows: int, features: int, seed: int = 0, **options):
    return weft.bernoulli(weft.full((rows, features), 0.4, **options), generator=seeded(seed))
