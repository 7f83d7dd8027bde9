"""The tiling of a product that was measured to be the fastest on this machine (trying.py measures).

A `Choice` is what of a `Tiling` may differ without changing a bit: the size of a tile, the order of tiles, whether panels are
copied, and whether A changes places with B. In which order the terms of a sum are added (`cut`) stays what the tables say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ...runtime import tuned
from ..llvm.target import PARTS, Target

if TYPE_CHECKING:
    from .product import Product, Tiling

__all__ = ["Choice", "chosen", "cut", "name"]

SUMS = 2 * PARTS.sums  # bytes that may wait between parts along k
LIMITS = {"rows": 64, "vectors": 8, "block": 1 << 20}


@dataclass(frozen=True)
class Choice:
    """A tiling, as far as it may be chosen: see `Tiling`. `swapped`: of Cᵀ = Bᵀ Aᵀ."""

    rows: int
    vectors: int
    block: int
    packed: bool
    swapped: bool = False

    @staticmethod
    def read(entry: Any) -> Choice | None:
        """The choice that a file holds; None if it is none."""
        try:
            made = Choice(**{key: entry[key] for key in Choice.__dataclass_fields__})
        except (TypeError, KeyError):
            return None
        numbers = [getattr(made, key) for key in LIMITS]
        flags = made.packed, made.swapped
        if not all(type(x) is int for x in numbers) or not all(type(x) is bool for x in flags):
            return None
        return made if all(1 <= x <= most for x, most in zip(numbers, LIMITS.values(), strict=True)) else None

    def written(self) -> dict[str, Any]:
        """The same for a file."""
        return asdict(self)

    def of(self, p: Product, usual: Tiling, target: Target) -> Tiling:
        """The tiling of a product whose usual one is given; the usual one where this does not fit."""
        if usual.dots or usual.turned or (self.rows + 1) * self.vectors >= target.registers:
            return usual
        must = p.b[-1] != 1 or bool(target.masked_load > 1 and p.n % usual.lanes) or usual.shared
        block = min(self.block, -(-p.m // self.rows))
        waits = usual.depth < p.k and not usual.shared
        made = replace(
            usual,
            rows=self.rows,
            vectors=self.vectors,
            at_once=self.rows,
            block=block,
            packed=must or (self.packed and not waits),
        )
        return usual if waits and made.scratch(p) > SUMS else made


def cut(t: Tiling) -> tuple[Any, ...]:
    """What of a tiling decides in which order the terms of a sum are added."""
    return t.dots, t.depth


def name(p: Product) -> str:
    """A product without its epilogue, of which only counts which of its loads and stores are not contiguous."""
    turned = [p.strided(axis, 1) > len(p.body.loads) + len(p.body.stores) for axis in (-2, -1)]
    return f"product {p.kind} {list(p.batch)} {p.m}x{p.n}x{p.k} {list(p.a)} {list(p.b)} {turned[0]:d}{turned[1]:d}"


def chosen(p: Product) -> Choice | None:
    """What was measured to be the fastest for a product; None where nothing was, or what is there cannot be."""
    entries = tuned.found(Target.host().identity)
    return Choice.read(entries.get(name(p))) if entries else None
