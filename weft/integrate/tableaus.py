"""Runge–Kutta methods as tables: where the slope is asked for, how slopes are combined, how the error is estimated."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import OptionError

__all__ = ["METHODS", "Tableau", "method_named"]

Row = tuple[float, ...]


@dataclass(frozen=True)
class Tableau:
    """kᵢ = f(t + cᵢ h, y + h Σⱼ aᵢⱼ kⱼ),   y₁ = y + h Σᵢ bᵢ kᵢ,   error = h Σᵢ eᵢ kᵢ

    a: rows of the second stage on; error: empty for methods without an estimate, whose steps are fixed
    middle: weights of the solution at the middle of a step, for dense output; empty: a cubic through both ends
    The last stage of a method with error estimate is the slope at y₁, which the next step begins with.
    """

    order: int
    a: tuple[Row, ...]
    b: Row
    c: Row
    error: Row = ()
    middle: Row = ()

    @property
    def adaptive(self) -> bool:
        """Whether it estimates its error, so that steps can be chosen."""
        return bool(self.error)


_DOPRI5_B = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0)

_HEUN = Tableau(2, ((1.0,),), (1 / 2, 1 / 2), (1.0,))

METHODS: dict[str, Tableau] = {
    # Dormand and Prince 1980; middle by Shampine 1986
    "dopri5": Tableau(
        5,
        (
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
            _DOPRI5_B[:6],
        ),
        _DOPRI5_B,
        (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
        (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
        (
            6025192743 / 30085553152 / 2,
            0.0,
            51252292925 / 65400821598 / 2,
            -2691868925 / 45128329728 / 2,
            187940372067 / 1594534317056 / 2,
            -1776094331 / 19743644256 / 2,
            11237099 / 235043384 / 2,
        ),
    ),
    # Bogacki and Shampine 1989
    "bosh3": Tableau(
        3,
        ((1 / 2,), (0.0, 3 / 4), (2 / 9, 1 / 3, 4 / 9)),
        (2 / 9, 1 / 3, 4 / 9, 0.0),
        (1 / 2, 3 / 4, 1.0),
        (2 / 9 - 7 / 24, 1 / 3 - 1 / 4, 4 / 9 - 1 / 3, -1 / 8),
    ),
    # Heun's step, checked by Euler's; the slope at its end is a third stage
    "adaptive_heun": Tableau(2, ((1.0,), (1 / 2, 1 / 2)), (1 / 2, 1 / 2, 0.0), (1.0, 1.0), (-1 / 2, 1 / 2, 0.0)),
    # Fehlberg 1969, with a first step's error; the slope at its end is a fourth stage
    "fehlberg2": Tableau(
        2,
        ((1 / 2,), (1 / 256, 255 / 256), (1 / 512, 255 / 256, 1 / 512)),
        (1 / 512, 255 / 256, 1 / 512, 0.0),
        (1 / 2, 1.0, 1.0),
        (-1 / 512, 0.0, 1 / 512, 0.0),
    ),
    "euler": Tableau(1, (), (1.0,), ()),
    "midpoint": Tableau(2, ((1 / 2,),), (0.0, 1.0), (1 / 2,)),
    "heun": _HEUN,
    "heun2": _HEUN,  # torchdiffeq's name
    "heun3": Tableau(3, ((1 / 3,), (0.0, 2 / 3)), (1 / 4, 0.0, 3 / 4), (1 / 3, 2 / 3)),
    # Kutta's rule with thirds, as torchdiffeq's rk4
    "rk4": Tableau(
        4,
        ((1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)),
        (1 / 8, 3 / 8, 3 / 8, 1 / 8),
        (1 / 3, 2 / 3, 1.0),
    ),
}


def method_named(name: str | None) -> Tableau:
    """The method of that name; without one dopri5."""
    if name is None:
        return METHODS["dopri5"]
    if name not in METHODS:
        raise OptionError(f"odeint: method is one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]
