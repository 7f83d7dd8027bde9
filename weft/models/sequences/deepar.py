"""DeepAR: a recurrent network that predicts the distribution of the next value (Salinas, Flunkert, Gasthaus 2017).

h_t = RNN(h_{t−1}, z_{t−1} / ν, x_t),  z_t ~ p(z | θ(h_t), ν).  Training maximises Σ log p(z_t | z_{<t}, x_{≤t}); forecasts
are ancestral samples: each drawn value is the next input. ν, the mean size of a series, puts all series on one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft

from ... import nn
from ...distributions import Distribution, NegativeBinomial, Normal, StudentT
from ...distributions.heads import MIN_SCALE
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .recurrent_models import recurrent_layer

__all__ = ["DeepAR", "GaussianLikelihood", "NegativeBinomialLikelihood", "StudentTLikelihood"]

F = nn.functional
Parts = tuple[Tensor, ...]


class GaussianLikelihood(nn.Module):
    """z ~ N(ν μ, (ν σ)²), σ = softplus(·) + 10⁻⁴. Shape: h (*, H), ν (*) → batch shape (*)."""

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.parameters_of = nn.Linear(in_features, 2)

    def forward(self, h: Tensor, scale: Tensor) -> Normal:
        mean, spread = self.parameters_of(h).unbind(-1)
        return Normal(mean * scale, (F.softplus(spread) + MIN_SCALE) * scale, validate_args=False)


class StudentTLikelihood(nn.Module):
    """(z / ν − μ) / σ ~ Student's t with 2 + softplus(·) degrees of freedom: heavier tails, finite variance."""

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.parameters_of = nn.Linear(in_features, 3)

    def forward(self, h: Tensor, scale: Tensor) -> StudentT:
        mean, spread, freedom = self.parameters_of(h).unbind(-1)
        width = (F.softplus(spread) + MIN_SCALE) * scale
        return StudentT(2 + F.softplus(freedom), mean * scale, width, validate_args=False)


class NegativeBinomialLikelihood(nn.Module):
    """Counts with mean m = ν softplus(·) and variance m + a m², a = softplus(·) / √ν (the paper's eq. for NB).

    As total_count r = 1 / a and odds p / (1 − p) = a m.
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.parameters_of = nn.Linear(in_features, 2)

    def forward(self, h: Tensor, scale: Tensor) -> NegativeBinomial:
        mean, shape = (F.softplus(part) + MIN_SCALE for part in self.parameters_of(h).unbind(-1))
        mean, shape = mean * scale, shape / scale.sqrt()
        return NegativeBinomial(1 / shape, logits=(mean * shape).log(), validate_args=False)


LIKELIHOODS: dict[str, type[nn.Module]] = {
    "gaussian": GaussianLikelihood,
    "student-t": StudentTLikelihood,
    "negative-binomial": NegativeBinomialLikelihood,
}


class DeepAR(nn.Module):
    """p(z_0, …, z_{T−1} | x) = Π_t p(z_t | z_{<t}, x_{≤t}), z_{−1} = 0.

    covariates: width of x_t, what is known of time t beforehand (day of the year, price …); likelihood: "gaussian",
    "student-t" or "negative-binomial" (counts). scale ν: (B,), by default 1 + mean |z| over the given values.
    Shape: z (B, T), x (B, T, covariates) → a distribution with batch shape (B, T)

    >>> model = DeepAR(covariates=2, likelihood="student-t")
    >>> model(weft.zeros(3, 10), weft.zeros(3, 10, 2)).log_prob(weft.zeros(3, 10)).shape
    weft.Size([3, 10])
    """

    def __init__(
        self,
        covariates: int = 0,
        hidden_size: int = 40,
        *,
        likelihood: str = "gaussian",
        cell: str = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if likelihood not in LIKELIHOODS:
            raise OptionError(f"DeepAR: likelihood must be one of {', '.join(LIKELIHOODS)}, got {likelihood!r}")
        self.covariates = covariates
        self.rnn = recurrent_layer(cell, 1 + covariates, hidden_size, num_layers, dropout)
        self.likelihood = LIKELIHOODS[likelihood](hidden_size)

    def forward(self, z: Tensor, x: Tensor | None = None, scale: Tensor | None = None) -> Distribution:
        scale = self.scale_of(z) if scale is None else scale
        return self._distributions(z, x, scale)[0]

    def loss(
        self, z: Tensor, x: Tensor | None = None, scale: Tensor | None = None, skip: int = 0, mask: Tensor | None = None
    ) -> Tensor:
        """Mean −log p(z_t | …) over t ≥ skip, and where `mask` (B, T) says so."""
        nll = -self(z, x, scale).log_prob(z)[:, skip:]
        if mask is None:
            return nll.mean()
        counted = mask[:, skip:].to(nll.dtype)
        return (nll * counted).sum() / counted.sum().clamp(min=1)

    def scale_of(self, z: Tensor) -> Tensor:
        """ν = 1 + mean |z|. Shape: (B, T) → (B,)"""
        return 1 + z.abs().mean(1)

    @weft.no_grad()
    def sample(
        self,
        z: Tensor,
        horizon: int,
        x: Tensor | None = None,
        *,
        samples: int = 100,
        scale: Tensor | None = None,
        seed: int = 0,
    ) -> Tensor:
        """Paths of the next `horizon` values, each value drawn given those before it.

        Shape: z (B, T), x (B, T + horizon, covariates) → (samples, B, horizon)
        """
        batch, past = z.shape
        if self.covariates and (x is None or x.shape[1] != past + horizon):
            found = None if x is None else tuple(x.shape)
            raise ShapeError(f"DeepAR.sample: expected x ({batch}, {past + horizon}, {self.covariates}), got {found}")
        scale = self.scale_of(z) if scale is None else scale
        known = None if x is None else x[:, :past]
        _, state = self._distributions(z, known, scale)
        state = tuple(s.repeat(1, samples, 1) for s in state)  # (L, B, H) → (L, S·B, H)
        last, scale = z[:, -1].repeat(samples), scale.repeat(samples)  # (S·B,)
        drawn: list[Tensor] = []
        with weft.random.fork_rng():
            weft.manual_seed(seed)
            for t in range(past, past + horizon):
                now = None if x is None else x[:, t : t + 1].repeat(samples, 1, 1)  # (S·B, 1, C)
                last, state = self.drawn_next(last, now, state, scale)
                drawn.append(last)
        return weft.stack(drawn, 1).reshape(samples, batch, horizon)  # (S·B, horizon) → (S, B, horizon)

    def drawn_next(self, last: Tensor, x: Tensor | None, state: Parts | None, scale: Tensor) -> tuple[Tensor, Parts]:
        """The value after `last`, drawn, and the state: (B,), (B, 1, covariates), (B,) → (B,)"""
        h, state = self._advance((last / scale).unsqueeze(1), x, state)
        return self.likelihood(h, scale.unsqueeze(1)).sample()[:, 0], state

    def quantiles(self, z: Tensor, horizon: int, levels: Sequence[float], *args: Any, **options: Any) -> Tensor:
        """Quantiles of `sample`, one row a level. Shape: → (Q, B, horizon)"""
        paths = self.sample(z, horizon, *args, **options)
        return weft.quantile(paths, weft.tensor(list(levels), dtype=paths.dtype), dim=0)

    def _distributions(self, z: Tensor, x: Tensor | None, scale: Tensor) -> tuple[Distribution, Parts]:
        """Distributions of all z_t given what was before, and the state after the last input z_{T−2}."""
        before = F.pad(z[:, :-1], (1, 0)) / scale.unsqueeze(1)  # z_{t−1}: (B, T)
        h, state = self._advance(before, x, None)
        return self.likelihood(h, scale.unsqueeze(1)), state

    def _advance(self, before: Tensor, x: Tensor | None, state: Parts | None) -> tuple[Tensor, Parts]:
        """The features h_t and the state after scaled inputs (B, T)."""
        if (x is None) != (not self.covariates):
            raise ShapeError(
                f"DeepAR: expected covariates of width {self.covariates}, got {None if x is None else x.shape}"
            )
        inputs = before.unsqueeze(-1) if x is None else weft.cat([before.unsqueeze(-1), x], -1)  # (B, T, 1 + C)
        given = state if state is None or isinstance(self.rnn, nn.LSTM) else state[0]
        h, after = self.rnn(inputs, given)
        return h, (after,) if isinstance(after, Tensor) else tuple(after)
