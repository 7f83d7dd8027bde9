"""The time loop of a recurrent layer as one kernel: in every step a matrix product, then what a cell makes of the sums.

    sums[n, q, u] = Σ_k left_t[n, k] · weight[k, q, u]        rows n, gates q, units u

The weights are copied once into panels of a few vectors of units, all gates of a unit beside each other, so that a cell
finds its sums in registers. A thread keeps its own rows of the batch through all steps and waits for no other; where
there are too few rows, threads own units instead and meet after every step. `recurrent_grad.py` has the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, prod
from typing import Any

from ...runtime.threads import get_num_threads
from ..anchor import AnchorNode, Strides, Whole
from ..kernel import Kernel
from ..llvm.builder import Function
from ..llvm.target import PROCESSORS
from ..llvm.values import BITS, Val, type_of
from ..math.tables import EXP2
from ..math.tools import FORMATS
from ..matmul.pack import hide, pack

__all__ = ["GruForward", "LstmForward", "ReluForward", "TanhForward", "TimeLoop", "Units", "time_loop"]

SERIAL_FLOPS = 20_000
MEETING = 1000  # cycles that a barrier costs with the waiting
MOST_ROWS = 12


@dataclass(frozen=True)
class TimeSeries:
    """Element (step, row, column) of an array: `start` + Σ index · stride elements from argument word `word`.

    `gates` parts of as many columns as there are units lie beside each other.
    """

    word: int
    strides: tuple[int, int, int]
    start: int = 0
    gates: int = 1


@dataclass(frozen=True)
class Sizes:
    """Steps of time, rows of the batch, units, and the columns of the left factor."""

    steps: int
    rows: int
    units: int
    depth: int


class TimeLoop(Kernel):
    """`begin` is done at every row and unit, then for each step from `first` on the product with stream `left`, as it was
    `first` steps before, and `step` with its sums.

    `operands` and `results` name the streams in the order of the argument words: the first has a row for each row of the
    batch at each step, the second for each row of the batch. `weight` has strides (k, gate, unit); its panels lie in the
    shared `workspace`. `threads` is how many are expected; any number works. Streams named in `spare` are for a way back;
    where nobody reads them they are left out.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    spare: tuple[str, ...] = ()
    left: str
    first: int
    gates = 1  # sums of one unit
    vectors = 1  # of units in a panel
    cost: int  # cycles of a cell for a vector of units, about

    def __init__(
        self, kind: str, sizes: Sizes, streams: dict[str, TimeSeries], weight: TimeSeries, threads: int
    ) -> None:
        self.kind, self.sizes, self.streams, self.weight, self.threads = kind, sizes, streams, weight, threads
        size, n = BITS[kind] // 8, sizes
        self.flops = n.steps * n.rows * n.units * (2 * n.depth * self.gates + self.cost)
        moved = sum(x.gates * prod((n.steps, n.rows)[d] for d in (0, 1) if x.strides[d]) for x in streams.values())
        self.nbytes = size * n.units * (moved + n.depth * self.gates)
        self.serial = self.flops < SERIAL_FLOPS
        widths = [self.vectors * width // size for width, _ in PROCESSORS]
        self.workspace = size * n.depth * self.gates * max(-(-n.units // width) * width for width in widths)
        self.workspace_word = 1 + max(x.word for x in (weight, *streams.values()))

    def key(self) -> str:
        return f"{type(self).__name__} {self.kind} {self.sizes} {self.streams} {self.weight} {self.threads}"

    def begin(self, f: Function, at: Units) -> None:
        """What is done at each row and unit before the first product."""
        raise NotImplementedError

    def step(self, f: Function, at: Units, sums: Sequence[Val]) -> None:
        """One step of the cell at some units of one row, given the sums of its gates."""
        raise NotImplementedError

    def emit(self, f: Function) -> None:
        _Writer(self, f).write()


def time_loop(loop: type[TimeLoop], node: AnchorNode, falling: bool) -> Whole | None:
    """The kernel of an operation; `falling`: the last step in memory is the first in the loop.

    Streams have one row for all, a row for each row of the batch, for each at each step, or for each before and after
    each step; these are called `next_…` after a step.
    """
    named = dict(zip((*loop.operands[: len(node.inputs)], *loop.results), (*node.inputs, *node.outputs), strict=True))
    (rows, units), weight = named[loop.operands[1]].shape, named["weight"].shape
    kinds = {type_of(v.dtype) for v in named.values()}
    if len(kinds) > 1 or not kinds <= {"f32", "f64"} or any(v.size == 0 for v in named.values()):
        return None
    (kind,), steps = kinds, node.inputs[0].shape[0] // rows

    def make(strides: Sequence[Strides], results: Sequence[Strides | None]) -> Kernel:
        there = [pair for pair in zip(named, (*strides, *results), strict=True) if pair[1] is not None]
        given = {name: (number, one) for number, (name, one) in enumerate(there)}
        word, (row, column) = given.pop("weight")
        order = (row, 0, column) if loop.first else (column, units * row, row)
        sizes, streams = Sizes(steps, rows, units, weight[0] if loop.first else weight[1]), {}
        for name, (number, (*down, across)) in given.items():
            shape, below = named[name].shape, down[0] if down else 0
            slots = shape[0] // rows if down else 1
            each = (-rows if falling else rows) * below if slots > 1 else 0
            start = (1 - slots) * each if falling else 0
            streams[name] = TimeSeries(number, (each, below, across), start, shape[-1] // units)
            if slots > steps:
                streams[f"next_{name}"] = replace(streams[name], start=start + each)
        return loop(kind, sizes, streams, TimeSeries(word, order), get_num_threads())

    return Whole(node, node.inputs, make, spare=[named[name] for name in loop.spare])


class Units:
    """Some units of a row at one step, as a cell sees them."""

    def __init__(self, writer: _Writer, bases: dict[str, Val], row: Any, vector: int, mask: Val | None) -> None:
        self.writer, self.bases, self.row, self.vector, self.mask = writer, bases, row, vector, mask

    def _index(self, stream: TimeSeries, gate: int) -> Any:
        column = (gate * self.writer.loop.sizes.units + self.vector * self.writer.lanes) * stream.strides[2]
        return self.row * stream.strides[1] + column

    def load(self, name: str, gate: int = 0) -> Val:
        w, stream = self.writer, self.writer.loop.streams[name]
        index = self._index(stream, gate)
        return w.f.load(self.bases[name], index, w.loop.kind, w.lanes, self.mask, stream.strides[2])

    def store(self, value: Val, name: str, gate: int = 0) -> None:
        """Nothing where the stream was left out."""
        w, stream = self.writer, self.writer.loop.streams.get(name)
        if stream is None:
            return
        w.f.store(value, self.bases[name], self._index(stream, gate), self.mask, stream.strides[2])


class _Writer:
    """Writes a time loop for one kind of processor. A panel is `width` units, a tile `rows` rows of a panel."""

    def __init__(self, loop: TimeLoop, f: Function) -> None:
        self.loop, self.f, n = loop, f, loop.sizes
        self.lanes = f.target.lanes_of(loop.kind)
        self.width = self.lanes * loop.vectors
        self.full_panels, self.rest_units = divmod(n.units, self.width)
        self.panels = self.full_panels + (self.rest_units > 0)
        self.rows, self.by_units = self._choose()
        self.full_tiles, self.rest_rows = divmod(n.rows, self.rows)
        self.tiles = self.full_tiles + (self.rest_rows > 0)
        self.row_of_panel = self.width * loop.gates
        self.multiply_add = f.fma if f.target.fma else lambda a, b, c: a * b + c

    def _choose(self) -> tuple[int, bool]:
        """The rows of a tile, and whether threads share the units: what takes clearly the fewest cycles a step."""
        loop, n = self.loop, self.loop.sizes
        across, threads = loop.gates * loop.vectors, loop.threads

        def cycles(choice: tuple[int, bool]) -> float:
            rows, by_units = choice
            tiles = -(-n.rows // rows)
            mine = tiles * -(-self.panels // threads) if by_units else -(-tiles // threads) * self.panels
            each = n.depth * across * (max(rows, 2) + 0.5) + rows * loop.cost  # a panel is read as fast as two rows
            return 1.1 * mine * each + MEETING if by_units else mine * each

        registers = self.f.target.registers
        most = max((registers - across - 1) // across, (registers - 1) // (across + 1))  # see `sums`
        most = max(1, min(MOST_ROWS, most))
        ways = (False, True) if threads > 1 else (False,)
        return min(((rows, way) for way in ways for rows in range(most, 0, -1)), key=cycles)

    # ---------------------------------------------------------------------------------- the order of things
    def write(self) -> None:
        f, loop = self.f, self.loop
        self.pack()
        tiles, panels = (f.index(0), f.index(self.tiles)), (f.index(0), f.index(self.panels))
        if self.by_units:
            panels = f.split(self.panels)
        else:
            tiles = f.split(self.tiles)
        self.over(tiles, panels, self.begin)
        f.barrier()
        with f.loop(loop.first, loop.sizes.steps) as steps:
            self.over(tiles, panels, lambda *where: self.tile(steps.i, *where))
            if self.by_units:
                f.barrier()

    def over(self, tiles: tuple[Val, Val], panels: tuple[Val, Val], work: Callable[..., None]) -> None:
        """work(first row, rows, first unit, units) for all tiles of all panels in the given ranges."""
        f = self.f

        def panel(number: Val, units: int) -> None:
            unit = hide(f, number * self.width)
            if self.full_tiles:
                end = f.intrinsic("smin", tiles[1], self.full_tiles) if self.rest_rows else tiles[1]
                with f.loop(tiles[0], end) as run:
                    work(hide(f, run.i * self.rows), self.rows, unit, units)
            if self.rest_rows:
                with f.when((tiles[0] <= self.full_tiles) & (tiles[1] > self.full_tiles)):
                    work(f.index(self.full_tiles * self.rows), self.rest_rows, unit, units)

        with f.loop(*panels) as run:
            if self.full_panels and self.rest_units:
                with f.when(run.i < self.full_panels):
                    panel(run.i, self.width)
                with f.when(run.i >= self.full_panels):
                    panel(run.i, self.rest_units)
            else:
                panel(run.i, self.rest_units or self.width)

    def pack(self) -> None:
        """Copy this thread's share of the panels."""
        f, loop, n = self.f, self.loop, self.loop.sizes
        k, gate, unit = loop.weight.strides
        with f.loop(*f.split(self.panels)) as run:
            first = run.i * self.width
            units = f.intrinsic("smin", n.units - first, self.width) if self.rest_units else self.width
            for q in range(loop.gates):
                source = f.offset(f.arg(loop.weight.word), first * unit + q * gate, loop.kind)
                to = f.offset(self.panel_at(first), q * self.width, loop.kind)
                pack(f, source, (k, unit), (n.depth, units), loop.kind, self.lanes, to, self.row_of_panel)

    def panel_at(self, unit: Val) -> Val:
        """The panel that begins with a unit."""
        place = unit * (self.loop.sizes.depth * self.loop.gates)
        return self.f.offset(self.f.arg(self.loop.workspace_word), place, self.loop.kind)

    def bases(self, step: Any, row: Val, unit: Val) -> dict[str, Val]:
        """Where each stream has this step, row and unit."""
        f, found = self.f, {}
        for name, x in self.loop.streams.items():
            index = step * x.strides[0] + row * x.strides[1] + unit * x.strides[2] + x.start
            found[name] = hide(f, f.offset(f.arg(x.word), index, self.loop.kind))
        return found

    # ------------------------------------------------------------------------------------------ one tile
    def mask(self, units: int, vector: int) -> Val | None:
        left = units - vector * self.lanes
        return None if left >= self.lanes else self.f.tail_mask(self.lanes, left)

    def begin(self, row: Val, rows: int, unit: Val, units: int) -> None:
        """The cells of a tile before the first step."""
        bases = self.bases(self.f.index(0), row, unit)
        with self.f.loop(0, rows, runs=True) as run:
            for v in range(-(-units // self.lanes)):
                self.loop.begin(self.f, Units(self, bases, run.i, v, self.mask(units, v)))

    def tile(self, step: Val, row: Val, rows: int, unit: Val, units: int) -> None:
        """A product and the cells that take its sums, row by row."""
        f, loop, vectors = self.f, self.loop, -(-units // self.lanes)
        bases = self.bases(step, row, unit)
        sums = self.sums(step, row, self.panel_at(unit), rows, vectors)
        each = loop.gates * vectors
        tile = f.stack(loop.kind, rows * each * self.lanes)
        for number, value in enumerate(sums):
            f.store(value, tile, number * self.lanes)
        with f.loop(0, rows, runs=True) as run:
            for v in range(vectors):
                numbers = [run.i * each + (q * vectors + v) for q in range(loop.gates)]
                mine = [f.load(tile, number * self.lanes, loop.kind, self.lanes) for number in numbers]
                loop.step(f, Units(self, bases, run.i, v, self.mask(units, v)), mine)

    def sums(self, step: Val, row: Val, panel: Val, rows: int, vectors: int) -> list[Val]:
        """For each row, gate and vector of units the sum over k.

        Beside the sums, registers hold the panel's vectors at one k and the number of one row at a time; where there are
        too few of them for that, the numbers of all rows and one vector at a time.
        """
        f, loop, x = self.f, self.loop, self.loop.streams[self.loop.left]
        before = x.start - loop.first * x.strides[0]
        left = hide(f, f.offset(f.arg(x.word), step * x.strides[0] + row * x.strides[1] + before, loop.kind))
        zero = f.const(loop.kind, 0.0, self.lanes)
        panel = hide(f, panel)
        places = [q * self.width + v * self.lanes for q in range(loop.gates) for v in range(vectors)]
        with f.loop(0, loop.sizes.depth, carry=[zero] * (rows * len(places)), runs=True) as run:
            start, following = run.i * self.row_of_panel, list(run.carry)

            def number(r: int) -> Val:
                return f.splat(f.load(left, run.i * x.strides[2] + r * x.strides[1], loop.kind), self.lanes)

            def vector(i: int) -> Val:
                return f.load(panel, start + places[i], loop.kind, self.lanes)

            def add(r: int, i: int, one: Val, right: Val) -> None:
                following[r * len(places) + i] = self.multiply_add(one, right, following[r * len(places) + i])

            if (rows + 1) * len(places) < f.target.registers:
                held = [vector(i) for i in range(len(places))]
                for r in range(rows):
                    one = number(r)
                    for i, right in enumerate(held):
                        add(r, i, one, right)
            else:
                held = [number(r) for r in range(rows)]
                for i in range(len(places)):
                    right = vector(i)
                    for r, one in enumerate(held):
                        add(r, i, one, right)
            run.next(following)
        return list(run.results)


# ------------------------------------------------------------------------------------------ activations

SATURATED = {"f32": 60.0, "f64": 120.0}  # 2 to this power has no effect beside 1


def _power(f: Function, x: Val, scale: float, offset: float) -> Val:
    """2^(scale · x) + offset with the error of the result relative to its larger term; exponents end at ± SATURATED."""
    form, limit = FORMATS[x.kind], SATURATED[x.kind]
    exponent = f.least(x * scale, limit)
    exponent = f.select(exponent < -limit, -limit, exponent)
    shifted = exponent + form.shifter
    rest = exponent - (shifted - form.shifter)
    grown = rest * f.polynomial(rest, EXP2[x.kind])  # 2^rest − 1
    bits = (f.bitcast(shifted, form.whole) << form.fraction) + form.one_bits
    whole = f.bitcast(bits, x.kind)
    return f.fma(whole, grown, whole + offset)


def sigmoid(f: Function, x: Val) -> Val:
    """1 / (1 + e⁻ˣ), with an error of a few units in the last place of 1."""
    return 1.0 / _power(f, x, -1 / log(2), 1.0)


def tanh(f: Function, x: Val) -> Val:
    """e / (e + 2) with e = exp 2x − 1, within a few units in the last place."""
    e = _power(f, x, 2 / log(2), -1.0)
    return e / (e + 2.0)


# ------------------------------------------------------------------------------------------ cells


class ForwardLoop(TimeLoop):
    """The states before and after each step are kept."""

    left, first = "hidden", 0

    def begin(self, f: Function, at: Units) -> None:
        for name in ("hidden", "cell"):
            if name in self.streams:
                at.store(at.load(f"first_{name}"), name)


class TanhForward(ForwardLoop):
    """h' = tanh(x + W h)."""

    operands, results = ("x", "first_hidden", "weight"), ("hidden",)
    vectors, cost = 2, 20

    def step(self, f: Function, at: Units, sums: Sequence[Val]) -> None:
        at.store(tanh(f, sums[0] + at.load("x")), "next_hidden")


class ReluForward(ForwardLoop):
    """h' = max(x + W h, 0)."""

    operands, results = TanhForward.operands, TanhForward.results
    vectors, cost = 2, 5

    def step(self, f: Function, at: Units, sums: Sequence[Val]) -> None:
        at.store(f.maximum(sums[0] + at.load("x"), 0.0), "next_hidden")


class LstmForward(ForwardLoop):
    """i, f, o = σ(x + W h), g = tanh(x + W h); c' = f c + i g; h' = o tanh c'."""

    operands, results = ("x", "first_hidden", "first_cell", "weight"), ("hidden", "cell", "gates", "bent")
    spare = ("gates", "bent")
    gates, cost = 4, 100

    def step(self, f: Function, at: Units, sums: Sequence[Val]) -> None:
        total = [s + at.load("x", q) for q, s in enumerate(sums)]
        enter, forget, leave = (sigmoid(f, total[q]) for q in (0, 1, 3))
        proposal = tanh(f, total[2])
        cell = forget * at.load("cell") + enter * proposal
        bent = tanh(f, cell)
        for q, gate in enumerate((enter, forget, proposal, leave)):
            at.store(gate, "gates", q)
        at.store(cell, "next_cell")
        at.store(bent, "bent")
        at.store(leave * bent, "next_hidden")


class GruForward(ForwardLoop):
    """r, z = σ(x + W h + b), n = tanh(x + r (W h + b)); h' = n + z (h − n). The bias may be left out."""

    operands, results = ("x", "first_hidden", "weight", "bias"), ("hidden", "gates", "inner")
    spare = ("gates", "inner")
    gates, cost = 3, 70

    def step(self, f: Function, at: Units, sums: Sequence[Val]) -> None:
        inner = [s + at.load("bias", q) for q, s in enumerate(sums)] if "bias" in self.streams else sums
        reset, update = (sigmoid(f, inner[q] + at.load("x", q)) for q in (0, 1))
        new = tanh(f, at.load("x", 2) + reset * inner[2])
        for q, gate in enumerate((reset, update, new)):
            at.store(gate, "gates", q)
        at.store(inner[2], "inner")
        at.store(new + update * (at.load("hidden") - new), "next_hidden")
