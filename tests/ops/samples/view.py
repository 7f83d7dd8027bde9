"""Sample calls of views and other changes of shape."""

from __future__ import annotations

from .base import S, T

M, C = T((3, 4)), T((2, 3, 4))
PAIRS = T((3, 4, 2))
_TRANSPOSED = [S(M, 0, 1), S(C, -1, 0), S(C, 1, 1)]
_MOVED = [S(C, 0, -1), S(C, (0, 1), (2, 0)), S(M, 1, 0)]
_HALVES = [S(T((4, 6, 2)), 2), S(T((4, 6, 2)), [1, 3]), S(T((4, 6, 2)), (1, 1))]
_SPLIT = [S(T((5, 2)), 2), S(T((5, 2)), [1, 4]), S(M, 3, 1), S(M, [2, 2, 0], dim=-1)]
_SIZED = [S(T((5, 2)), [1, 4]), S(M, [2, 2], 1)]
_CHUNKED = [S(T((5, 2)), 2), S(M, 3, 1), S(M, 9, -1)]
_SINGLE = T((1, 3, 1))

SAMPLES: dict[str, list[S]] = {
    "numel": [S(M), S(T(()))],
    "reshape": [S(M, (2, 6)), S(M, (-1,)), S(C, (6, 4)), S(M, (4, -1))],
    "permute": [S(C, (2, 0, 1)), S(M, (-1, 0))],
    "transpose": _TRANSPOSED,
    "swapaxes": _TRANSPOSED,
    "swapdims": _TRANSPOSED,
    "t": [S(M), S(T((3,)))],
    "adjoint": [S(M), S(C)],
    "movedim": _MOVED,
    "moveaxis": _MOVED,
    "unsqueeze": [S(M, 0), S(M, -1), S(M, 2)],
    "squeeze": [S(_SINGLE), S(_SINGLE, 0), S(_SINGLE, -2), S(_SINGLE, (0, 2))],
    "select": [S(M, 0, 1), S(C, -1, -2)],
    "narrow": [S(M, 1, 1, 2), S(M, 0, -2, 2), S(C, -1, 0, 0)],
    "narrow_copy": [S(M, 1, 1, 2), S(M, 0, -2, 2)],
    "unbind": [S(M), S(C, 1), S(C, -1)],
    "broadcast_to": [S(T((3, 1)), (2, 3, 4)), S(M, (3, 4)), S(T((1, 4)), (3, -1))],
    "broadcast_shapes": [S((3, 1), (4,)), S((2, 1, 3), (5, 1), ()), S(2, (3, 1))],
    "broadcast_tensors": [S(T((3, 1)), T((4,))), S(T((2, 1, 3)), T((3,)), T(()))],
    "flatten": [S(C), S(C, 1), S(C, 0, 1), S(C, start_dim=-2, end_dim=-1)],
    "unflatten": [S(M, 1, (2, 2)), S(M, 0, (-1, 1)), S(M, -1, (4,))],
    "ravel": [S(M), S(C)],
    "atleast_1d": [S(M), S(T((3,))), S(T(()), T((2,)))],
    "atleast_2d": [S(M), S(T((3,))), S(T(()), T((2,)))],
    "atleast_3d": [S(M), S(T((3,))), S(T(()), T((2,)))],
    "diagonal": [S(M), S(M, 1), S(C, -1, 0, 2), S(C, offset=1, dim1=-1, dim2=1), S(M, 7)],
    "diag_embed": [S(M), S(M, 1), S(M, -2, 0, 2), S(T((3,)), offset=0, dim1=1, dim2=0)],
    "diag": [S(T((3,))), S(T((3,)), 1), S(M), S(M, -1), S(M, diagonal=2)],
    "diagflat": [S(T((3,))), S(T((2, 2)), 1), S(T((3,)), offset=-1)],
    "diagonal_scatter": [S(M, T((3,))), S(M, T((3,)), 1), S(C, T((3, 2)), 0, 0, 2)],
    "select_scatter": [S(M, T((4,)), 0, 1), S(C, T((2, 3)), -1, -1)],
    "slice_scatter": [S(M, T((2, 4)), 0, 1), S(M, T((3, 2)), 1, 0, 4, 2), S(M, T((3, 2)), dim=-1, start=-2)],
    "split": _SPLIT,
    "unsafe_split": [S(T((5, 2)), 2), S(M, 3, 1)],
    "split_with_sizes": _SIZED,
    "unsafe_split_with_sizes": _SIZED,
    "chunk": _CHUNKED,
    "unsafe_chunk": _CHUNKED,
    "tensor_split": [S(T((5, 2)), 2), S(T((5, 2)), (1, 3)), S(M, 3, 1), S(M, (-1, 9), dim=1)],
    "hsplit": _HALVES,
    "vsplit": _HALVES,
    "dsplit": [S(T((4, 6, 2)), 2), S(T((4, 6, 2)), [1])],
    "as_strided": [S(M, (2, 2), (1, 2)), S(M, (2,), (0,))],
    "view_as_real": [S(T((3, 2), kind="complex")), S(T((4,), kind="complex"))],
    "view_as_complex": [S(PAIRS), S(T((2,)))],
    "real": [S(M), S(T((3, 2), kind="complex"))],
    "imag": [S(T((3, 2), kind="complex")), S(T((4,), kind="complex"))],
    "resolve_conj": [S(M), S(T((3, 2), kind="complex"))],
    "resolve_neg": [S(M)],
    "fill": [S(M, 2), S(M, 1.5), S(M, T(()))],
    "alias_copy": [S(M)],
    "as_strided_copy": [S(M, (2, 2), (1, 2)), S(M, (2,), (0,))],
    "detach_copy": [S(M)],
    "diagonal_copy": [S(M), S(M, 1), S(C, -1, 0, 2)],
    "expand_copy": [S(T((3, 1)), (2, 3, 4)), S(M, (3, 4))],
    "permute_copy": [S(C, (2, 0, 1)), S(M, (-1, 0))],
    "select_copy": [S(M, 0, 1), S(C, -1, -2)],
    "split_copy": [S(T((5, 2)), 2), S(M, 3, 1)],
    "split_with_sizes_copy": _SIZED,
    "squeeze_copy": [S(_SINGLE), S(_SINGLE, 0), S(_SINGLE, (0, 2))],
    "t_copy": [S(M), S(T((3,)))],
    "transpose_copy": _TRANSPOSED,
    "unbind_copy": [S(M), S(C, 1)],
    "unfold_copy": [S(M, 1, 2, 1), S(M, -1, 3, 2)],
    "unsqueeze_copy": [S(M, 0), S(M, -1)],
    "view_copy": [S(M, (2, 6)), S(M, (-1,))],
    "view_as_real_copy": [S(T((3, 2), kind="complex"))],
    "view_as_complex_copy": [S(PAIRS)],
}

UNSAMPLED: dict[str, str] = {
    "as_strided_scatter": "PyTorch's gradient of its input is wrong: tests/ops/test_view.py",
}
