"""Sample calls of linear algebra: `weft/ops/linalg/solve.py`, `decompose.py`, `lu.py` and `linalg.py`.

Square samples come as batches, so that the memory layouts of the matrix (which repeat or empty the
first dimension) leave the matrices themselves regular.
"""

from .base import S, T

SPD = T((2, 3, 3), kind="spd")
WIDE, TALL = T((2, 2, 4)), T((2, 4, 2))
RIGHT = T((2, 3, 2))
PIVOTS = T((2, 3), 3, 0, "int32")  # three exchanges with the last row: valid pivots of a 3 × 3 matrix

SAMPLES: dict[str, list[S]] = {
    "linalg.solve": [S(SPD, RIGHT), S(SPD, T((2, 3))), S(SPD, T((2, 2, 3)), left=False)],
    "linalg.solve_ex": [S(SPD, RIGHT)],
    "linalg.solve_triangular": [
        S(SPD, RIGHT, upper=True),
        S(SPD, RIGHT, upper=False, unitriangular=True),
        S(SPD, T((2, 2, 3)), upper=True, left=False),
    ],
    "triangular_solve": [S(RIGHT, SPD), S(RIGHT, SPD, upper=False, transpose=True)],
    "linalg.inv": [S(SPD)],
    "linalg.inv_ex": [S(SPD)],
    "inverse": [S(SPD)],
    "linalg.tensorinv": [S(T((2, 3, 6)), ind=2)],
    "linalg.tensorsolve": [S(T((1, 6, 6)), T((1, 6)))],
    "linalg.det": [S(SPD), S(T((2, 2, 2)))],
    "det": [S(SPD)],
    "linalg.slogdet": [S(SPD)],
    "slogdet": [S(SPD)],
    "logdet": [S(SPD)],
    "linalg.matrix_exp": [S(T((2, 3, 3), -1, 1))],
    "matrix_exp": [S(T((2, 3, 3), -1, 1))],
    "linalg.matrix_power": [S(SPD, 3), S(SPD, -2), S(SPD, 0), S(SPD, 1)],
    "matrix_power": [S(SPD, 2)],
    "linalg.qr": [S(TALL), S(WIDE), S(WIDE, mode="complete")],
    "qr": [S(TALL), S(WIDE, some=False)],
    "geqrf": [S(TALL), S(WIDE)],
    "linalg.householder_product": [S(TALL, T((2, 2), 0.5, 1.5))],
    "orgqr": [S(TALL, T((2, 1), 0.5, 1.5))],
    "ormqr": [S(TALL, T((2, 2), 0.5, 1.5), T((2, 4, 3))), S(TALL, T((2, 2), 0.5, 1.5), T((2, 3, 4)), left=False)],
    "linalg.svdvals": [S(TALL), S(WIDE)],
    "linalg.lu": [S(SPD), S(TALL), S(WIDE)],
    "linalg.lu_factor": [S(SPD), S(TALL), S(WIDE)],
    "linalg.lu_factor_ex": [S(SPD)],
    "lu": [S(SPD), S(SPD, get_infos=True)],
    "lu_unpack": [S(SPD, PIVOTS), S(SPD, PIVOTS, unpack_pivots=False)],
    "linalg.lu_solve": [
        S(SPD, PIVOTS, RIGHT),
        S(SPD, PIVOTS, RIGHT, adjoint=True),
        S(SPD, PIVOTS, T((2, 2, 3)), left=False),
    ],
    "lu_solve": [S(RIGHT, SPD, PIVOTS)],
    "linalg.ldl_factor": [S(SPD), S(SPD, hermitian=True)],
    "linalg.ldl_factor_ex": [S(SPD)],
    "linalg.pinv": [S(TALL), S(WIDE, rtol=1e-3), S(TALL, atol=0.1)],
    "pinverse": [S(TALL)],
    "linalg.lstsq": [S(T((2, 5, 3)), T((2, 5, 2)))],
    "linalg.matrix_norm": [
        S(TALL),
        S(TALL, "nuc"),
        S(TALL, 2),
        S(TALL, -2, keepdim=True),
        S(TALL, 1, dim=(0, 2)),
        S(TALL, float("-inf"), dim=(1, 0), keepdim=True),
    ],
    "linalg.norm": [S(TALL), S(T((3, 4)), "fro"), S(T((4,)), 3), S(TALL, 1, dim=1), S(TALL, float("inf"), dim=(0, 1))],
    "linalg.cond": [S(SPD), S(SPD, 1), S(SPD, "fro"), S(TALL, -2)],
    "linalg.matrix_rank": [S(TALL), S(SPD, hermitian=True), S(TALL, atol=0.1, rtol=0.1)],
    "linalg.vander": [S(T((3,))), S(T((2, 3)), N=4)],
}

_GAUGE = "defined only up to signs, phases or order: tests/ops/test_linalg.py compares what is defined"
_HERMITIAN = "the gradient is that of a Hermitian argument: tests/ops/test_linalg.py"
UNSAMPLED: dict[str, str] = {
    "linalg.eigh": _GAUGE,
    "linalg.eig": _GAUGE,
    "linalg.eigvals": _GAUGE,
    "linalg.svd": _GAUGE,
    "svd": _GAUGE,
    "linalg.eigvalsh": _HERMITIAN,
    "linalg.cholesky": _HERMITIAN,
    "linalg.cholesky_ex": _HERMITIAN,
    "cholesky": _HERMITIAN,
    "cholesky_solve": "the gradient is not cut to the triangle, as PyTorch's: tests/ops/test_linalg.py",
    "cholesky_inverse": "the gradient is not cut to the triangle, as PyTorch's: tests/ops/test_linalg.py",
    "linalg.ldl_solve": "needs a matching factor and pivots: tests/ops/test_linalg.py",
    "svd_lowrank": "random: tests/ops/test_linalg.py",
    "pca_lowrank": "random: tests/ops/test_linalg.py",
}
