"""Ready-made parametrisations: weight normalisation, spectral normalisation, orthogonal matrices."""

from __future__ import annotations

from typing import TypeVar

import weft

from ...errors import IndexRangeError, InvalidValueError, UnsupportedError
from ...refusal import need_bounded
from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .parametrize import register_parametrization
from .spectral_norm import as_matrix, output_dim, random_direction
from .weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class _WeightNorm(Module):
    """w = g · v / ‖v‖."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """w = g · v / ‖v‖ with ‖·‖ over all dimensions but `dim`: original0 is g, original1 is v (N2 §3.7)."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_older_keys(layer: Module, state: dict, prefix: str, *_: object) -> None:
        for number, ending in enumerate(("_g", "_v")):
            if prefix + name + ending in state:
                state[f"{prefix}parametrizations.{name}.original{number}"] = state.pop(prefix + name + ending)

    module.register_load_state_dict_pre_hook(read_older_keys)
    return module


class _SpectralNorm(Module):
    """w / (uᵀ W v); in training each call moves u ← Wv / ‖Wv‖, v ← Wᵀu / ‖Wᵀu‖ towards the singular vectors."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        need_bounded(n_power_iterations, "spectral_norm", "n_power_iterations", 10_000)
        if n_power_iterations <= 0:
            raise InvalidValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexRangeError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        self.n_power_iterations, self.eps = n_power_iterations, eps
        self.dim = dim % weight.ndim
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            self.register_buffer("_u", random_direction(matrix.shape[0], weight, eps))
            self.register_buffer("_v", random_direction(matrix.shape[1], weight, eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mT @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)  # (n, m)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # a later call moves the buffers, this graph keeps its own
        return weight / u.dot(matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """w / σ, σ the largest singular value of the weight seen as a matrix with rows along `dim`."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise InvalidValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


# ------------------------------------------------------------------------------------------- orthogonal


def _skew(x: Tensor) -> Tensor:
    """A − Aᴴ from the lower triangle of (n, k), k ≤ n, with zeros for the missing columns: (n, n)."""
    rows, columns = x.shape[-2:]
    a = F.pad(x.tril(), (0, rows - columns)) if columns < rows else x.tril()
    return a - a.mH


def _exponential(x: Tensor) -> Tensor:
    """exp(A), A skew: a rotation. (n, k) → (n, k)."""
    return weft.linalg.matrix_exp(_skew(x))[..., : x.shape[-1]]


def _cayley(x: Tensor) -> Tensor:
    """(I − A/2)⁻¹ (I + A/2), A skew: a rotation without eigenvalue −1. (n, k) → (n, k)."""
    half = _skew(x) / 2
    unit = weft.eye(half.shape[-1], dtype=x.dtype)
    return weft.linalg.solve(unit - half, unit + half)[..., : x.shape[-1]]


def _householder(x: Tensor) -> Tensor:
    """A product of reflections I − τ v vᴴ, v from below the diagonal, with the diagonal as signs. (n, k) → (n, k)."""
    a = x.tril(-1)
    tau = 2 / (1 + (a * a.conj()).sum(-2))
    return weft.linalg.householder_product(a, tau) * x.diagonal(dim1=-2, dim2=-1).detach().sign().unsqueeze(-2)


_MAPS = {"matrix_exp": _exponential, "cayley": _cayley, "householder": _householder}


def _make_orthogonal(matrix: Tensor) -> Tensor:
    """The Q factor whose R has a positive diagonal."""
    q, r = weft.linalg.qr(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Q (n, k) with orthonormal columns (rows if n < k): a map of the original, times the fixed `base` if there is one."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise InvalidValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        self.register_buffer("base", None)
        self._trivialized = use_trivialization

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        q = _MAPS[self.orthogonal_map](X.mT if wide else X)
        q = q if self.base is None else self.base @ q
        return q.mT if wide else q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """An original for (the orthogonal matrix next to) Q."""
        if tuple(Q.shape) != tuple(self.shape):
            raise InvalidValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q  # (n, k), k ≤ n
        if self._trivialized:
            x = self._move_base(tall)
        elif self.orthogonal_map != "householder":
            raise UnsupportedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        else:
            x = self._reflections(tall)
        return x.mT if wide else x

    def _move_base(self, tall: Tensor) -> Tensor:
        """Take Q, completed to a square matrix, as base; the original becomes the point that is mapped to I."""
        rows, columns = tall.shape[-2:]
        q = tall.detach().clone() if _is_orthogonal(tall) else _make_orthogonal(tall)
        if columns < rows:
            more = weft.randn(*q.shape[:-1], rows - columns, dtype=q.dtype)
            more = more - q @ (q.mH @ more)
            more = more - q @ (q.mH @ more)  # twice is enough
            q = weft.cat([q, _make_orthogonal(more)], -1)
        self.base = q
        return -weft.eye(rows, columns, dtype=q.dtype).expand(*tall.shape).clone()

    def _reflections(self, tall: Tensor) -> Tensor:
        """The Householder vectors of Q below the diagonal, its signs on it."""
        a, tau = weft.geqrf(tall)
        signs = a.diagonal(dim1=-2, dim2=-1).sign()
        signs = weft.where(tau == 0, -signs, signs)  # no reflection there: the map always makes one
        return a.tril(-1) + weft.eye(*tall.shape[-2:], dtype=a.dtype) * signs.unsqueeze(-2)


def _is_orthogonal(q: Tensor) -> bool:
    unit = weft.eye(q.shape[-1], dtype=q.dtype)
    eps = 10 * q.shape[-2] * weft.finfo(q.dtype).eps
    return bool(((q.mH @ q - unit).abs() <= eps).all())


def orthogonal(
    module: M, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> M:
    """Keep the matrix `name` (n, k) orthogonal: QᵀQ = I for n ≥ k, QQᵀ = I else.

    Maps: 'matrix_exp' exp(A), 'cayley' (I − A/2)⁻¹(I + A/2) with A skew, 'householder' a product of reflections (the
    default if n ≠ k). With `use_trivialization` Q = base · map(original), and the present weight, made orthogonal,
    is the starting point.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise InvalidValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise InvalidValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise InvalidValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    kind = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, kind, unsafe=True)
