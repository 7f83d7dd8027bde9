"""Sequence tasks with known answers: copying, reversing, adding. Tokens are int64, 0 is blank."""

from __future__ import annotations

import numpy as np

import weft

from ...errors import OptionError
from ...tensor import Tensor
from .common import check_count, check_noise, real, stream

__all__ = ["adding_task", "copy_task", "digit_sums", "reverse_task"]

DIGITS = "0123456789+="  # token t of `digit_sums` is the character DIGITS[t]


def copy_task(
    n: int = 100,
    length: int = 10,
    *,
    delay: int = 20,
    symbols: int = 8,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Repeat what was said `delay` steps ago (Hochreiter and Schmidhuber, 1997; Arjovsky et al., 2016).

    inputs:  `length` symbols from 1 … symbols, delay − 1 blanks, the cue symbols + 1, `length` blanks
    targets: blanks, then the same symbols at the last `length` steps
    Predicting blanks and then guessing costs length · ln(symbols) / T nats a step, T = 2 · length + delay.
    Shape: inputs (n, T), targets (n, T)

    Example:
        >>> from weft.data.synthetic import copy_task
        >>> inputs, targets = copy_task(1, 2, delay=2, symbols=3, seed=0)
        >>> tuple(inputs.shape), inputs[0, 2:].tolist(), bool((targets[0, -2:] == inputs[0, :2]).all())
        ((1, 6), [0, 4, 0, 0], True)
    """
    check_count("copy_task", n=n)
    check_count("copy_task", 1, length=length, delay=delay, symbols=symbols)
    said = stream("copy_task", seed, generator).integers(1, symbols + 1, (n, length))
    inputs, targets = np.zeros((2, n, 2 * length + delay), np.int64)
    inputs[:, :length] = targets[:, -length:] = said
    inputs[:, length + delay - 1] = symbols + 1
    return weft.as_tensor(inputs), weft.as_tensor(targets)


def reverse_task(
    n: int = 100,
    length: int = 10,
    *,
    symbols: int = 8,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Symbols from 1 … symbols, and the same in reverse order. Shape: inputs (n, length), targets (n, length)

    Example:
        >>> from weft.data.synthetic import reverse_task
        >>> inputs, targets = reverse_task(3, 5, seed=0)
        >>> bool((inputs.flip(1) == targets).all())
        True
    """
    check_count("reverse_task", n=n, length=length)
    check_count("reverse_task", 1, symbols=symbols)
    inputs = stream("reverse_task", seed, generator).integers(1, symbols + 1, (n, length))
    return weft.as_tensor(inputs), weft.as_tensor(np.ascontiguousarray(inputs[:, ::-1]))


def adding_task(
    n: int = 100,
    length: int = 50,
    noise: float = 0.0,
    *,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """The sum of two marked numbers (Hochreiter and Schmidhuber, 1997): channel 0 is even in [0, 1), channel 1 marks.

    One mark is in the first half (length // 2 steps), one in the rest; noise · N(0, 1) is added to the sum.
    Always answering 1 has a mean squared error of 1/6. Shape: inputs (n, length, 2), targets (n, 1)

    Example:
        >>> from weft.data.synthetic import adding_task
        >>> inputs, targets = adding_task(3, 10, seed=0)
        >>> bool((inputs.prod(2).sum(1, keepdim=True) - targets).abs().max() < 1e-5)
        True
    """
    check_count("adding_task", n=n)
    check_count("adding_task", 2, length=length)
    check_noise("adding_task", noise)
    generator = stream("adding_task", seed, generator)
    values, marks, half = generator.uniform((n, length), np.float64), np.zeros((n, length)), length // 2
    for low, high in ((0, half), (half, length)):
        marks[np.arange(n), generator.integers(low, high, (n,))] = 1
    total = (values * marks).sum(1, keepdims=True) + noise * generator.normal((n, 1), np.float64)
    return real(np.stack([values, marks], 2)), real(total)


def digit_sums(
    n: int = 100,
    digits: int = 2,
    *,
    seed: int | None = None,
    generator: weft.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Addition written out: tokens of "ab+cd=" and of the sum with digits + 1 places, all zero-filled.

    Tokens 0 … 9 are digits, 10 is +, 11 is =. Shape: questions (n, 2 · digits + 2), answers (n, digits + 1)

    Example:
        >>> from weft.data.synthetic import digit_sums
        >>> question, answer = digit_sums(1, 1, seed=1)
        >>> len("".join("0123456789+="[t] for t in question[0].tolist())), tuple(answer.shape)
        (4, (1, 2))
    """
    check_count("digit_sums", n=n)
    check_count("digit_sums", 1, digits=digits)
    if digits > 17:
        raise OptionError(f"digit_sums: expected at most 17 digits, for sums that int64 holds, got {digits}")
    a, b = stream("digit_sums", seed, generator).integers(0, 10**digits, (2, n))
    plus, equals = (np.full((n, 1), DIGITS.index(sign)) for sign in "+=")
    question = np.concatenate([_places(a, digits), plus, _places(b, digits), equals], 1)
    return weft.as_tensor(question), weft.as_tensor(_places(a + b, digits + 1))


def _places(numbers: np.ndarray, count: int) -> np.ndarray:
    """The decimal digits, most significant first. Shape: (n,) → (n, count)"""
    return numbers[:, None] // 10 ** np.arange(count - 1, -1, -1) % 10
