"""Sample calls of `weft/ops/math/operators.py`, `elementwise.py` and `convert.py`: scalars, options, bounds."""

from .base import S, T

ONE = T((3, 4))
SMALL = T((3, 4), 0.5, 2.0)

SAMPLES = {
    "add": [S(ONE, ONE), S(T((3, 1)), T((4,))), S(ONE, T(())), S(ONE, 2), S(ONE, ONE, alpha=3), S(ONE, 1.5)],
    "sub": [S(ONE, ONE), S(T((3, 1)), T((4,))), S(ONE, ONE, alpha=2), S(ONE, 2)],
    "div": [
        S(ONE, SMALL),
        S(T((3, 1)), T((4,), 0.5, 2.0)),
        S(ONE, 2),
        S(ONE, SMALL, rounding_mode="trunc"),
        S(ONE, SMALL, rounding_mode="floor"),
    ],
    "pow": [S(SMALL, ONE), S(ONE, 2), S(SMALL, 0.5), S(2, ONE), S(SMALL, -1.5), S(ONE, 3), S(ONE, 0), S(ONE, 1)],
    "rsub": [S(ONE, ONE), S(ONE, 2), S(ONE, ONE, alpha=2)],
    "where": [
        S(T((3, 4), kind="bool"), ONE, ONE),
        S(T((3, 1), kind="bool"), ONE, T((4,))),
        S(T((3, 4), kind="bool"), ONE, 0.5),
        S(T((3, 4), kind="bool"), 1, ONE),
    ],
    "addcmul": [S(ONE, ONE, ONE), S(ONE, T((3, 1)), T((4,)), value=2), S(T(()), ONE, ONE)],
    "addcdiv": [S(ONE, ONE, SMALL), S(ONE, T((3, 1)), T((4,), 0.5, 2.0), value=2)],
    "lerp": [S(ONE, ONE, 0.3), S(ONE, ONE, 0.7), S(ONE, ONE, T((3, 4), 0, 1)), S(T((3, 1)), T((4,)), 0.5)],
    "clamp": [
        S(T((3, 4), distinct=True), -0.51, 0.77),
        S(T((3, 4), distinct=True), min=-0.51),
        S(T((3, 4), distinct=True), max=0.33),
        S(T((3, 4), distinct=True), T((3, 1), -1.9, -1.1), T((4,), 1.1, 1.9)),
        S(T((3, 4), distinct=True), 2, 1),
    ],
    "clip": [S(T((3, 4), distinct=True), -0.51, 0.77)],
    "clamp_min": [S(T((3, 4), distinct=True), -0.51), S(T((3, 4), distinct=True), T((4,), -1.9, -1.1))],
    "clamp_max": [S(T((3, 4), distinct=True), 0.33), S(T((3, 4), distinct=True), T((4,), 1.1, 1.9))],
    "clone": [S(ONE)],
    "complex": [S(ONE, ONE), S(T((3, 1)), T((4,)))],
    "conj": [S(ONE), S(T((3, 4), kind="complex"))],
    "deg2rad": [S(T((3, 4), -180, 180))],
    "rad2deg": [S(ONE)],
    "float_power": [S(SMALL, ONE), S(ONE, 2), S(2, ONE)],
    "frac": [S(ONE)],
    "isclose": [S(ONE, ONE), S(ONE, ONE, rtol=0.5, atol=0.5), S(ONE, ONE, equal_nan=True)],
    "allclose": [S(ONE, ONE), S(ONE, ONE, rtol=5.0, atol=5.0)],
    "equal": [S(ONE, ONE), S(ONE, T((2, 4)))],
    "ldexp": [S(ONE, T((3, 4), -3, 3, "int32")), S(ONE, ONE)],
    "nan_to_num": [S(ONE), S(ONE, 1.0, 2.0, 3.0)],
    "positive": [S(ONE)],
    "round": [S(ONE), S(ONE, decimals=2), S(T((3, 4), -200, 200), decimals=-1)],
}
