"""Anomalies in time series: a recurrent network says what comes next, and what it did not expect is told (N2 §5).

x̂_{t+1} = x_t + W h_t + b. On series without anomalies the errors e = x − x̂ have mean μ and covariance Σ; the score of a
place is its Mahalanobis distance √((e − μ)ᵀ Σ⁻¹ (e − μ)), and a place is an anomaly if its score exceeds a quantile of
those (Malhotra et al., 2015). Values within the usual range are found, too, if they come at the wrong time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from ..classical.descent import descend
from .recurrent_models import RecurrentEncoder

__all__ = ["AnomalyDetector"]


class AnomalyDetector(nn.Module):
    """Scores of the places of series by how unexpected they are.

    `fit` learns to predict series without anomalies, `calibrate` what errors are usual there: better other series than
    those of `fit`, whose errors are smaller. warm_up: so many places at the beginning have no score, since little is
    known before them. options: those of `RecurrentEncoder`.
    Shape: (B, T, C) → x̂ (B, T, C), x̂_0 = 0

    >>> time = weft.arange(400.0) / 5
    >>> clean = time.sin().reshape(4, 100, 1)
    >>> model = AnomalyDetector(1, 16)
    >>> losses = model.fit(clean, epochs=30)
    >>> model.calibrate(clean).detect(clean).float().mean() < 0.02
    tensor(True)
    """

    def __init__(self, channels: int, hidden_size: int = 32, *, warm_up: int = 10, **options: Any) -> None:
        super().__init__()
        if options.get("bidirectional"):
            raise OptionError("AnomalyDetector: bidirectional layers would see what they are to predict")
        if warm_up < 1:
            raise OptionError(f"AnomalyDetector: expected warm_up of 1 or more, got {warm_up}")
        self.warm_up = warm_up
        self.encoder = RecurrentEncoder(channels, hidden_size, **options)
        self.output = nn.Linear(self.encoder.out_features, channels)
        self.register_buffer("mean", weft.zeros(channels))
        self.register_buffer("precision", weft.eye(channels))  # Σ⁻¹
        self.register_buffer("threshold", weft.tensor(float("inf")))

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        change = self.output(self.encoder(x[:, :-1]))  # (B, T − 1, C)
        return weft.cat([weft.zeros_like(x[:, :1]), x[:, :-1] + change], 1)

    def fit(self, x: Tensor, **options: Any) -> list[float]:
        """Train on series without anomalies; options as in `descend`, with lr = 0.05 and momentum = 0.9 unless given."""
        after = lambda predicted, true: nn.functional.mse_loss(predicted[:, self.warm_up :], true[:, self.warm_up :])
        return descend(self, after, x, x, **{"lr": 0.05, "momentum": 0.9, **options})

    @weft.no_grad()
    def calibrate(self, x: Tensor, quantile: float = 0.99) -> AnomalyDetector:
        """Take the usual errors, and the score that a share `quantile` stays below, from series without anomalies."""
        if not 0 < quantile < 1:
            raise OptionError(f"calibrate: expected a quantile between 0 and 1, got {quantile}")
        errors = self._errors(x).reshape(-1, x.shape[-1]).double()  # (N, C)
        if len(errors) <= x.shape[-1] + 1 or not bool(errors.isfinite().all()):
            raise OptionError(f"calibrate: expected more than {x.shape[-1] + 1} finite errors, got {len(errors)}")
        centred = errors - errors.mean(0)
        covariance = centred.mT @ centred / (len(errors) - 1)  # (C, C)
        scale = covariance.diagonal().mean().clamp(min=1e-12)
        steady = covariance + 1e-6 * scale * weft.eye(len(covariance), dtype=weft.float64)  # channels may be copies
        self.mean.copy_(errors.mean(0))
        self.precision.copy_(weft.linalg.inv(steady))
        self.threshold.copy_(weft.quantile(self.scores(x)[:, self.warm_up :].reshape(-1), quantile))
        return self

    @weft.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """√((e − μ)ᵀ Σ⁻¹ (e − μ)), 0 for the first places; NaN where x is. Shape: (B, T, C) → (B, T)"""
        error = self._errors(x) - self.mean  # (B, T − warm_up, C)
        distance = ((error @ self.precision) * error).sum(-1).clamp(min=0).sqrt()
        return nn.functional.pad(distance, (self.warm_up, 0))

    def detect(self, x: Tensor) -> Tensor:
        """Whether the score exceeds the threshold of `calibrate`. Shape: (B, T, C) → (B, T) of bool"""
        if not np.isfinite(self.threshold.item()):
            raise OptionError("detect: no threshold yet; call calibrate with series without anomalies first")
        return ~(self.scores(x) <= self.threshold)  # what is not a number is one as well

    def _errors(self, x: Tensor) -> Tensor:
        return (x - self(x))[:, self.warm_up :]

    def _check(self, x: Tensor) -> None:
        channels = self.mean.shape[0]
        if x.ndim != 3 or x.shape[2] != channels or x.shape[1] <= self.warm_up:
            raise ShapeError(
                f"AnomalyDetector: expected series (B, T, {channels}) with T > {self.warm_up}, got {tuple(x.shape)}"
            )
