"""Sample calls of the products: `products.py`, `products_added.py` and `einsum.py` of `weft/ops`."""

from .base import S, T

A, B = T((3, 4)), T((4, 2))
BATCH, OTHER = T((2, 3, 4)), T((2, 4, 5))
VECTOR = T((4,))

SAMPLES: dict[str, list[S]] = {
    "matmul": [
        S(A, B),
        S(VECTOR, VECTOR),
        S(A, VECTOR),
        S(VECTOR, B),
        S(T((2, 1, 3, 4)), OTHER),
        S(BATCH, B),
        S(A, OTHER),
    ],
    "linalg.matmul": [S(A, B), S(BATCH, OTHER)],
    "mm": [S(A, B), S(T((1, 4)), T((4, 1)))],
    "bmm": [S(BATCH, OTHER)],
    "mv": [S(A, VECTOR)],
    "dot": [S(VECTOR, VECTOR)],
    "vdot": [S(VECTOR, VECTOR)],
    "linalg.vecdot": [S(A, A), S(T((2, 3, 1)), A, dim=-2)],
    "inner": [S(A, T((2, 4))), S(BATCH, VECTOR), S(A, T(()))],
    "outer": [S(T((3,)), VECTOR)],
    "ger": [S(T((3,)), VECTOR)],
    "addmm": [S(T((3, 2)), A, B), S(T((2,)), A, B, beta=0.5, alpha=2), S(T((3, 1)), A, B, beta=0)],
    "addmv": [S(T((3,)), A, VECTOR), S(T((1,)), A, VECTOR, beta=2, alpha=3)],
    "addr": [S(T((3, 4)), T((3,)), VECTOR), S(T((4,)), T((3,)), VECTOR, beta=2, alpha=3)],
    "addbmm": [S(T((3, 5)), BATCH, OTHER), S(T((5,)), BATCH, OTHER, beta=2, alpha=3)],
    "baddbmm": [S(T((2, 3, 5)), BATCH, OTHER), S(T((1, 5)), BATCH, OTHER, beta=2, alpha=3)],
    "kron": [S(A, B), S(T((2,)), T((2, 3))), S(T(()), A)],
    "cross": [S(T((2, 3)), T((2, 3))), S(T((2, 3, 4)), T((2, 3, 4)), dim=1)],
    "linalg.cross": [S(T((2, 3)), T((1, 3))), S(T((2, 3, 4)), T((2, 3, 4)), dim=1)],
    "trace": [S(A), S(T((3, 3)))],
    "linalg.diagonal": [S(A), S(BATCH, offset=1, dim1=0, dim2=2)],
    "cdist": [
        S(A, T((2, 4))),
        S(BATCH, T((2, 5, 4)), p=1.0),
        S(A, T((2, 4)), p=3.0),
        S(A, T((2, 4)), p=float("inf")),
        S(A, T((30, 4))),
        S(T((1, 3, 4)), BATCH, compute_mode="donot_use_mm_for_euclid_dist"),
    ],
    "tensordot": [S(BATCH, T((3, 4, 2))), S(A, T((2, 4)), dims=([1], [1])), S(A, B, dims=0)],
    "einsum": [
        S("ij,jk->ik", A, B),
        S("bij,bjk", BATCH, OTHER),
        S("...i,ji->...j", BATCH, A),
        S("ii->i", T((3, 3))),
        S("ij,jk,kl->il", A, B, T((2, 3))),
        S("ij,kj->", A, T((2, 4))),
        S("bij,bij->bi", BATCH, T((2, 1, 4))),
        S("ij->ji", [A]),
    ],
    "linalg.multi_dot": [S([A, B]), S([VECTOR, B, T((2, 3))]), S([T((3, 4)), B, T((2, 5)), T((5,))])],
    "chain_matmul": [S(A, B), S(A, B, T((2, 5)), T((5, 3)))],
}
