"""What tests of autoregressive models share."""

from __future__ import annotations

import numpy as np
from scipy import stats

import weft


def seeded(seed: int = 0) -> weft.Generator:
    return weft.Generator().manual_seed(seed)


def filled(model, scale: float = 1.0, seed: int = 0):
    """Weights large enough that nothing is hidden by being small."""
    generator = seeded(seed)
    with weft.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * weft.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


def classes_of(model, x, number: int = 1):
    """A condition for each row, or None for a model without classes."""
    return weft.full((len(x),), number, dtype=weft.int64) if model.classes else None


def drawn_as_promised(samples, states, log_prob) -> None:
    """The frequencies of all states of a small space against their probabilities (χ²)."""
    weights = 2 ** np.arange(states.shape[1])
    number = lambda rows: (rows.numpy().reshape(len(rows), -1) @ weights).astype(int)
    counts = np.bincount(number(samples), minlength=len(states))[number(states)]
    expected = np.exp(log_prob.detach().numpy().astype(np.float64)) * len(samples)
    rare = expected < 5
    pooled = [np.append(v[~rare], v[rare].sum()) for v in (counts, expected)]
    kept = pooled[1] > 1
    seen, wanted = pooled[0][kept], pooled[1][kept]
    assert stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 1e-4
