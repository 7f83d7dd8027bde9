"""Sparse matrices have a class of their own, so their operations are tested in tests/ops/test_sparse.py."""

from __future__ import annotations

from .base import S

REASON = "makes or takes sparse matrices; tests/ops/test_sparse.py"
SAMPLES: dict[str, list[S]] = {}
UNSAMPLED: dict[str, str] = dict.fromkeys(
    (
        "sparse.mm",
        "sparse.addmm",
        "sparse.sum",
        "sparse.softmax",
        "sparse.log_softmax",
        "sparse.FloatTensor",
        "sparse.DoubleTensor",
        "sparse.HalfTensor",
        "sparse.LongTensor",
        "sparse.IntTensor",
        "sparse.from_scipy",
        "sparse_coo_tensor",
        "sparse_csr_tensor",
        "spmm",
        "dsmm",
    ),
    REASON,
)
