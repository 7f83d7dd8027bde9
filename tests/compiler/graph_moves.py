"""Steps of random programs that move elements: views, joining, indexing, writes in place; and whole programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.nn.functional as F
from weft import Tensor

from .graph_steps import STEPS, bits, step
from .graphs import INEXACT, Known, Maker, Program


@step(8)
def views(m: Maker) -> Any:
    name = m.pick(tuple(VIEWS))
    i = m.index(lambda v: v.rank > 0 or name in ("unsqueeze", "expand"))
    if i is None:
        return False
    v = m.values[i]
    found = VIEWS[name](m, v, m.number(0, v.rank - 1) if v.rank else 0)
    if found is None:
        return False
    text, run = found
    return m.add("{}" + text, [i], lambda k, x: run(x), v.high, v.low)


def reshape(m: Maker, v: Known, d: int) -> Any:
    factors = [(a, v.shape[d] // a) for a in range(2, min(v.shape[d], 50)) if v.shape[d] % a == 0]
    if not factors or v.rank > 3:
        return None
    shape = (*v.shape[:d], *m.pick(factors), *v.shape[d + 1 :])
    return f".reshape({shape})", lambda x: x.reshape(shape)


def permute(m: Maker, v: Known, d: int) -> Any:
    turned = tuple(reversed(range(v.rank))) if m.chance(2) else tuple((j + d) % v.rank for j in range(v.rank))
    return f".permute({turned})", lambda x: x.permute(turned)


def transpose(m: Maker, v: Known, d: int) -> Any:
    e = m.number(0, v.rank - 1)
    return f".transpose({d}, {e})", lambda x: x.transpose(d, e)


def unsqueeze(m: Maker, v: Known, d: int) -> Any:
    e = m.number(0, v.rank)
    return (f".unsqueeze({e})", lambda x: x.unsqueeze(e)) if v.rank < 4 else None


def cut(m: Maker, v: Known, d: int) -> Any:
    a = m.number(0, max(v.shape[d] - 1, 0))
    where = (slice(None),) * d + (slice(a, m.number(a, v.shape[d]), m.pick((1, 1, 2, 3))),)
    return f"[{where}]", lambda x: x[where]


def select(m: Maker, v: Known, d: int) -> Any:
    if v.shape[d] == 0:
        return None
    a = m.number(0, v.shape[d] - 1)
    return f".select({d}, {a})", lambda x: x.select(d, a)


def expand(m: Maker, v: Known, d: int) -> Any:
    if v.size > 2000 or v.rank > 3:
        return None
    shape = (m.number(1, 3), *(m.number(2, 4) if s == 1 else s for s in v.shape))
    return f".expand({shape})", lambda x: x.expand(shape)


def unfold(m: Maker, v: Known, d: int) -> Any:
    fits = v.shape[d] > 1 and v.size < 2000 and v.rank < 4
    return (f".unfold({d}, 2, 1)", lambda x: x.unfold(d, 2, 1)) if fits else None


def chunk(m: Maker, v: Known, d: int) -> Any:
    parts = m.number(2, 3)
    return (f".chunk({parts}, {d})", lambda x: x.chunk(parts, d)) if v.shape[d] else None


def diagonal(m: Maker, v: Known, d: int) -> Any:
    return (".diagonal(0, -2, -1)", lambda x: x.diagonal(0, -2, -1)) if v.rank > 1 else None


VIEWS: dict[str, Callable[[Maker, Known, int], Any]] = {
    "flatten": lambda m, v, d: (f".flatten({d})", lambda x: x.flatten(d)),
    "squeeze": lambda m, v, d: (".squeeze()", lambda x: x.squeeze()),
    **{f.__name__: f for f in (reshape, permute, transpose, unsqueeze, cut, select, expand, unfold, chunk, diagonal)},
}


# ------------------------------------------------------------------------------------ joining, indexing


@step(3)
def joined(m: Maker) -> Any:
    i = m.index(lambda v: v.rank > 0 and v.size < 8000)
    if i is None:
        return False
    a = m.values[i]
    d = m.number(0, a.rank - 1)
    others = lambda shape: (*shape[:d], *shape[d + 1 :])
    j = m.index(lambda v: v.dtype is a.dtype and v.rank == a.rank and others(v.shape) == others(a.shape))
    b = m.values[j]
    name = "stack" if a.shape == b.shape and a.rank < 4 and m.chance(3) else "cat"
    run = lambda k, x, y: getattr(weft, name)([x, y], d)
    return m.add(f"{name}([{{}}, {{}}], {d})", [i, j], run, max(a.high, b.high), max(a.low, b.low))


PLACED: dict[str, Callable[[Tensor, int, np.ndarray, np.ndarray], Tensor]] = {
    "pad": lambda x, d, rows, places: F.pad(x, (1, 2), value=0.5 if x.is_floating_point() else 1),
    "roll": lambda x, d, rows, places: x.roll(1, d),
    "repeat": lambda x, d, rows, places: x.repeat(*(2 if e == d else 1 for e in range(x.ndim))),
    "tril": lambda x, d, rows, places: x.tril() if x.ndim > 1 else x.flip(0),
    "index_select": lambda x, d, rows, places: x.index_select(d, weft.from_numpy(rows)),
    "take": lambda x, d, rows, places: x[(slice(None),) * d + (weft.from_numpy(rows),)],
    "gather": lambda x, d, rows, places: x.gather(d, weft.from_numpy(places)),
    "repeat_interleave": lambda x, d, rows, places: x.repeat_interleave(2, d),
    "masked_fill": lambda x, d, rows, places: x.masked_fill(weft.from_numpy(places % 2 == 0), 1),
    "scatter_add": lambda x, d, rows, places: weft.zeros_like(x).scatter_add(d, weft.from_numpy(places), x),
    "index_add": lambda x, d, rows, places: x.index_add(
        d, weft.from_numpy(rows), x.index_select(d, weft.from_numpy(rows))
    ),
}


@step(4)
def placed(m: Maker) -> Any:
    name = m.pick(tuple(PLACED))
    i = m.index(lambda v: v.rank > 0 and 0 < v.size < 3000 and (v.dtype is not weft.bool or not name.endswith("add")))
    if i is None:
        return False
    v = m.values[i]
    d, rng = m.number(0, v.rank - 1), np.random.default_rng(m.number(0, 5))
    rows = rng.integers(0, v.shape[d], m.number(1, 4))
    places = rng.integers(0, v.shape[d], v.shape)
    high = v.high + (bits(v.size) if name.endswith("add") else 1) if v.exact else INEXACT
    return m.add(f"{name}({{}}, {d})", [i], lambda k, x: PLACED[name](x, d, rows, places), high, max(v.low, 1))


# ------------------------------------------------------------------------------------ writes in place

WRITES: dict[str, Callable[[Tensor, Tensor, np.ndarray], Any]] = {
    "add_": lambda x, y, mask: x.add_(y),
    "sub_": lambda x, y, mask: x.sub_(y, alpha=2),
    "mul_": lambda x, y, mask: x.mul_(y),
    "copy_": lambda x, y, mask: x.copy_(y),
    "[...] =": lambda x, y, mask: x.__setitem__(Ellipsis, y),
    "fill_": lambda x, y, mask: x.fill_(0.5),
    "relu_": lambda x, y, mask: x.relu_(),
    "zero first": lambda x, y, mask: x[..., :1].zero_() if x.ndim else x.zero_(),
    "add to row": lambda x, y, mask: x[0].add_(2) if x.ndim else x.add_(2),
    "mul steps": lambda x, y, mask: x[::2].mul_(2) if x.ndim else x.mul_(2),
    "add turned": lambda x, y, mask: x.transpose(0, -1).add_(1) if x.ndim else x.add_(1),
    "masked_fill_": lambda x, y, mask: x.masked_fill_(weft.from_numpy(mask), 0.25),
    "index_add_": lambda x, y, mask: (
        x.index_add_(0, weft.tensor([0, 0]), x.new_ones(2, *x.shape[1:])) if x.ndim else x.neg_()
    ),
}
BOTH = ("add_", "sub_", "mul_", "copy_", "[...] =")  # those that read the second operand


@step(6)
def writes(m: Maker) -> Any:
    """A value changed in place, whole or through a view; where gradients are wanted, a copy of it."""
    name = m.pick(tuple(WRITES))
    i = m.index(lambda v: v.floating and v.size > 0 and is_disjoint(v.tensor))
    if i is None:
        return False
    v = m.values[i]
    j = m.index(lambda u: u.dtype is v.dtype and fits_into(u.shape, v.shape))
    u, mask = m.values[j], np.asarray(np.random.default_rng(m.number(0, 5)).random(v.shape) < 0.5)
    copied = m.program.grad or not m.chance(3)

    def run(k: Any, x: Tensor, y: Tensor) -> Tensor:
        x, y = (x.clone(), y.clone()) if copied else (x, y)
        WRITES[name](x, y, mask)
        return x

    if not v.exact or (name in BOTH and not u.exact):
        high, low = INEXACT, 0
    elif name == "mul_":
        high, low = v.high + u.high, v.low + u.low
    else:
        high = max(v.high, u.high + 1 if name in BOTH else 2) + 2
        low = max(v.low, u.low if name in BOTH else 2)
    m.add(f"{{}}{'.clone()' if copied else ''} ← {name} {{}}", [i, j], run, high, low)
    for other in m.values if not copied else ():  # they change with it
        if other.tensor.untyped_storage() == v.tensor.untyped_storage():
            other.high, other.low = max(other.high, high), max(other.low, low)
    return True


def is_disjoint(x: Tensor) -> bool:
    """Whether surely no two elements share a place."""
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def fits_into(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def make_program(pick: Callable[[Any], Any], number: Callable[[int, int], int]) -> Program:
    """One program with some inputs and steps."""
    maker = Maker(pick, number)
    weft.manual_seed(0)
    for _ in range(number(1, 3)):
        maker.add_input()
    wanted, tries = number(5, 12), 0
    while len(maker.program.steps) < wanted and tries < 3 * wanted:
        tries += 1
        pick(STEPS)(maker)
    return maker.finish()
