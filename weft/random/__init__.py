"""Random numbers from explicit, splittable, counter-based generators (NumPy arrays in, NumPy arrays out).

A stream is a pure function: word w of the stream with key (k₀, k₁) is word w mod 4 of the Philox4x64-10 block
(Salmon et al., SC 2011, "Parallel random numbers: as easy as 1, 2, 3") with that key and the counter

    (b mod 2⁶⁴, b div 2⁶⁴, lane, domain),     b = w div 4.

A generator is a key and an offset (its next word). `manual_seed(s)` gives key (s, 0) and offset 0. Each draw
reserves whole blocks: it starts at a multiple of four words, so native code never meets a phase. Lane and
domain are 0 but for rejection rounds (lane = round) and `fold_in` (domain 1).

Element i of a draw (C order) depends on the key, the draw's first word o, i and its own parameters:

    bits, integers, geometric, multinomial, permutation   word o + i
    uniform, exponential, cauchy in float64               word o + i
    the same in narrower dtypes; bernoulli                half i: word o + ⌊i/2⌋, its low 32 bits if i is even
    normal, log_normal                                    as these; elements 2j and 2j + 1 share their two
    complex uniform and normal                            the real elements 2i and 2i + 1
    gamma, poisson, binomial                              block o/4 + i, in round r of lane r

From b raw bits r (b = 32 or 64) to a number of that width:

    unit(r)   = ⌊r / 2⁸⌋ · 2⁻²⁴ (b = 32),  ⌊r / 2¹¹⌋ · 2⁻⁵³ (b = 64)         in [0, 1), exact
    open(r)   = float(r) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾                                     in (0, 1]
    signed(r) = float(r as a signed integer) · 2⁻ᵇ + 2⁻⁽ᵇ⁺¹⁾                 in [-½, ½], never 0
    normals   : ρ = √(-2 ln open(r₂ⱼ)), θ = 2π signed(r₂ⱼ₊₁), then z₂ⱼ = ρ cos θ, z₂ⱼ₊₁ = ρ sin θ (Box–Muller)

float16 and bfloat16 numbers are the float32 ones, rounded. Nothing here depends on threads or chunks.
"""

import contextlib
import operator
import secrets
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..device import device as Device
from ..errors import ArgumentError
from ..runtime.locks import fork_safe_lock
from .checks import RandomError, _check
from .samplers import Samplers
from .stream import BLOCK, FOLD, Key, words

__all__ = [
    "Generator",
    "RandomError",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "words",
]

DEFAULT_SEED = 67280421310721  # PyTorch's
STATE_MAGIC = b"WEFTRNG1"
STATE_BYTES = len(STATE_MAGIC) + 16 + 16  # magic, key, offset; little-endian

_lock = fork_safe_lock(whole=True)  # guards the key and offset of every generator, for nanoseconds at a time


_listener: Callable[["Generator"], None] | None = None


def _listen(listener: Callable[["Generator"], None]) -> None:
    """Let `listener` be told of every generator that is about to move."""
    global _listener
    _listener = listener


class Generator(Samplers):
    """A position in a random stream: PyTorch's `Generator`, with `split`, `fold_in` and samplers.

    Samplers advance `offset`; the module docstring says which words make which element. A lock guards the
    reservation of words, so threads may share a generator: no word is used twice.

    >>> g = Generator().manual_seed(0)
    >>> a, b = g.uniform(8), g.uniform(8)
    >>> bool((g.manual_seed(0).uniform(16) == np.concatenate([a, b])).all())
    True
    """

    part = (
        0,
        1,
        1,
    )  # of several processes: the first row that this one draws for, how many, and how many all have together

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = Device(device)
        self._moving()
        self._key, self._offset = (DEFAULT_SEED, 0), 0

    def _moving(self) -> None:
        """The key or the offset is about to change: who has asked to be told is told."""
        if _listener is not None:
            _listener(self)

    def manual_seed(self, seed: int) -> "Generator":
        """Restart at offset 0 of the stream with key (seed, 0); seeds below 0 are taken modulo 2⁶⁴."""
        key = (_as_word(seed, "manual_seed"), 0)
        self._moving()
        with _lock:
            self._key, self._offset = key, 0
        return self

    def seed(self) -> int:
        """Seed with 53 bits from the operating system, and return them."""
        seed = secrets.randbits(53)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed in use: the first word of the key."""
        return self._key[0]

    @property
    def key(self) -> Key:
        """The two 64-bit words that name the stream: (seed, 0), or what `split` or `fold_in` drew."""
        return self._key

    @property
    def offset(self) -> int:
        """The next word of the stream, always a multiple of 4; it can be set."""
        return self._offset

    @offset.setter
    def offset(self, value: int) -> None:
        offset = operator.index(value)
        if offset % BLOCK or not 0 <= offset < 2**128:
            raise RandomError(f"offset: expected a multiple of {BLOCK} words in [0, 2**128), got {offset}")
        self._moving()
        with _lock:
            self._offset = offset

    def get_state(self) -> NDArray[np.uint8]:
        """Key and offset as 40 bytes, for `set_state`."""
        with _lock:
            (first, second), offset = self._key, self._offset
        numbers = (first | second << 64).to_bytes(16, "little") + offset.to_bytes(16, "little")
        return np.frombuffer(STATE_MAGIC + numbers, np.uint8).copy()

    def set_state(self, new_state: NDArray[np.uint8]) -> None:
        """Return to the key and offset that `get_state` wrote; other bytes raise an error, change nothing."""
        key, offset = _parse_state(new_state)
        self._moving()
        with _lock:
            self._key, self._offset = key, offset

    def _take_place_of(self, other: "Generator") -> None:
        """`set_state(other.get_state())`, without the bytes in between."""
        self._moving()
        with _lock:
            self._key, self._offset = other._key, other._offset

    def clone_state(self) -> "Generator":
        """A new generator at the same place of the same stream."""
        return _restore(self.device, self.get_state())

    def reserve(self, count: int) -> tuple[Key, int]:
        """Take `count` words, rounded up to whole blocks, out of the stream: the key and the first's offset.

        `words(key, offset, count)` computes them, in any number of pieces, here or in native code.
        """
        self._moving()
        first, own, joint = self.part
        blocks = -(-count // BLOCK)
        with _lock:
            key, offset = self._key, self._offset
            self._offset = offset + -(-blocks * joint // own) * BLOCK
        return key, offset + -(-blocks * first // own) * BLOCK

    def split(self, n: int = 2) -> list["Generator"]:
        """n generators with streams of their own, keyed by words 0 and 1 of the next n blocks of this one.

        >>> left, right = Generator().manual_seed(0).split()
        >>> left.key == right.key
        False
        """
        _check(n >= 0, f"split: expected n >= 0, got {n}")
        keys = self.bits(BLOCK * n).reshape(n, BLOCK)[:, :2]  # (n, 4) → (n, 2)
        return [_from_key(self.device, (int(first), int(second))) for first, second in keys]

    def fold_in(self, data: int) -> "Generator":
        """Generator number `data` (a worker, a layer, an epoch) of this key, whatever the offset.

        A pure function of key and data that takes nothing from the stream: the new key is words 0 and 1 of
        block `data` (modulo 2⁶⁴) of domain 1, which ordinary draws never reach.
        """
        block = _as_word(data, "fold_in")
        first, second = words(self._key, BLOCK * block, 2, domain=FOLD)
        return _from_key(self.device, (int(first), int(second)))

    def __reduce__(self) -> tuple:
        return _restore, (self.device, self.get_state())

    def __repr__(self) -> str:
        return f"Generator(device={str(self.device)!r}, key={self._key}, offset={self._offset})"


# ---- numbers, keys and states -------------------------------------------------------------------------------


def _as_word(number: int, name: str) -> int:
    """An integer in [-2⁶³, 2⁶⁴), modulo 2⁶⁴."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise ArgumentError(f"{name} expected an int, but got {type(number).__name__}")
    number = operator.index(number)
    _check(-(2**63) <= number < 2**64, f"{name}: expected an int in [-2**63, 2**64), got {number}")
    return number % 2**64


def _from_key(device: Device, key: Key) -> Generator:
    generator = Generator(device)
    generator._key = key
    return generator


def _restore(device: Device, state: NDArray[np.uint8]) -> Generator:
    generator = Generator(device)
    generator.set_state(state)
    return generator


def _parse_state(state: NDArray[np.uint8]) -> tuple[Key, int]:
    if not isinstance(state, np.ndarray) or state.dtype != np.uint8:
        found = state.dtype if isinstance(state, np.ndarray) else type(state).__name__
        raise ArgumentError(f"set_state: expected the uint8 array that get_state returned, got {found}")
    expected = f"set_state: expected the ({STATE_BYTES},) bytes that get_state returned"
    _check(state.shape == (STATE_BYTES,), f"{expected}, got shape {state.shape}")
    found, numbers = state.tobytes()[: len(STATE_MAGIC)], state.tobytes()[len(STATE_MAGIC) :]
    _check(found == STATE_MAGIC, f"{expected}, which begin with {STATE_MAGIC!r}; these begin with {found!r}")
    first, second, low, high = (int.from_bytes(numbers[i : i + 8], "little") for i in range(0, 32, 8))
    _check(low % BLOCK == 0, f"{expected}; these have the offset {low}, which is no multiple of {BLOCK}")
    return (first, second), low | high << 64


# ---- the generator that functions use when none is given ---------------------------------------------------

default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, and return it."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> NDArray[np.uint8]:
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: NDArray[np.uint8]) -> None:
    """Return the default generator to a state from `get_rng_state`."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Sequence | None = None, enabled: bool = True) -> Iterator[None]:
    """Give the default generator its state back at the end of the block, also after an error.

    `devices` is PyTorch's; one generator serves every device here, so it changes nothing.

    >>> start = manual_seed(0).offset
    >>> with fork_rng():
    ...     _ = default_generator.uniform(100)
    >>> default_generator.offset == start
    True
    """
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
