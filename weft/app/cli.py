"""`weft`: train, look at, compare, check and use models from the command line.

Exit codes: 0 done, 1 failed, 2 bad usage, 3 goal missed, 130 interrupted, 143 terminated. Nothing heavy is imported
before a command runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from ..errors import OptionError, WeftError
from ..runtime.cluster.world import world_rank
from ..runtime.switches import switch
from . import (
    checking,
    fine_tuning,
    guide,
    launching,
    likelihoods,
    machine,
    porting,
    runs,
    searching,
    training,
    tuning,
    using,
)
from .output import DONE, FAILED, INTERRUPTED, MISUSED, TERMINATED, Interrupted, Misuse

__all__ = ["app", "main"]

EXAMPLES = """[bold]Examples[/bold]
  weft list                            what can be trained
  weft train digits-mlp                train; curves and checkpoints in runs/
  weft train digits-mlp --set lr=0.02  the same with another setting
  weft show latest                     settings, figures, curves of a run
  weft predict latest --sample 7       what it makes of a test example
  weft check digits-mlp                is this set-up sound?
  weft search digits-mlp --space lr=1e-4..1e-1 --trials 12
  weft run train.py --epochs 3         a PyTorch program, as it is, on Weft
  weft launch -n 4 train.py            four processes that train together

WEFT_RUNS and WEFT_DATA name the usual folders; colours follow NO_COLOR.

[bold]Exit codes[/bold]
  0 done, 1 failed (or a fault was found), 2 bad usage, 3 goal missed,
  130 interrupted (Ctrl-C), 143 terminated (SIGTERM)"""

app = typer.Typer(
    name="weft",
    help="Deep learning in pure Python: train, check, compare and use models.",
    epilog=EXAMPLES,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    training,
    fine_tuning,
    launching,
    porting,
    runs,
    using,
    likelihoods,
    checking,
    searching,
    machine,
    tuning,
):
    group.register(app)

_interrupts: list[BaseException] = []  # what a signal has raised: typer forgets which it was
OPTIONAL_VALUES = {"--resume": "latest", "--runs": ""}  # options whose value may be left out, and what stands for it
MISUSE = (Misuse, OptionError, FileNotFoundError)  # what another command line would put right


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"weft {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if context.invoked_subcommand is None:
        guide.show()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    ours = given[: _ending(given)]
    debug = "--debug" in ours or bool(switch("WEFT_DEBUG"))
    words = [a for a in complete_options(ours) if a != "--debug"]
    if world_rank():  # of several processes, the first speaks
        sys.stdout = open(os.devnull, "w")
    with _terminating():
        code = _run([*words, *given[len(ours) :]], debug)
    sys.exit(code)


def _ending(given: Sequence[str]) -> int:
    """Where the words for Weft end: those after `run` and `launch` are for the program that is run."""
    command = next((i for i, word in enumerate(given) if not word.startswith("-")), None)
    return len(given) if command is None or given[command] not in ("run", "launch") else command + 1


@contextlib.contextmanager
def _terminating() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, with an exit code of its own."""

    def terminate(number: int, frame: Any) -> None:
        from ..train.running.signals import Terminated

        _interrupts.append(Terminated("SIGTERM"))
        raise _interrupts[-1]

    _interrupts.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def complete_options(arguments: Sequence[str]) -> list[str]:
    """Give options that stand without their optional value the value that this means."""
    done = []
    for i, argument in enumerate(arguments):
        bare = i + 1 == len(arguments) or arguments[i + 1].startswith("-")
        done.append(f"{argument}={OPTIONAL_VALUES[argument]}" if bare and argument in OPTIONAL_VALUES else argument)
    return done


def _run(arguments: list[str], debug: bool) -> int:
    try:
        with warnings.catch_warnings():
            if arguments[:1] != ["run"]:  # a program has warnings of its own
                warnings.showwarning = _warn
            code: Any = app(args=arguments, prog_name="weft", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # typer's word for Ctrl-C
            return _interrupted()
        return code if isinstance(code, int) else DONE
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except Interrupted as interruption:
        return _say(str(interruption), interruption.code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone: nothing left to say
        return DONE
    except Exception as error:
        if debug:
            raise
        return _say(*_described(error))


def _interrupted() -> int:
    return _say("terminated", TERMINATED) if _interrupts else _say("interrupted", INTERRUPTED)


def _described(error: Exception) -> tuple[str, int]:
    """One line about an error, and the exit code."""
    if hasattr(error, "format_message"):  # what typer says of wrong arguments
        usage, text = getattr(getattr(error, "ctx", None), "command_path", "weft"), error.format_message()
        return f"{text} (see {usage} --help)" if text else "", MISUSED  # no text: the help was printed
    text = " ".join(str(error).split()) or type(error).__name__
    misuse = isinstance(error, MISUSE)
    known = isinstance(error, OSError | WeftError)
    return (text if known else f"{type(error).__name__}: {text} (--debug shows where)"), MISUSED if misuse else FAILED


def _say(text: str, code: int) -> int:
    sys.stdout.flush()
    if text:
        sys.stderr.write(f"weft: {text}\n")
    return code


def _warn(message: Any, category: type, *place: Any) -> None:
    sys.stderr.write(f"weft: warning: {' '.join(str(message).split())}\n")


if __name__ == "__main__":
    main()
