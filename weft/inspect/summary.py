"""The layer table of a model: output shapes, parameters, floating-point operations, receptive fields."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd import enable_grad
from ..dtypes import as_dtype, get_default_dtype
from ..errors import ArgumentError
from ..nn.module import Module
from ..nn.parameter import is_lazy
from ..tensor import Tensor, wrap
from .field import FieldTracer
from .flops import first_tensor, rule_for

__all__ = ["Row", "Summary", "summary"]

WIDTH = 120  # of the table as plain text


@dataclasses.dataclass
class Row:
    """One call of a module.

    `parameters` are those that belong to this row alone (a container's are its parts', listed in their rows; of a
    module used again they were counted the first time); `flops` likewise. `receptive_field` has one size an axis.
    """

    name: str
    kind: str
    depth: int
    output_shape: tuple[int, ...] | None = None
    parameters: int = 0
    flops: int = 0
    receptive_field: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Summary:
    """The table as data; print it, or `show()` it in colour on a terminal."""

    rows: list[Row]
    total_parameters: int
    trainable_parameters: int
    parameter_bytes: int
    total_flops: int

    def table(self) -> Any:
        """The table for rich."""
        from rich.table import Table
        from rich.text import Text

        out = Table(box=_box(), header_style="bold")
        out.add_column("layer", overflow="fold")
        for title in ("output shape", "parameters", "FLOPs", "receptive field"):
            out.add_column(title, justify="right", no_wrap=True)
        for row in self.rows:
            layer = Text.assemble("  " * row.depth, (row.kind, "cyan"), f" {row.name}" if row.name else "")
            field = " × ".join(map(str, row.receptive_field or ()))
            shape = "" if row.output_shape is None else str(list(row.output_shape))
            out.add_row(layer, shape, f"{row.parameters:,}" if row.parameters else "", _flops(row.flops), field)
        out.caption = self.totals()
        out.caption_justify = "left"
        return out

    def totals(self) -> str:
        frozen = self.total_parameters - self.trainable_parameters
        counted = f"\nFLOPs of one forward pass: {self.total_flops:,}" if self.total_flops else ""
        return (
            f"parameters: {self.total_parameters:,} ({self.trainable_parameters:,} trainable, {frozen:,} not), "
            f"{self.parameter_bytes / 2**20:.2f} MiB{counted}"
        )

    def show(self) -> None:
        """Print the table: with colours on a terminal, as plain text anywhere else."""
        from rich.console import Console

        console = Console()
        (console if console.is_terminal else Console(width=WIDTH)).print(self.table())

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=WIDTH, color_system=None, force_terminal=False).print(self.table())
        return text.getvalue().rstrip()

    __repr__ = __str__


def _box() -> Any:
    from rich import box

    return box.SIMPLE_HEAD


def _flops(count: int) -> str:
    """A count with three figures and a unit: 1.42 G."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count) if count else ""


def summary(
    model: Module, *inputs: Tensor | Sequence[int], dtypes: Sequence[Any] = (), depth: int | None = None
) -> Summary:
    """Call a model once, in evaluation mode, and tabulate its layers in the order of their calls.

    An input is a tensor or the size (batch first) of one to be made of zeros, of the element type at its place in
    `dtypes` or the default. Modules deeper than `depth` are added to the row that contains them. Without inputs the
    table has names and parameters only.

    >>> print(weft.inspect.summary(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), (1, 3, 32, 32)))
    """
    recorder = _Recorder(model, depth)
    if inputs:
        recorder.run([_made(x, dtypes[i] if i < len(dtypes) else None) for i, x in enumerate(inputs)])
    else:
        recorder.list_modules()
    parameters = [p for p in model.parameters() if not is_lazy(p)]
    return Summary(
        rows=recorder.rows,
        total_parameters=sum(p.numel() for p in parameters),
        trainable_parameters=sum(p.numel() for p in parameters if p.requires_grad),
        parameter_bytes=sum(p.nbytes for p in parameters),
        total_flops=sum(row.flops for row in recorder.rows),
    )


def _made(given: Any, kind: Any) -> Any:
    """An input: a tensor outside any graph (with one of its own, so that fields can be followed), or zeros."""
    if isinstance(given, Tensor):
        out = given.detach()
    elif isinstance(given, (tuple, list)) and all(isinstance(n, int) for n in given):
        out = wrap(np.zeros(tuple(given), (get_default_dtype() if kind is None else as_dtype(kind)).np))
    else:
        raise ArgumentError(f"summary: an input must be a tensor or a size such as (1, 3, 32, 32), got {given!r}")
    return out.requires_grad_() if out.is_floating_point() else out


class _Recorder:
    """Listens to every call of every part of a model."""

    def __init__(self, model: Module, depth: int | None) -> None:
        self.model, self.limit = model, depth
        self.rows: list[Row] = []
        self.open: list[Row] = []  # rows of the calls under way, the innermost last
        self.inside = 0  # how many of them are counted by a rule of their own, so that their parts are not
        self.counted: set[int] = set()

    def row(self, name: str, module: Module, depth: int) -> Row:
        """A new row, or the containing one beyond the depth limit; with the parameters not counted before."""
        if self.limit is not None and depth > self.limit and self.open:
            row = self.open[-1]
        else:
            row = Row(name, type(module).__name__, depth)
            self.rows.append(row)
        for parameter in module.parameters(recurse=rule_for(module) is not None):
            if id(parameter) not in self.counted and not is_lazy(parameter):
                self.counted.add(id(parameter))
                row.parameters += parameter.numel()
        return row

    def list_modules(self, name: str = "", module: Module | None = None) -> None:
        """Rows without a call, in the order of registration."""
        module = self.model if module is None else module
        self.open.append(self.row(name, module, len(self.open)))
        if rule_for(module) is None:
            for child, part in module.named_children():
                self.list_modules(child, part)
        self.open.pop()

    def run(self, inputs: list[Tensor]) -> None:
        """One forward pass with hooks on all modules; modes and hooks are put back whatever happens."""
        self.tracer = FieldTracer([x for x in inputs if x.requires_grad])
        modes = [(module, module.training) for module in self.model.modules()]
        handles = []
        for name, module in self.model.named_modules():
            handles.append(module.register_forward_pre_hook(self.before(name), with_kwargs=True))
            handles.append(module.register_forward_hook(self.after, with_kwargs=True))
        try:
            self.model.eval()
            with enable_grad():
                self.model(*inputs)
        finally:
            for handle in handles:
                handle.remove()
            for module, training in modes:
                module.__dict__["training"] = training

    def before(self, name: str) -> Any:
        def hook(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not self.inside:
                self.open.append(self.row(name.rpartition(".")[2], module, len(self.open)))
            self.inside += rule_for(module) is not None or bool(self.inside)

        return hook

    def after(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        rule = rule_for(module)
        if self.inside > 1:
            self.inside -= 1
            return
        self.inside = 0
        row, given = self.open.pop(), (*args, *kwargs.values())
        field = self.tracer.after(module, given, output)
        row.flops += rule(module, given, output) if rule is not None else 0
        if not self.open or row is not self.open[-1]:
            found = first_tensor(output)
            row.output_shape = None if found is None else tuple(found.shape)
            row.receptive_field = field
