"""`weft info`, `weft cache`, `weft bench`: this machine, the cache of compiled code, and how quick a step is here."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .output import deliver, labelled, table

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["AsJson", "Threads"]

FEATURES = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bf16", "amx-bf16", "neon", "fp-armv8", "sve")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to compute with.", show_default="all cores")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (bench, info, cache):
        app.command(rich_help_panel="Machine")(command)


def info(as_json: AsJson = False) -> None:
    """Print versions, what the processor can do, threads, whether compiling works, the cache, extras and switches.

    Switches are environment variables; each is shown with its value and its meaning.

    Example: weft info --json
    """
    from ..runtime.extras import described

    document = _facts()

    def show(console: Console) -> None:
        cached = document["cache"]
        rows = [
            ("weft", document["weft"]),
            ("with", ", ".join(f"{name} {version}" for name, version in document["versions"].items())),
            ("processor", f"{document['processor']}, {document['vector_bits']}-bit vectors"),
            ("features", " ".join(document["features"])),
            ("caches", ", ".join(f"{name} {_mib(size)}" for name, size in document["caches"].items())),
            ("threads", f"{document['threads']} of {document['cores']} cores"),
            ("compiler", document["compiler"]),
            ("cache", f"{cached['directory'] or 'off'}: {cached['entries']} kernels, {_mib(cached['bytes'])}"),
            ("device", "cpu (this version computes on nothing else)"),
            *(("extra", f"{name}: {described(found)}") for name, found in document["extras"].items()),
        ]
        console.print(labelled(rows))
        switches = [(name, found["value"], found["meaning"]) for name, found in document["switches"].items()]
        console.print(table(("switch", "value", "meaning"), switches))

    deliver(document, as_json, show)


def _facts() -> dict[str, Any]:
    import dataclasses
    import platform

    from .. import __version__, get_num_threads
    from ..kernels.llvm.jit import Target
    from ..kernels.llvm.worker import binding
    from ..runtime import cache as kernels
    from ..runtime.extras import available
    from ..runtime.processor import available_cores
    from ..runtime.switches import SWITCHES

    target, here = Target.host(), binding().get_host_cpu_features()
    found = kernels.info()
    return {
        "weft": __version__,
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "llvmlite")},
        "system": platform.platform(),
        "processor": target.cpu,
        "vector_bits": 8 * target.vector_bytes,
        "caches": dataclasses.asdict(target.caches),
        "features": [name for name in FEATURES if here.get(name)],
        "threads": get_num_threads(),
        "cores": available_cores(),
        "compiler": _compiler(),
        "cache": {"directory": found.directory, "entries": found.entries, "bytes": found.bytes, "limit": found.limit},
        "devices": ["cpu"],
        "extras": available(),
        "switches": {
            name: {"value": entry.value, "default": entry.default, "meaning": entry.meaning}
            for name, entry in SWITCHES.items()
        },
    }


def _compiler() -> str:
    """Whether code can be compiled and run here, tried on one kernel; else why not."""
    from .. import compile, ones

    try:
        compile(lambda x: 2 * x)(ones(8))
    except Exception as error:
        return f"fails, {type(error).__name__}: {error}"
    return "works"


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def cache(
    action: Annotated[Literal["info", "clear"], typer.Argument(help="What to do.")] = "info", as_json: AsJson = False
) -> None:
    """Show or clear the cache of compiled code.

    Kernels of earlier programs lie there, so that the next one need not wait for them. WEFT_CACHE_DIR says where,
    WEFT_CACHE_SIZE how many MiB they may take (0 for no cache).

    Example: weft cache clear
    """
    from ..runtime import cache as kernels

    removed = kernels.clear() if action == "clear" else None
    found = kernels.info()
    document = {"directory": found.directory, "entries": found.entries, "bytes": found.bytes, "limit": found.limit}
    place = found.directory or "no cache (WEFT_CACHE_SIZE=0)"
    if removed is None:
        line = f"{place}: {found.entries} kernels, {_mib(found.bytes)} of {_mib(found.limit)}"
    else:
        document["removed"] = removed
        line = f"{place}: removed {removed} kernels"
    deliver(document, as_json, lambda console: console.print(line, markup=False))


def bench(
    threads: Threads = None,
    seconds: Annotated[float, typer.Option(min=0.05, help="Time to measure each step for.")] = 0.5,
    scaling: Annotated[
        bool, typer.Option("--scaling", help="Steps on 1, 2 and 4 processes, and a model of more.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Time a training step of small networks on this machine, eager and compiled.

    Examples:

      weft bench --threads 1

      weft bench --scaling
    """
    import weft

    if scaling:
        _show_scaling(as_json)
        return

    if threads:
        weft.set_num_threads(threads)
    rows = [_measured(name, make(), seconds) for name, make in _models().items()]
    document = {"threads": weft.get_num_threads(), "steps": rows}
    columns = ("step", ">eager ms", ">compiled ms", ">speed-up", ">compiling s")
    keys = ("name", "eager_ms", "compiled_ms", "speed_up", "compile_seconds")
    cells = [[f"{row[key]:.3g}" if key != "name" else row[key] for key in keys] for row in rows]
    title = f"Training steps, {document['threads']} thread{'s' if document['threads'] > 1 else ''}"
    deliver(document, as_json, lambda console: console.print(table(columns, cells, title)))


def _show_scaling(as_json: bool) -> None:
    """Measured and predicted steps of several ranks."""
    from . import scaling

    rows = scaling.measured()
    found, alone = scaling.fitted(rows), rows[0]
    guess = lambda ranks: scaling.predicted(ranks, alone["step"], alone["bytes"], **found)
    lines = [guess(row["ranks"]) | {"measured": row["step"]} for row in rows]
    lines += [guess(ranks) for ranks in scaling.PREDICTED]
    document = {"measured": rows, **found, "overlap": scaling.OVERLAP, "rows": lines, "assumptions": scaling.ASSUMED}
    heads = (">ranks", ">measured ms", ">predicted ms", ">communication ms", ">efficiency")
    cells = [
        (
            line["ranks"],
            f"{line['measured'] * 1e3:.3g}" if "measured" in line else "",
            *(f"{line[key] * 1e3:.3g}" for key in ("step", "communication")),
            f"{line['efficiency']:.0%}",
        )
        for line in lines
    ]

    def show(console: Console) -> None:
        model = f"{found['latency'] * 1e6:.3g} µs a message, {found['bandwidth'] / 1e9:.3g} GB/s between ranks"
        console.print(table(heads, cells, f"A step with {alone['bytes'] / 1e6:.3g} MB of gradients: {model}"))
        console.print("Assumed: " + "; ".join(scaling.ASSUMED), markup=False)

    deliver(document, as_json, show)


def _models() -> dict[str, Callable[[], tuple[Any, tuple[int, ...]]]]:
    """Networks and the shapes of their inputs."""
    from .. import nn

    def dense() -> Any:
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def convolutional() -> Any:
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1)]
        return nn.Sequential(*layers, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))

    return {
        "dense 64-128-10, batch 64": lambda: (dense(), (64, 64)),
        "two convolutions 28×28, batch 32": lambda: (convolutional(), (32, 1, 28, 28)),
    }


def _measured(name: str, made: tuple[Any, tuple[int, ...]], seconds: float) -> dict[str, Any]:
    import weft

    model, shape = made
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-3)
    x, y = weft.randn(*shape), weft.randint(0, 10, (shape[0],))

    def step(x: Any, y: Any) -> Any:
        loss = weft.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    eager = _milliseconds(step, (x, y), seconds)
    compiled = weft.compile(step)
    begin = time.perf_counter()
    compiled(x, y)
    compiling = time.perf_counter() - begin
    quick = _milliseconds(compiled, (x, y), seconds)
    times = {"eager_ms": eager, "compiled_ms": quick, "speed_up": eager / quick, "compile_seconds": compiling}
    return {"name": name, **times}


def _milliseconds(step: Callable[..., Any], given: tuple[Any, ...], seconds: float) -> float:
    """The median time of a step, measured for so long and at least three times, after one to warm up."""
    step(*given)
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step(*given)
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times)[len(times) // 2]
