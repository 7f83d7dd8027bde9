"""Sample calls of special functions; those of one or two plain arguments are drawn from their domain."""

from __future__ import annotations

from .base import S, T

UNIT = T((3, 4), 0.1, 0.9)
POSITIVE = T((3, 4), 0.3, 4.0)
LARGE = T((3, 4), 2.5, 6.0)
ORDER = T((3, 4), 0, 9, kind="index")

POLYNOMIAL = [S(T((3, 4), -1.5, 1.5), ORDER), S(T((3, 4), -1.0, 1.0), 3), S(T((3, 4)), 0), S(T((3, 4)), -1)]
POLYNOMIAL += [S(T((2, 1), -1.0, 1.0), T((4,), 0, 5, kind="index")), S(0.3, ORDER)]
INCOMPLETE = [S(T((3, 4), 0.3, 4.0, kind="fixed"), POSITIVE), S(T((4,), 0.3, 4.0, kind="fixed"), POSITIVE)]
POLYGAMMA = [S(0, POSITIVE), S(1, POSITIVE), S(2, POSITIVE), S(4, T((2, 3, 1), 0.5, 3.0))]

SAMPLES: dict[str, list[S]] = {
    "polygamma": POLYGAMMA,
    "special.polygamma": POLYGAMMA,
    "mvlgamma": [S(LARGE, 1), S(LARGE, p=3), S(T((), 2.5, 6.0), 2)],
    "special.multigammaln": [S(LARGE, 1), S(LARGE, p=3)],
    "logit": [S(UNIT), S(UNIT, 0.2), S(T((3, 4), -0.5, 1.5), eps=0.0625), S(T((2, 3, 1), 0.1, 0.9), eps=None)],
    "special.logit": [S(UNIT), S(UNIT, 0.2)],
    "polar": [S(POSITIVE, T((3, 4), -3.0, 3.0)), S(T((3, 1), 0.3, 4.0), T((4,), -3.0, 3.0))],
    "frexp": [S(T((3, 4), 0.6, 0.9)), S(T((3, 4), 4.5, 7.5)), S(T((2, 3), -0.9, -0.6))],
    "igamma": INCOMPLETE,
    "igammac": INCOMPLETE,
    "special.gammainc": INCOMPLETE,
    "special.gammaincc": INCOMPLETE,
    "special.zeta": [S(T((3, 4), 1.5, 4.0, kind="fixed"), POSITIVE), S(2.5, POSITIVE)],
    "special.logsumexp": [S(T((3, 4)), 1), S(T((3, 4)), (0, 1)), S(T((3, 4)), 0, keepdim=True)],
    "special.round": [S(T((3, 4), -3.0, 3.0)), S(T((3, 4), -3.0, 3.0), decimals=1)],
} | {
    f"special.{name}": POLYNOMIAL
    for name in (
        "chebyshev_polynomial_t",
        "chebyshev_polynomial_u",
        "chebyshev_polynomial_v",
        "chebyshev_polynomial_w",
        "shifted_chebyshev_polynomial_t",
        "shifted_chebyshev_polynomial_u",
        "shifted_chebyshev_polynomial_v",
        "shifted_chebyshev_polynomial_w",
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    )
}

UNSAMPLED: dict[str, str] = {
    "special.softmax": "calls softmax, which is sampled",
    "special.log_softmax": "calls log_softmax, which is sampled",
}
