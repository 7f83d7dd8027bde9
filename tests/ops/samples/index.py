"""Sample calls of reading and writing places."""

from __future__ import annotations

from .base import S, T

M, C, V = T((3, 4)), T((2, 3, 4)), T((3,))
ROWS, COLUMNS = T((2,), 0, 3, "index"), T((2,), 0, 4, "index")
SQUARE = T((2, 4), 0, 3, "index")
MASK = T((3, 4), kind="bool")

SAMPLES: dict[str, list[S]] = {
    "gather": [S(M, 0, SQUARE), S(M, 1, T((3, 2), 0, 4, "index")), S(C, -1, T((2, 1, 5), 0, 4, "index"))],
    "take_along_dim": [S(M, SQUARE, 0), S(M, T((3, 1), -4, 4, "index"), dim=1), S(V, T((5,), 0, 3, "index"))],
    "scatter": [
        S(M, 0, SQUARE, T((2, 4))),
        S(M, 1, T((3, 2), 0, 4, "index"), T((3, 4))),
        S(M, 0, SQUARE, 2),
        S(M, 0, SQUARE, value=1),
    ],
    "scatter_add": [S(M, 0, SQUARE, T((2, 4))), S(M, 1, T((3, 2), 0, 4, "index"), T((3, 4)))],
    "scatter_reduce": [
        S(M, 0, T((4, 4), 0, 3, "index"), T((4, 4), distinct=True), reduce, include_self=include)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    ],
    "index_select": [S(M, 0, ROWS), S(M, 1, COLUMNS), S(C, -1, T((5,), 0, 4, "index"))],
    "index_add": [S(M, 0, ROWS, T((2, 4))), S(M, 1, COLUMNS, T((3, 2)), alpha=2)],
    "index_copy": [S(M, 0, ROWS, T((2, 4))), S(M, 1, COLUMNS, T((3, 2)))],
    "index_fill": [S(M, 0, ROWS, 2), S(M, 1, COLUMNS, 0), S(M, -1, COLUMNS, T((), kind="fixed"))],
    "index_reduce": [
        S(M, 0, T((4,), 0, 3, "index"), T((4, 4), distinct=True), reduce, include_self=include)
        for reduce in ("prod", "mean", "amax", "amin")
        for include in (True, False)
    ],
    "index_put": [
        S(M, (ROWS,), T((4,))),
        S(M, (ROWS, COLUMNS), T((2,))),
        S(M, (ROWS, COLUMNS), T(()), True),
        S(M, (SQUARE,), T((2, 1, 4)), accumulate=True),
    ],
    "take": [S(M, T((2, 3), -12, 12, "index")), S(C, T((5,), 0, 24, "index"))],
    "put": [S(M, T((5,), 0, 12, "index"), T((5,))), S(M, T((2, 2), -12, 12, "index"), T((4,)), True)],
    "masked_fill": [S(M, MASK, 2), S(M, T((4,), kind="bool"), 0), S(M, MASK, T(()))],
    "masked_select": [S(M, MASK), S(T((3, 1)), T((4,), kind="bool"))],
    "masked_scatter": [S(M, MASK, T((3, 4))), S(M, T((4,), kind="bool"), T((20,)))],
    "nonzero": [S(M), S(MASK), S(MASK, as_tuple=True)],
    "argwhere": [S(M), S(MASK)],
    "nonzero_static": [S(MASK, size=5), S(MASK, size=2, fill_value=7), S(MASK, size=20)],
}

UNSAMPLED: dict[str, str] = {}
