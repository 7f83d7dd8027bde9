"""Sample calls of sorting, searching and what occurs."""

from __future__ import annotations

from .base import S, T

WIDE = T((3, 4), -90.0, 240.0, distinct=True)  # integers drawn from so far hardly ever meet
FEW = T((3, 4), 0.0, 1.0, kind="fixed")
ONE = T((1,), kind="fixed")  # a line of one is sorted in every draw
_SORTED = [S(WIDE), S(WIDE, 1, True), S(WIDE, stable=True, dim=-1, descending=True), S(WIDE, dim=0)]

SAMPLES: dict[str, list[S]] = {
    "sort": _SORTED,
    "argsort": _SORTED,
    "msort": [S(WIDE), S(T((5,), distinct=True))],
    "topk": [S(WIDE, 2), S(WIDE, 2, 1, False), S(WIDE, k=3, dim=-1, largest=True, sorted=True)],
    "kthvalue": [S(WIDE, 2), S(WIDE, 1, 1, True), S(WIDE, k=4, dim=-1)],
    "mode": [S(WIDE), S(WIDE, 1, True)],
    "searchsorted": [
        S(ONE, T((2, 3), kind="fixed")),
        S(T((3, 1), kind="fixed"), T((3, 2), kind="fixed"), right=True),
        S(ONE, T((4,), kind="fixed"), side="right", out_int32=True),
    ],
    "bucketize": [S(T((2, 3), kind="fixed"), ONE), S(FEW, ONE, right=True)],
    "unique": [
        S(FEW),
        S(FEW, return_inverse=True, return_counts=True),
        S(FEW, dim=0, return_inverse=True),
        S(FEW, sorted=True, return_counts=True, dim=1),
    ],
    "unique_consecutive": [S(FEW), S(FEW, return_inverse=True, return_counts=True), S(FEW, dim=0)],
    "isin": [S(FEW, T((3,), 0.0, 1.0, kind="fixed")), S(FEW, 1), S(FEW, T((2,), kind="fixed"), invert=True)],
}
