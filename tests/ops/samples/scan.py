"""Sample calls of the scans, differences and integrals."""

from __future__ import annotations

import weft

from .base import S, T

X = T((3, 4))
APART = T((3, 4), -3.0, 3.0, distinct=True)
_ALONG = [S(X, 1), S(X, dim=0), S(T((2, 3, 2)), -2)]
_AREAS = [S(X), S(X, dim=0), S(X, dx=0.5), S(X, T((4,), -1.0, 1.0)), S(X, X, dim=0)]

_PLACES = T((4,), 1.0, 5.0, distinct=True)

SAMPLES: dict[str, list[S]] = {
    "gradient": [
        S(X),
        S(X, dim=1, edge_order=2),
        S(X, spacing=0.5, dim=(0, -1)),
        S(X, spacing=[2.0, 3], edge_order=2),
        S(X, spacing=(_PLACES,), dim=1),
        S(T((2, 4)), spacing=[_PLACES], dim=(1,), edge_order=2),
        S(T((2,))),
        S(T(())),
    ],
    "cumsum": [*_ALONG, S(X, 1, dtype=weft.float64)],
    "cumprod": [*_ALONG, S(X, 1, dtype=weft.float64)],
    "logcumsumexp": _ALONG,
    "cummax": [S(APART, 1), S(APART, dim=0)],
    "cummin": [S(APART, 1), S(APART, dim=0)],
    "diff": [S(X), S(X, 2, 0), S(X, n=1, dim=-1, prepend=T((3, 1)), append=T((3, 2))), S(X, 5)],
    "trapezoid": _AREAS,
    "trapz": _AREAS,
    "cumulative_trapezoid": _AREAS,
}
