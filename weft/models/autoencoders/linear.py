"""The linear autoencoder, which is principal component analysis, trained or in closed form (N1 thm. 7.1, N2 §2.3.5)."""

from __future__ import annotations

from typing import Any

import weft

from ... import nn
from ...errors import OptionError, ShapeError
from ...tensor import Tensor
from .autoencoder import Autoencoder

__all__ = ["LinearAutoencoder", "principal_angles"]


class LinearAutoencoder(Autoencoder):
    """z = V x + b,  x̂ = U z + c, squared error.

    Its least mean error is the sum of the eigenvalues of the covariance that do not fit in, λ_{k+1} + … + λ_D; U then
    spans the first k principal directions, though it need not consist of them: any invertible k × k map may stand
    between V and U. There are no other minima, but saddles (Baldi and Hornik 1989).

    Shape: (B, features) → (B, code) → (B, features)
    """

    def __init__(self, features: int, code: int, dtype: Any = None) -> None:
        if not 1 <= code <= features:
            raise OptionError(f"LinearAutoencoder: expected a code of 1 to {features} numbers, got {code}")
        super().__init__(nn.Linear(features, code, dtype=dtype), nn.Linear(code, features, dtype=dtype))

    @weft.no_grad()
    def solve(self, x: Tensor) -> Tensor:
        """Take the closed form: U = Vᵀ the leading eigenvectors of the covariance, codes centred. Returns all eigenvalues.

        Computed in float64; the covariance is that of N rows, not N − 1: its eigenvalues are mean squared errors.
        Shape: (N, features) → (features,), from the largest
        """
        weight = self.encoder.weight
        if x.ndim != 2 or x.shape[1] != weight.shape[1]:
            raise ShapeError(f"LinearAutoencoder: expected x of shape (N, {weight.shape[1]}), got {tuple(x.shape)}")
        mean = x.double().mean(0)
        centred = x.double() - mean
        values, vectors = weft.linalg.eigh(centred.mT @ centred / len(x))  # from the smallest
        basis = vectors.flip(1)[:, : len(weight)]  # (D, k)
        weight.copy_(basis.mT)
        self.encoder.bias.copy_(-(mean @ basis))
        self.decoder.weight.copy_(basis)
        self.decoder.bias.copy_(mean)
        return values.flip(0)


def principal_angles(first: Tensor, second: Tensor) -> Tensor:
    """Angles between the spaces that the columns of two matrices span, from the largest: (D, k), (D, m) → (min(k, m),).

    By the sines of the part of one space outside of the other, which are exact for small angles where cosines are not
    (Björck and Golub 1973).
    """
    a, b = (weft.linalg.qr(basis.detach().double())[0] for basis in (first, second))
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    sines = weft.linalg.svdvals(b - a @ (a.mT @ b))
    cosines = weft.linalg.svdvals(a.mT @ b).flip(0)
    return weft.where(sines**2 < 0.5, sines.clamp(max=1).asin(), cosines.clamp(max=1).acos())
