"""Libraries that Weft can do without: which part wants which, whether it is there, and how to get it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any

from ..errors import WeftError
from .invocation import install

__all__ = ["EXTRAS", "MissingExtraError", "available", "described", "extra", "missing"]

EXTRAS = {  # as in pyproject.toml: package → the module it is imported as, "" where it brings programs only
    "plots": {"matplotlib": "matplotlib"},
    "images": {"pillow": "PIL"},
    "text": {"tokenizers": "tokenizers", "jinja2": "jinja2"},
    "tables": {"pyarrow": "pyarrow", "openpyxl": "openpyxl"},
    "onnx": {"onnx": "onnx"},
    "cluster": {"mpi4py": "mpi4py", "mpich": ""},
    "sweep": {"ray": "ray"},
}
PACKAGES = {module: package for needed in EXTRAS.values() for package, module in needed.items() if module}


class MissingExtraError(WeftError, ImportError):
    """Something needs a library that is not there."""


def extra(module: str, purpose: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        __import__(module.partition(".")[0])  # a part that is imported already does not mean that the whole is there
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module, purpose) from error


def missing(module: str, purpose: str) -> MissingExtraError:
    """The error for a library that is not there: `purpose` says what wants it, as in "pictures need"."""
    package = PACKAGES[module.partition(".")[0]]
    return MissingExtraError(f"{purpose} {package}: {install(package)}")


def available() -> dict[str, dict[str, str | None]]:
    """The version of every package of every extra; None where it cannot be imported."""
    return {
        name: {package: _version(package, module) for package, module in needed.items()}
        for name, needed in EXTRAS.items()
    }


def described(found: dict[str, str | None]) -> str:
    """The packages of an extra with their versions, and how to get those that are missing."""
    there = ", ".join(f"{package} {version}" for package, version in found.items() if version)
    lacking = [package for package, version in found.items() if not version]
    return "; ".join(part for part in (there, f"missing: {install(*lacking)}" if lacking else "") if part)


def _version(package: str, module: str) -> str | None:
    if module and importlib.util.find_spec(module) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown" if module else None
