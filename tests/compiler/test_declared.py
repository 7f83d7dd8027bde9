"""What kernels, anchors and operations may say is declared on their base classes, not guessed by `getattr`."""

from __future__ import annotations

import ast
import pathlib

from weft.kernels.anchor import Anchor, Asking, Whole
from weft.kernels.kernel import Kernel
from weft.kernels.operation import NativeForm
from weft.ops.core.primitive import PRIMITIVES, Primitive

WEFT = pathlib.Path(__file__).parents[2] / "weft"
PAGE = WEFT.parent / "docs/compiler.md"
OTHERS = {  # of Python and the system: what is there differs from machine to machine
    "plan/buffers.py": {"MADV_HUGEPAGE"},
    "llvm/jit.py": {"frozen"},
    "kernels/pool.py": {"register_at_fork"},
    "tracing/doors.py": {"base"},  # of an array, or of whatever lends its memory to one
}


def asked(path: pathlib.Path) -> set[str]:
    """The names that a file asks for where they may be missing; those with two underscores are Python's own."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    found = set()
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr") and len(call.args) > 1:
            optional = call.func.id == "hasattr" or len(call.args) == 3
            name = call.args[1]
            if optional and isinstance(name, ast.Constant) and not name.value.startswith("__"):
                found.add(name.value)
    return found


def test_compiler_and_kernels_guess_nothing():
    for folder in ("compiler", "kernels"):
        for path in (WEFT / folder).rglob("*.py"):
            known = next((names for end, names in OTHERS.items() if str(path).endswith(end)), set())
            assert asked(path) - known == set(), path


def test_kernels_and_anchors_declare_what_they_may_ask_for():
    """A word, a flag or memory that a kernel names has a default on `Kernel` that says what it means."""
    for name in (
        "scratch",
        "scratch_word",
        "workspace",
        "workspace_word",
        "flag",
        "halts",
        "serial",
        "flops",
        "nbytes",
    ):
        assert name in vars(Kernel)
    for kind in (Anchor, Whole):
        assert issubclass(kind, Asking) and set(Asking.__annotations__) >= {"dense", "images", "taken_over", "fusible"}


def test_operations_can_say_what_the_page_lists():
    assert issubclass(Primitive, NativeForm)
    text = PAGE.read_text(encoding="utf-8")
    for name in set(NativeForm.__annotations__) - {"name", "bodies", "checks", "error", "of_dense"}:
        assert f"| `{name}" in text, name
    said = {
        name for op in PRIMITIVES.values() for name in NativeForm.__annotations__ if getattr(op, name) not in (None, ())
    }
    assert {"lower", "native", "parts", "pieces", "unchanged", "of_dense", "transposes", "checks"} <= said
