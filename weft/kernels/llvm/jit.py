"""Machine code: LLVM IR text to object code, object code to addresses that can be called.

`build` is the only way in. It looks for a kernel among those that are alive in this process, then in the cache on disk,
and asks for the kernel's IR only when neither has it. No optimisation passes run over the IR: the emitters write what
they mean, and the code generator at level 1 takes half the time of level 3 for the same speed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import queue
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import OptionError, WeftError
from ...runtime import cache, threads
from ...runtime.locks import fork_safe_lock, unforked
from . import worker
from .target import Target

__all__ = ["CodeError", "Handle", "Target", "build", "emit_object", "symbol"]


class CodeError(WeftError, RuntimeError):
    """IR that LLVM does not accept: an error of Weft, not of its user."""


# ---------------------------------------------------------------- IR text to object code

_lock = fork_safe_lock()


@functools.cache
def _toolchain() -> str:
    import llvmlite

    return f"llvmlite {llvmlite.__version__} LLVM {worker.binding().llvm_version_info}"


def emit_object(ir: str, target: Target) -> bytes:
    """Object code of a module given as IR text."""
    return _emit(ir, target, assembly=False)


def emit_assembly(ir: str, target: Target) -> str:
    """The same code for people to read."""
    return _emit(ir, target, assembly=True)


def _emit(ir: str, target: Target, assembly: bool) -> Any:
    with unforked(), _lock:
        try:
            return worker.emit(ir, target.triple, target.cpu, target.features, assembly)
        except RuntimeError as error:
            raise CodeError(f"{str(error).strip()}{_excerpt(ir, str(error))}") from None


def _excerpt(ir: str, message: str) -> str:
    """The lines of the IR around the one that a message names by number or by its result."""
    lines = ir.splitlines()
    place = re.search(r"<string>:(\d+):", message)
    named = re.search(r"^\s*(%[\w.]+ = .*?)(?:,|$)", message, re.MULTILINE)
    if place:
        at = int(place[1]) - 1
    elif named:
        at = next((i for i, line in enumerate(lines) if line.strip().startswith(named[1].strip())), -1)
    else:
        return ""
    if at < 0:
        return ""
    around = range(max(0, at - 3), min(len(lines), at + 4))
    return "\n" + "\n".join(f"{'→' if i == at else ' '} {i + 1:5d} | {lines[i]}" for i in around)


# ---------------------------------------------------------------- many modules at once

_WORTH_A_HELPER = 250_000  # characters of IR: about 150 ms of work, where starting a process takes 90
_MOST_HELPERS = 7
_PATIENCE = 120.0  # seconds


class _Helper(threading.Thread):
    """A process that compiles what it finds in the queue, and the thread that talks to it."""

    def __init__(self, todo: queue.SimpleQueue[tuple[str, str] | None], done: dict[str, bytes], target: Target) -> None:
        super().__init__(name="weft-compile", daemon=True)
        self.todo, self.done, self.target = todo, done, target
        self.process = subprocess.Popen(
            [sys.executable, "-P", worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.start()

    def run(self) -> None:
        """Whatever goes wrong is left undone, and done by the one who asked."""
        requests, answers = self.process.stdin, self.process.stdout
        try:
            worker.send(requests, f"{self.target.triple}\n{self.target.cpu}\n{self.target.features}".encode())
            while (item := self.todo.get()) is not None:
                worker.send(requests, item[1].encode())
                answer = worker.receive(answers)
                if answer is None:
                    return
                if answer:
                    self.done[item[0]] = answer
        except (OSError, ValueError):
            return

    def end(self) -> None:
        """Wait no longer."""
        self.process.kill()
        self.process.wait()
        self.join()
        with contextlib.suppress(OSError):  # it may not have read everything
            self.process.stdin.close()
        self.process.stdout.close()


def _compile(texts: Mapping[str, Callable[[], str]], target: Target) -> dict[str, bytes]:
    """Object code of several kernels; other processes help when there is much to do."""
    todo: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
    modules: dict[str, str] = {}
    done: dict[str, bytes] = {}
    helpers: list[_Helper] = []
    most, size = min(threads.get_num_threads() - 1, _MOST_HELPERS) if _can_start_python() else 0, 0
    try:
        for key, text in texts.items():
            modules[key] = text()
            todo.put((key, modules[key]))
            size += len(modules[key])
            if len(helpers) < most and size > _WORTH_A_HELPER * (len(helpers) + 1):
                try:
                    helpers.append(_Helper(todo, done, target))
                except OSError:
                    most = 0
        for _ in range(len(helpers) + 1):
            todo.put(None)
        while (item := todo.get()) is not None:
            done[item[0]] = emit_object(item[1], target)
        for helper in helpers:
            helper.join(_PATIENCE)
    finally:
        for helper in helpers:
            helper.end()
    return {key: done.get(key) or emit_object(ir, target) for key, ir in modules.items()}


def _can_start_python() -> bool:
    """Whether the running program is Python itself, and not one that has it inside."""
    return os.path.basename(sys.executable or "").startswith("python") and not getattr(sys, "frozen", False)


# ---------------------------------------------------------------- object code to addresses


class Handle:
    """A kernel's address; the code stays in memory as long as a handle of its batch is alive."""

    __slots__ = ("__weakref__", "_engine", "address")

    def __init__(self, address: int, engine: Any) -> None:
        self.address, self._engine = address, engine


_alive: weakref.WeakValueDictionary[tuple[str, str], Handle] = weakref.WeakValueDictionary()


@functools.lru_cache(1 << 14)
def symbol(key: str) -> str:
    """The name that the module of the kernel with this structural key must give its function."""
    return "k_" + hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def build(kernels: Mapping[str, Callable[[], str]], target: Target | None = None) -> dict[str, Handle]:
    """Handles of the kernels with the given structural keys.

    A key's callable gives the text of a module that defines `symbol(key)`; it is called only for kernels that are neither
    in this process nor in the cache on disk.
    """
    target = target or Target.host()
    identity = target.identity
    with unforked(), _lock:
        found = {key: handle for key in kernels if (handle := _alive.get((identity, key)))}
        wanted = [key for key in kernels if key not in found]
        if wanted:
            entries = {key: cache.entry(key, identity, _toolchain()) for key in wanted}
            objects = cache.load_many(entries)
            compiled = _compile({key: kernels[key] for key in wanted if key not in objects}, target)
            cache.store_many({entries[key]: code for key, code in compiled.items()})
            found |= _load(objects | compiled, target)
            _alive.update({(identity, key): found[key] for key in wanted})
        return {key: found[key] for key in kernels}


@functools.cache
def _context() -> Any:
    """One for all engines: the garbage collector might end an engine's own context before the engine."""
    return worker.binding().create_context()


def _load(objects: Mapping[str, bytes], target: Target) -> dict[str, Handle]:
    """Put object code of several kernels in executable memory."""
    llvm = worker.binding()
    if target.arch != llvm.get_process_triple().partition("-")[0]:
        raise OptionError(f"code for {target.triple} does not run on this machine; unset WEFT_TARGET")
    machine = worker.new_machine(target.triple, target.cpu, target.features)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly("", _context()), machine)
    for code in objects.values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return {key: Handle(engine.get_function_address(symbol(key)), engine) for key in objects}
