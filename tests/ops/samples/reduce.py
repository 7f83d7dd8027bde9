"""Sample calls of the reductions, norms and statistics."""

from __future__ import annotations

import math

import weft

from .base import S, T

X = T((3, 4))
CUBE = T((2, 3, 4))
APART = T((3, 4), -3.0, 3.0, distinct=True)
WIDE = T((3, 4), -90.0, 240.0, distinct=True)  # integers drawn from so far hardly ever meet
POSITIVE = T((3, 4), 0.2, 3.0, distinct=True)
AWAY = T((3, 4), 0.3, 2.0)  # from 0, where norms of low order have no derivative

_DIMS = [S(X), S(X, 1), S(CUBE, dim=(0, -1), keepdim=True), S(X, axis=0, keepdims=True)]
_EXTREMES = [S(APART), S(APART, 1), S(T((2, 3, 4), distinct=True), dim=(0, -1), keepdim=True), S(X, ())]
_PLACES = [S(APART), S(APART, 1), S(APART, dim=0, keepdim=True), S(CUBE, keepdim=True)]
_EITHER = [S(APART), S(APART, 1), S(APART, -1, keepdim=True), S(X, X), S(X, other=T((4,)))]
_SPREAD = [
    S(X),
    S(X, 1),
    S(X, False),
    S(CUBE, (0, 2), True, True),
    S(X, dim=0, correction=0, keepdim=True),
    S(X, correction=0.5),
]
_QUANTILES = [
    S(APART, 0.4),
    S(APART, T((2,), 0.1, 0.9, kind="fixed"), dim=1),
    S(APART, 0.3, dim=-1, keepdim=True, interpolation="lower"),
    S(APART, 0.6, 1, interpolation="higher"),
    S(APART, 0.35, 1, interpolation="nearest"),
    S(APART, 0.35, 1, interpolation="midpoint"),
]

SAMPLES: dict[str, list[S]] = {
    "sum": [*_DIMS, S(X, dtype=weft.float64), S(T((3, 1)), 1)],
    "nansum": [S(X), S(X, 1), S(CUBE, dim=(0, -1), keepdim=True)],
    "mean": [*_DIMS, S(X, 1, dtype=weft.float64)],
    "nanmean": [S(X), S(X, 1), S(CUBE, dim=(0, -1), keepdim=True)],
    "prod": [S(X), S(X, 1), S(X, dim=0, keepdim=True), S(X, dtype=weft.float64)],
    "amax": _EXTREMES,
    "amin": _EXTREMES,
    "aminmax": [S(APART), S(APART, dim=1), S(APART, dim=-1, keepdim=True)],
    "argmax": _PLACES,
    "argmin": _PLACES,
    "max": _EITHER,
    "min": _EITHER,
    "all": [S(T(kind="bool")), S(X, 1), S(CUBE, dim=(0, 2), keepdim=True)],
    "any": [S(T(kind="bool")), S(X, 1), S(CUBE, dim=(0, 2), keepdim=True)],
    "count_nonzero": [S(T(kind="bool")), S(X, 1), S(CUBE, dim=(0, 2))],
    "logsumexp": [S(X, 1), S(CUBE, (0, 2), True), S(T((3, 4), -500.0, 500.0, kind="fixed"), 0)],
    "softmax": [S(X, 1), S(X, dim=0), S(X, -1, dtype=weft.float64)],
    "log_softmax": [S(X, 1), S(X, dim=0), S(X, -1, dtype=weft.float64)],
    "linalg.vector_norm": [
        S(X),
        S(AWAY, 0),
        S(AWAY, 1, 1),
        S(CUBE, 3, (0, -1), True),
        S(AWAY, 0.5, dim=0),
        S(AWAY, -1.5, 1),
        S(POSITIVE, math.inf, 1),
        S(POSITIVE, -math.inf, 1),
        S(X, dtype=weft.float64),
    ],
    "norm": [S(X), S(X, 1, 1), S(AWAY, 2.5, dim=(0, 1), keepdim=True), S(X, "fro", 0), S(T((3, 4)), "nuc")],
    "dist": [S(X, X), S(X, T((4,)), 1), S(X, X, p=3)],
    "renorm": [S(X, 2, 0, 1.0), S(X, p=1, dim=-1, maxnorm=0.5), S(AWAY, 3, 1, 100.0)],
    "var": _SPREAD,
    "std": _SPREAD,
    "var_mean": _SPREAD,
    "std_mean": _SPREAD,
    "quantile": _QUANTILES,
    "nanquantile": _QUANTILES,
    "median": [S(WIDE), S(WIDE, 1), S(WIDE, dim=-1, keepdim=True)],
    "nanmedian": [S(WIDE), S(WIDE, 1), S(WIDE, dim=-1, keepdim=True)],
    "cov": [
        S(X),
        S(T((4,))),
        S(X, correction=0),
        S(X, fweights=T((4,), 1, 4, kind="index"), aweights=T((4,), 0.5, 2.0, kind="fixed")),
    ],
    "corrcoef": [S(X), S(T((2, 5)))],
    "bincount": [S(T((6,), 0, 5, kind="index")), S(T((6,), 0, 5, kind="index"), T((6,), kind="fixed"), 8)],
    "histc": [S(T((3, 4), kind="fixed"), 5, -1.5, 1.5), S(T((3, 4), 0.1, 2.0, kind="fixed"), bins=4, min=0, max=3)],
    "histogram": [
        S(T((3, 4), kind="fixed"), 4),
        S(T((3, 4), kind="fixed"), 4, range=(-1.0, 1.0), density=True),
        S(T((7,), kind="fixed"), 3, weight=T((7,), 0.1, 1.0, kind="fixed")),
    ],
    "histogramdd": [
        S(T((6, 2), kind="fixed"), 3),
        S(T((6, 2), kind="fixed"), [2, 3], range=[-1.0, 1.0, -2.0, 2.0], density=True),
        S(T((6, 2), kind="fixed"), [2, 3], weight=T((6,), 0.1, 1.0, kind="fixed")),
    ],
}
