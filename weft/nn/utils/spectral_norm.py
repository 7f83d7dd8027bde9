"""Spectral normalisation: w / σ(w), σ the largest singular value, followed by power iteration."""

from __future__ import annotations

from typing import TypeVar

from ...errors import InvalidValueError
from ...refusal import need_bounded
from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..parameter import Parameter
from .recompute import RecomputedWeight, detach, refuse_second

__all__ = ["remove_spectral_norm", "spectral_norm"]

M = TypeVar("M", bound=Module)


def output_dim(module: Module) -> int:
    """The dimension of a weight that numbers the outputs: 1 for transposed convolutions, else 0."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with dimension `dim` as rows: (…, n, …) → (n, all others)."""
    return weight.movedim(dim, 0).flatten(1) if weight.ndim > 1 else weight.unsqueeze(1)


def random_direction(length: int, like: Tensor, eps: float) -> Tensor:
    """A random unit vector."""
    return F.normalize(like.new_empty(length).normal_(), dim=0, eps=eps)


class SpectralNorm(RecomputedWeight):
    """Computes `name` from `name`_orig; u and v estimate the singular vectors of the largest singular value."""

    title = "spectral_norm"

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        need_bounded(n_power_iterations, "spectral_norm", "n_power_iterations", 10_000)
        if n_power_iterations <= 0:
            raise InvalidValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        super().__init__(name)
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def compute_weight(self, module: Module) -> Tensor:
        """w / (uᵀ W v), after v ← Wᵀu / ‖Wᵀu‖, u ← Wv / ‖Wv‖ in training."""
        return self._normalized(module, module.training)

    def _normalized(self, module: Module, iterate: bool) -> Tensor:
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)  # (n, m)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.mT @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()  # a later call moves the buffers, this graph keeps its own
        return weight / u.dot(matrix @ v)

    def remove(self, module: Module) -> None:
        with no_grad():
            weight = self._normalized(module, False)
        for ending in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + ending)
        module.register_parameter(self.name, Parameter(weight.detach()))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide parameter `name` by its largest singular value before every call, so that the layer is 1-Lipschitz.

    Keys: `name`_orig, and the buffers `name`_u, `name`_v. The older form; `parametrizations.spectral_norm` is the newer.
    """
    refuse_second(SpectralNorm, module, name)
    hook = SpectralNorm(name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    weight = getattr(module, name)
    rows, columns = as_matrix(weight.detach(), hook.dim).shape
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", random_direction(rows, weight, eps))
    module.register_buffer(name + "_v", random_direction(columns, weight, eps))
    hook.attach(module)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the normalised weight an ordinary parameter again."""
    detach(SpectralNorm, module, name)
    return module
