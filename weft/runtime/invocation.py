"""How programs are called from where the user stands, so that a hint can be typed as it is printed.

In a clone the environment is `.venv` and rarely activated: there `weft` and `pip` are not found, or are others.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys

__all__ = ["install", "python", "weft_command"]


def weft_command() -> str:
    """`weft` where that finds this installation, else the path of its script, else `python -m weft`."""
    script = shutil.which("weft", path=_bin())
    if script is None:
        return f"{python()} -m weft"
    return "weft" if _found_first("weft") else _spelled(script)


def python() -> str:
    """`python` where that is the interpreter that runs now, else its path."""
    return "python" if _found_first("python") else _spelled(sys.executable)


def install(*packages: str) -> str:
    """The command that installs packages beside Weft."""
    pip = "pip" if _found_first("pip") else f"{python()} -m pip"
    return f"{pip} install {' '.join(packages)}"


def _bin() -> str:
    return os.path.dirname(os.path.abspath(sys.executable))


def _found_first(name: str) -> bool:
    """Whether a shell finds the program of this name in our environment; links are not followed, for those lead out."""
    found = shutil.which(name)
    return found is not None and os.path.dirname(os.path.abspath(found)) == _bin()


def _spelled(path: str) -> str:
    """A path as short as it can be typed here."""
    path = os.path.abspath(path)
    near = os.path.relpath(path) if path.startswith(os.path.join(os.getcwd(), "")) else path
    return shlex.quote(near)
