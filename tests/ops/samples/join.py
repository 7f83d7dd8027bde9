"""Sample calls of what puts tensors together, repeats, turns, pads and lays them out."""

from __future__ import annotations

from .base import S, T

M, C, V = T((3, 4)), T((2, 3, 4)), T((3,))
_JOINED = [S([M, T((2, 4))]), S([M, M, T((3, 1))], 1), S([T((0,)), M], dim=-2), S([V, V])]
_ROWS = [S([V, V]), S([M, M]), S((C, C, C)), S([T(()), T(())])]

SAMPLES: dict[str, list[S]] = {
    "cat": _JOINED,
    "concat": _JOINED,
    "concatenate": _JOINED,
    "stack": [S([M, M]), S([M, M, M], 1), S([V, V], dim=-1), S([T(()), T(())])],
    "hstack": _ROWS,
    "vstack": _ROWS,
    "row_stack": _ROWS,
    "dstack": _ROWS,
    "column_stack": [*_ROWS, S([V, M])],
    "tile": [S(M, (2,)), S(M, (2, 1, 3)), S(V, (2, 2)), S(M, (0, 1))],
    "repeat_interleave": [S(M, 2), S(M, 2, 1), S(M, T((4,), 0, 3, "index"), 1), S(V, T((3,), 0, 4, "index"))],
    "roll": [S(M, 1), S(M, 2, 1), S(C, (1, -2), (0, 2)), S(M, -7, 0)],
    "flip": [S(M, (0,)), S(C, (0, -1)), S(M, ())],
    "fliplr": [S(M), S(C)],
    "flipud": [S(M), S(V)],
    "rot90": [S(M), S(M, 2), S(C, -1, (1, 2)), S(M, 4, [1, 0])],
    "block_diag": [S(M, T((2, 1))), S(V, T(()), M)],
    "cartesian_prod": [S(V, T((2,))), S(V), S(V, V, T((1,)))],
    "combinations": [S(T((4,))), S(T((4,)), 3), S(T((4,)), 2, True), S(V, r=1)],
    "meshgrid": [S(V, T((2,)), indexing="ij"), S(V, T((2,)), T((4,)), indexing="xy"), S(V)],
    "tril": [S(M), S(C, 1), S(M, diagonal=-1)],
    "triu": [S(M), S(C, 1), S(M, diagonal=-1)],
    "tril_indices": [S(3, 4), S(3, 4, 1), S(4, 2, -1)],
    "triu_indices": [S(3, 4), S(3, 4, 1), S(4, 2, -1)],
    "unravel_index": [S(T((2, 3), -9, 24, "index"), (2, 3, 4)), S(T((), 0, 5, "index"), 5), S(V, (3,))],
    "vander": [S(V), S(V, 4), S(V, N=2, increasing=True), S(V, 0)],
    "constant_pad_nd": [S(M, (1, 2)), S(M, (1, 0, 0, 2), 3), S(C, (-1, 1, 0, 1), 0.0), S(V, (2, -1))],
}

UNSAMPLED: dict[str, str] = {}
