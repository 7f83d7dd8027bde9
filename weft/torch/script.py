"""A program run as `python script.py …` runs it, with `torch` answered by Weft."""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from ..device import on_the_cpu
from ..errors import MissingFileError
from ..runtime.frames import is_ours
from . import wanting
from .finder import installed

__all__ = ["main", "run"]


def run(script: str, arguments: Sequence[str] = (), *, module: bool = False, cpu: bool = False) -> dict[str, Any]:
    """Run a program from its file (or as a module, as `python -m` does), and return its global names.

    cpu: every device that the program names is the CPU ("meta" always is: memory is taken). Errors and `SystemExit` of the program come through; `sys.argv`,
    `sys.path` and `__main__` are put back afterwards.
    """
    with installed(), _as_main(script, arguments, module), on_the_cpu() if cpu else on_the_cpu(("meta",)):
        if module:
            return runpy.run_module(script, run_name="__main__", alter_sys=True)
        code = compile(_source(script), script, "exec", dont_inherit=True)
        main_module = ModuleType("__main__")
        main_module.__dict__.update(__file__=script, __builtins__=__builtins__)
        sys.modules["__main__"] = main_module
        exec(code, main_module.__dict__)
        return main_module.__dict__


def _source(script: str) -> bytes:
    try:
        with open(script, "rb") as file:
            return file.read()
    except OSError as error:
        raise MissingFileError(f"run: {script!r} cannot be read: {error.strerror or error}") from None


@contextlib.contextmanager
def _as_main(script: str, arguments: Sequence[str], module: bool) -> Iterator[None]:
    """What Python sets for a program that it runs."""
    argv, path, before = sys.argv, list(sys.path), sys.modules["__main__"]
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(script)))
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, before


def main(words: Sequence[str]) -> int:
    """`python -m weft.torch [--cpu] [--debug] script.py …`; the exit code of the program."""
    parser = argparse.ArgumentParser(prog="python -m weft.torch", description="Run a PyTorch program on Weft.")
    parser.add_argument("--debug", action="store_true", help="show Weft's own lines in tracebacks, too")
    parser.add_argument("--cpu", action="store_true", help="every device that the program names is the CPU")
    parser.add_argument("-m", dest="module", action="store_true", help="script is the name of a module")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    return execute(given.script, given.arguments, module=given.module, cpu=given.cpu, debug=given.debug)


def execute(
    script: str, arguments: Sequence[str], *, module: bool = False, cpu: bool = False, debug: bool = False
) -> int:
    """Run a program, print its traceback if it fails and what it asked for in vain; its exit code."""
    try:
        run(script, arguments, module=module, cpu=cpu)
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except KeyboardInterrupt:
        raise
    except MissingFileError as error:
        sys.stderr.write(f"weft: {error}\n")
        return 2
    except Exception as error:
        _show(error, debug)
        code = 1
    finally:
        sys.stdout.flush()
        if wanting.report():
            sys.stderr.write(f"weft run: {wanting.report()}\n")
    return code


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    sys.stderr.write(f"{leaving.code}\n")
    return 1


def _show(error: BaseException, debug: bool) -> None:
    """The traceback: of the program's own lines, unless Weft's are asked for."""
    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    if not debug:
        _without_ours(shown)
    sys.stdout.flush()
    sys.stderr.write("".join(shown.format()))


def _without_ours(shown: traceback.TracebackException) -> None:
    """Leave the program's lines, and of the errors before this one those that passed through any."""
    shown.stack[:] = [line for line in shown.stack if not _machinery(line.filename)]
    for name in ("__cause__", "__context__"):
        before = getattr(shown, name)
        if before is not None:
            _without_ours(before)
            if not before.stack:
                setattr(shown, name, None)


def _machinery(file: str) -> bool:
    return is_ours(file) or file.startswith("<frozen")
