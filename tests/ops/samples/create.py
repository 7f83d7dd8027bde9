"""Sample calls of constructors and of questions about tensors; random ones have their own tests."""

from __future__ import annotations

import weft

from .base import S, T

X = T((3, 4))
SIZES = [S(2, 3), S((2, 3)), S(()), S(0, 2), S([3]), S(2, dtype=weft.int64), S(size=(2, 1), dtype=weft.bool)]
LIKE = [S(X), S(X, dtype=weft.float64), S(X, dtype=weft.int32)]

WINDOWS = [S(5), S(6, sym=False), S(1), S(0), S(4, dtype=weft.float64), S(-1), S(3, dtype=weft.int64)]
OLDER = [
    S(5),
    S(6, False),
    S(1),
    S(0),
    S(4, dtype=weft.float64),
    S(4, dtype=weft.float16),
    S(-1),
    S(3, dtype=weft.int64),
]

SAMPLES: dict[str, list[S]] = {
    **dict.fromkeys(
        (f"signal.windows.{name}" for name in "bartlett blackman cosine hamming hann nuttall".split()), WINDOWS
    ),
    "signal.windows.exponential": [*WINDOWS, S(5, tau=2.5), S(5, center=1, sym=False), S(5, center=1), S(5, tau=0)],
    "signal.windows.gaussian": [*WINDOWS, S(5, std=0.4), S(5, std=0)],
    "signal.windows.general_cosine": [S(5, a=[0.5, 0.3, 0.2]), S(4, a=(1.0,), sym=False), S(1, a=[2.0]), S(5, a=[])],
    "signal.windows.general_hamming": [*WINDOWS, S(5, alpha=0.3)],
    "signal.windows.kaiser": [*WINDOWS, S(5, beta=3.0), S(5, beta=-1.0)],
    **dict.fromkeys(("bartlett_window", "blackman_window", "hann_window"), OLDER),
    "hamming_window": [*OLDER, S(5, True, 0.5), S(5, False, 0.5, 0.4)],
    "kaiser_window": [*OLDER, S(5, True, 3.0), S(5, False, beta=2.0)],
    "zeros": SIZES,
    "ones": [*SIZES, S(2, dtype=weft.complex64)],
    "full": [
        S((2, 3), 1.5),
        S((2,), 3),
        S((), True),
        S((2,), 2 - 1j),
        S((2, 0), 1, dtype=weft.float16),
        S((2,), 2.7, dtype=weft.int64),
        S((2,), -1, dtype=weft.uint8),
        S((2,), 300, dtype=weft.uint8),
        S((2,), float("inf")),
        S(size=(2,), fill_value=float("nan"), dtype=weft.float64),
    ],
    "scalar_tensor": [S(3), S(2.5), S(True, dtype=weft.bool), S(3, dtype=weft.int32)],
    "zeros_like": LIKE,
    "ones_like": LIKE,
    "full_like": [S(X, 3), S(X, 1.5), S(X, fill_value=-2, dtype=weft.float64), S(X, True)],
    "arange": [
        S(5),
        S(5.0),
        S(2, 7),
        S(1, 2, 0.3),
        S(7, 2, -2),
        S(0, 1, 0.1),
        S(3, 3),
        S(0.5, 3, dtype=weft.int64),
        S(1, 6.9, 2.7, dtype=weft.int64),
        S(10, dtype=weft.float16),
        S(start=1, end=4, step=2),
        S(end=3),
        S(5, 0),
        S(0, 5, 0),
        S(float("inf")),
    ],
    "linspace": [
        S(0, 1, 5),
        S(-2.5, 7, 8, dtype=weft.float64),
        S(0, 10, 4, dtype=weft.int64),
        S(10, -10, 7, dtype=weft.int32),
        S(3, 4, 1),
        S(3, 4, 0),
        S(start=0, end=1j, steps=3),
        S(0, 1, -1),
    ],
    "logspace": [
        S(0, 2, 5),
        S(-1, 2, 6, dtype=weft.float64),
        S(0, 4, 5, 2),
        S(0, 4, 5, base=2.5),
        S(0, 3, 4, dtype=weft.int64),
        S(1, 2, 1),
        S(1, 2, 0),
    ],
    "eye": [S(3), S(2, 4), S(4, 2), S(0), S(2, 0), S(3, dtype=weft.bool), S(n=2, m=3, dtype=weft.complex64), S(-1)],
    "is_tensor": [S(X), S(3)],
    "is_floating_point": [S(X)],
    "is_complex": [S(X)],
    "is_signed": [S(X)],
    "is_inference": [S(X)],
    "is_conj": [S(X)],
    "is_same_size": [S(X, X), S(X, T((4, 3)))],
    "is_nonzero": [S(T((1,))), S(T((1, 1))), S(X)],
    "result_type": [S(X, 3), S(X, 2.5), S(X, T((), kind="float64")), S(X, T((4,), kind="int64")), S(2, 1j)],
}

_RANDOM = "random: tests/ops/test_sample.py compares moments and distributions"
_BORDER = "memory of other libraries: tests/ops/test_borders.py"
_EMPTY = "uninitialised: tests/ops/test_create.py compares sizes and strides"
UNSAMPLED: dict[str, str] = {
    "tensor": "takes Python data: tests/ops/test_create.py",
    "to_dlpack": "returns a capsule: tests/ops/test_borders.py",
    **dict.fromkeys(("empty", "empty_like", "empty_strided", "empty_permuted"), _EMPTY),
    **dict.fromkeys(("as_tensor", "asarray", "from_numpy", "from_dlpack", "frombuffer"), _BORDER),
    **dict.fromkeys(
        ("rand", "randn", "uniform", "randint", "randperm", "rand_like", "randn_like", "randint_like"), _RANDOM
    ),
    **dict.fromkeys(("normal", "bernoulli", "multinomial", "poisson", "binomial"), _RANDOM),
}
