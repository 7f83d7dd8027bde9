"""KL(p‖q) of normal distributions: scalar, full covariance, low-rank covariance."""

from __future__ import annotations

import weft

from ...errors import InvalidValueError
from ...tensor import Tensor
from ..lowrank_multivariate_normal import LowRankMultivariateNormal, low_rank_mahalanobis
from ..multivariate_normal import MultivariateNormal, mahalanobis
from ..normal import Normal
from .registry import register_kl


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    """½ (σ_p²/σ_q² + (μ_p − μ_q)²/σ_q² − 1 − log σ_p²/σ_q²)."""
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


def _same_size(p: MultivariateNormal, q: MultivariateNormal) -> None:
    if p.event_shape != q.event_shape:
        raise InvalidValueError(
            f"KL-divergence between two (multivariate) normals with different event shapes cannot be computed: "
            f"{p.event_shape} and {q.event_shape}"
        )


def _assembled(log_dets: Tensor, trace: Tensor, distance: Tensor, size: int) -> Tensor:
    """½ (log det Σ_q/det Σ_p + tr Σ_q⁻¹Σ_p + (μ_q − μ_p)ᵀ Σ_q⁻¹ (μ_q − μ_p) − D)."""
    return 0.5 * (log_dets + trace + distance - size)


def _log_det(d: MultivariateNormal | LowRankMultivariateNormal) -> Tensor:
    return 2 * d._half_log_det() if isinstance(d, MultivariateNormal) else d._log_det()


def _squared_norm(matrix: Tensor) -> Tensor:
    return matrix.square().sum((-2, -1))


def _solved_norm(factor: Tensor, matrix: Tensor) -> Tensor:
    """|L⁻¹ M|²: tr (L Lᵀ)⁻¹ M Mᵀ."""
    batch = weft.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    factor, matrix = factor.expand(batch + factor.shape[-2:]), matrix.expand(batch + matrix.shape[-2:])
    return _squared_norm(weft.linalg.solve_triangular(factor, matrix, upper=False))


def _low_rank_trace(q: LowRankMultivariateNormal, matrix: Tensor) -> Tensor:
    """tr Σ_q⁻¹ M Mᵀ by Woodbury's identity."""
    weighted = matrix / q.cov_diag.unsqueeze(-1)
    projected = q.cov_factor.mT @ weighted  # (*, R, ·)
    whitened = _squared_norm(matrix / q.cov_diag.sqrt().unsqueeze(-1))
    return whitened - _solved_norm(q._capacitance_tril, projected)


@register_kl(MultivariateNormal, MultivariateNormal)
def _full_full(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _same_size(p, q)
    trace = _solved_norm(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    distance = mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return _assembled(_log_det(q) - _log_det(p), trace, distance, p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_full(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _same_size(p, q)
    factor = q._unbroadcasted_scale_tril
    trace = _solved_norm(factor, p.cov_factor) + _solved_norm(factor, p.cov_diag.sqrt().diag_embed())
    return _assembled(_log_det(q) - _log_det(p), trace, mahalanobis(factor, q.loc - p.loc), p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_low(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _same_size(p, q)
    distance = low_rank_mahalanobis(q.cov_factor, q.cov_diag, q.loc - p.loc, q._capacitance_tril)
    trace = _low_rank_trace(q, p.scale_tril)
    return _assembled(_log_det(q) - _log_det(p), trace, distance, p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_low(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _same_size(p, q)
    distance = low_rank_mahalanobis(q.cov_factor, q.cov_diag, q.loc - p.loc, q._capacitance_tril)
    trace = _low_rank_trace(q, p.cov_factor) + _low_rank_trace(q, p.cov_diag.sqrt().diag_embed())
    return _assembled(_log_det(q) - _log_det(p), trace, distance, p.event_shape[0])
