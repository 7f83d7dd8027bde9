"""`weft run`: programs written for PyTorch, unchanged."""

from __future__ import annotations

from typing import Annotated

import typer

__all__: list[str] = []


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command(rich_help_panel="Training", context_settings=settings)(run)


def run(
    script: Annotated[str, typer.Argument(help="A Python program that imports torch.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="What it is given.")] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Every device that it names is the CPU.")] = False,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show Weft's lines in tracebacks, too.")] = False,
) -> int:
    """Run a PyTorch program on Weft, as it is: torch and its modules are answered by Weft.

    At its end it says what the program asked for and did not find. Options of Weft's come before SCRIPT.

    Example: weft run train.py --epochs 3
    """
    from ..torch.script import execute

    return execute(script, arguments or (), module=module, cpu=cpu, debug=debug)
