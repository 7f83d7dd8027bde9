"""Write the printouts of docs/compiler.md from the code in it, so that they stay real.

python docs/compiler_printouts.py            write them
python docs/compiler_printouts.py --check    say which are not what the compiler makes now

The Python blocks of the page are run in order. A block after `<!-- printout: NAME -->` is what the function of that name
below makes of them; one after `<!-- raises: NAME -->` has to end in an error, whose message can be printed as NAME.
Printouts `with times` are not checked, and assembly only where LLVM is the version that the page names. Plans are made for
AVX2, whatever runs this: forms of products follow the processor.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import pathlib
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from weft.compiler import build_plan
from weft.compiler.graph.graph import Graph, Node, Value
from weft.compiler.pipeline import PASSES
from weft.compiler.plan.buffers import address
from weft.compiler.show.explain import profile as measure
from weft.errors import WeftError
from weft.kernels.body import Access, Step
from weft.kernels.llvm import jit
from weft.kernels.matmul.product import Tiling
from weft.runtime.native import barrier_ir

PAGE = pathlib.Path(__file__).with_name("compiler.md")
BLOCK = re.compile(
    r"(?:<!-- (?P<what>printout|raises): (?P<name>[\w-]+)(?P<times> with times)? -->\n)?```\w*\n.*?```$", re.S | re.M
)
TARGET = jit.Target.named("x86-64-v4")
os.environ["WEFT_TARGET"] = "x86-64-v3"
ASSEMBLY = ("assembly", "product-assembly", "toolchain")
MOST = 7  # lines of each kind that are shown of a change
TRIES = 50  # of measuring times
NOTHING = "(nothing in this step)"


class Watch(list):
    """A log for `build_plan` that keeps every node as it was after each pass, under a number that lasts."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers: dict[Node, int] = {}
        self.forms: list[tuple[str, dict[Node, str]]] = []

    def append(self, entry: tuple[str, str]) -> None:
        super().append(entry)
        nodes = self.graph.nodes
        before = [node.number for node in nodes]
        for node in nodes:
            node.number = self.numbers.setdefault(node, len(self.numbers))
        self.forms.append((entry[0], {node: repr(node) for node in nodes}))
        for node, number in zip(nodes, before, strict=True):
            node.number = number

    def name(self, value: Value) -> str:
        return f"%{self.numbers[value.node]}:{repr(value).partition(':')[2]}"

    def changes(self, name: str) -> str:
        """What a pass took out (-), put in (+), and let read something else (~)."""
        places = [n for n, (found, _) in enumerate(self.forms) if found == name]
        before, after = self.forms[places[0] - 1][1], self.forms[places[-1]][1]
        kinds = {
            "-": [line for node, line in before.items() if node not in after],
            "+": [line for node, line in after.items() if node not in before],
            "~": [line for node, line in after.items() if before.get(node, line) != line],
        }
        lines = [f"{sign} {line}" for sign, found in kinds.items() for line in shortened(found)]
        return "\n".join(lines) or NOTHING


def shortened(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST + 1 else [*lines[:MOST], f"… {len(lines) - MOST} more"]


class Page:
    """The page after its code has run."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, Any] = {"__name__": "page"}
        self.messages: dict[str, str] = {}
        for block in BLOCK.finditer(text):
            code = re.search(r"```python\n(.*)\n```", block[0], re.S)
            if code is not None:
                self._run(code[1], block["name"] if block["what"] == "raises" else None)
        self.explanation = self.names["explanation"]
        graph = self.names["step"].graph(self.names["x"], self.names["y"])
        self.log = Watch(graph)
        self.plan = build_plan(graph, self.explanation.profile.threads, log=self.log)
        self.passes = dict(self.log)

    def _run(self, code: str, raises: str | None) -> None:
        out = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(out):
            try:
                exec(compile(code, "train.py", "exec"), self.names)
            except WeftError as error:
                if raises is None:
                    raise
                self.messages[raises] = f"{type(error).__name__}: {error}"
                return
        if raises is not None:
            raise SystemExit(f"the block {raises!r} of {PAGE.name} did not fail as it should")

    def slot(self, kernel: str, *operations: str, size: int | None = None) -> Any:
        """The step with a kernel of this class and these operations."""
        for slot in self.plan.slots:
            done = {node.op.name for node in slot.step.group.nodes}
            fits = size is None or getattr(slot.step.kernel, "elements", getattr(slot.step.kernel, "flops", 0)) == size
            if type(slot.step.kernel).__name__ == kernel and done.issuperset(operations) and fits:
                return slot
        raise SystemExit(f"no {kernel} with {operations} in the plan of {PAGE.name}: choose another example")


# ---------------------------------------------------------------------------------------------- printouts


def pipeline(page: Page) -> str:
    """The table of passes, with what they need and leave where that is not just the graph."""
    lines = []
    for one in PASSES:
        lines.append(f"{f'[{one.name}]' if one.optional else one.name:11}  {one.about}")
        if (one.needs, one.leaves) != (("graph",), ("graph",)):
            lines.append(f"{'':11}  {', '.join(one.needs)} → {', '.join(one.leaves)}")
    return "\n".join(lines)


def trace(page: Page) -> str:
    """The graph, with the update of the first parameter only."""
    lines = page.passes["trace"].splitlines()
    scalars = [n for n, line in enumerate(lines) if line.endswith("float32[] = captured()")]
    states = [n for n, line in enumerate(lines) if "←" in line]
    return "\n".join([*lines[: scalars[1]], "  …", *lines[states[0] : states[0] + 7], "  …", lines[-1]])


def fuse(page: Page) -> str:
    return "\n".join(map(folded, groups(page, "fuse")))


def refine(page: Page) -> str:
    before, after = groups(page, "fuse"), groups(page, "refine")
    lines = [f"- {line}" for line in before if line not in after] + [
        f"+ {line}" for line in after if line not in before
    ]
    return "\n".join(map(folded, lines)) or NOTHING


def groups(page: Page, name: str) -> list[str]:
    return [line.strip() for line in page.passes[name].splitlines()]


def folded(line: str) -> str:
    """A long line continued on the next, indented."""
    return textwrap.fill(line, 108, subsequent_indent=" " * 6)


def place(page: Page) -> str:
    homes, name = page.plan.lowering.homes, page.log.name
    states = [state for state in page.plan.graph.states if state.final is not None]
    lines = [
        f"{name(s.final)} is written {'over' if s.final in homes else 'beside, and then copied to'} {name(s.value)}"
        for s in states
    ]
    return "\n".join(shortened(lines))


def sweep(page: Page) -> str:
    """The loss and its gradient by the logits."""
    kernel = page.slot("Sweep", "amax", "exp").step.kernel
    axes = "ijklmn"[: len(kernel.space)]
    rows = [] if kernel.rows is None else [a for a, r in zip(axes, kernel.rows, strict=True) if r]
    lines = [
        f"{', '.join(f'{a} < {n}' for a, n in zip(axes, kernel.space, strict=True))}; rows along {', '.join(rows)}"
    ]
    for number, item in enumerate(kernel.items):
        varies = " ".join(a if m else "·" for a, m in zip(axes, item.mask, strict=True))
        lines.append(f"{number:3d}  {varies}  {item.kind:3s}  {item.what:8s}  {meaning(item)}")
    lines += [f"     store {number} to {place_of(access)}" for access, number in kernel.stores]
    return "\n".join(lines)


def meaning(item: Any) -> str:
    if isinstance(item.value, Access):
        return place_of(item.value)
    if isinstance(item.value, Step):
        return call(item.value)
    if item.what == "constant":
        return str(item.value)
    return f"{item.value.name} of {item.source}, {item.count} elements"


def place_of(access: Access) -> str:
    return f"word {access.arg} {list(access.strides)}"


def call(step: Step) -> str:
    return f"{step.op.name}({', '.join(map(str, step.operands))})"


def product(page: Page) -> str:
    """The gradient of the first weights, with their update."""
    kernel = adam_product(page).step.kernel
    body = kernel.body
    lines = [
        f"C[i, j] = Σ A[i, k] B[k, j], i < {kernel.m}, j < {kernel.n}, k < {kernel.k}; "
        f"A is word 0 {list(kernel.a)}, B is word 1 {list(kernel.b)}",
        str(Tiling.of(kernel, TARGET)),
        "  0  given     C[i, j]",
    ]
    values = [f"constant  {value}" for _, value in body.constants]
    values += [f"load      {place_of(access)}" for access in body.loads]
    values += [f"step      {call(step)}" for step in body.steps]
    lines += [f"{number:3d}  {text}" for number, text in enumerate(values, len(body.given))]
    return "\n".join([*lines, *(f"     store {number} to {place_of(access)}" for access, number in body.stores)])


def adam_product(page: Page) -> Any:
    return max(
        (s for s in page.plan.slots if type(s.step.kernel).__name__ == "Product"), key=lambda s: s.step.kernel.nbytes
    )


def schedule(page: Page) -> str:
    lines, phase = [], 0
    for number, slot in enumerate(page.plan.slots):
        if slot.phase != phase:
            lines.append(f"{'':5}── barrier ──")
            phase = slot.phase
        who = "all threads" if slot.only is None else f"thread {slot.only}"
        operations = " ".join(node.op.name for node in slot.step.group.nodes)
        text = f"{number:3d}  {who:12s} {type(slot.step.kernel).__name__:8s} {operations}"
        lines += textwrap.wrap(text, 108, subsequent_indent=" " * 27)
    return "\n".join(lines)


def memory(page: Page) -> str:
    plan = page.plan
    lines = ["offset  bytes  phases  what"]
    for key, life in sorted(plan.lives.items(), key=lambda item: (plan.offsets[item[0]], item[1].first)):
        if life.size < 256:
            continue
        what = page.log.name(key) if isinstance(key, Value) else f"{key[0]} of step {key[1]}"
        lines.append(f"{plan.offsets[key]:6d} {life.size:6d}  {life.first} … {life.last}   {what}")
    small = [life for life in plan.lives.values() if life.size < 256]
    total = sum(life.size for life in plan.lives.values())
    lines.append(f"… and {len(small)} smaller; {plan.memory.nbytes} bytes in all, {total} if nothing were shared")
    return "\n".join(lines)


def table(page: Page) -> str:
    plan = page.plan
    rows = plan.native_tables[0][1:].reshape(-1, 4)
    lines = ["function    words  flags  step"]
    for _, words, flags, number in rows:
        symbol = jit.symbol(plan.slots[number].step.kernel.key())[:9]
        lines.append(f"{symbol}…  {(words - address(plan.words)) // 8:5d}  0x{flags:03x}  {number:4d}")
    return "\n".join(lines)


def bias_update(page: Page) -> Any:
    return page.slot("Sweep", "sqrt", size=128).step.kernel


def llvm(page: Page) -> str:
    """The update of the first bias."""
    kernel = bias_update(page)
    lines = kernel.text(jit.symbol(kernel.key()), TARGET).strip().splitlines()
    arguments = [n for n, line in enumerate(lines) if line.startswith("  %arg")]
    return "\n".join([*lines[: arguments[0] + 4], "  …", *lines[arguments[-1] + 1 :]])


def instructions(kernel: Any) -> list[str]:
    text = jit.emit_assembly(kernel.text(jit.symbol(kernel.key()), TARGET, barrier_ir("x86_64")), TARGET)
    return [line.expandtabs(8) for line in text.splitlines() if not line.startswith("\t.")]


def assembly(page: Page) -> str:
    lines = instructions(bias_update(page))
    start = next(n for n, line in enumerate(lines) if line.startswith("k_"))
    broadcast = next(n for n, line in enumerate(lines) if "vbroadcastss" in line)
    end = next(n for n, line in enumerate(lines) if "retq" in line)
    return "\n".join([*lines[start : start + 5], "        …", *lines[broadcast : end + 1]])


def product_assembly(page: Page) -> str:
    """The loop along k of the largest tile."""
    blocks = re.split(r"\n(?=\.LBB)", "\n".join(instructions(adam_product(page).step.kernel)))
    loops = [found[0] for block in blocks if (found := re.match(r"(\.LBB\w+):.*?j\w+\s+\1\b", block, re.S))]
    return max(loops, key=lambda loop: loop.count("vfmadd"))


def toolchain(page: Page) -> str:
    return f"{jit._toolchain()}, target {TARGET.cpu}"


def profile(page: Page) -> str:
    """The quickest of many, for a machine that does other things as well; long lines are cut off."""
    arrays = [page.names[name].array for name in ("x", "y")]
    profiles = (measure(page.explanation.plan, arrays) for _ in range(TRIES))
    lines = str(min(profiles, key=lambda found: sum(step.time for step in found.steps))).splitlines()
    return "\n".join(line if len(line) <= 108 or "steps" in line else line[:107] + "…" for line in lines)


def new_anchor(page: Page) -> str:
    log: list[tuple[str, str]] = []
    build_plan(page.names["curve"].graph(page.names["points"]), 2, log=log)
    return dict(log)["fuse"]


PRINTOUTS: dict[str, Callable[[Page], str]] = {
    name.replace("_", "-"): function
    for name, function in globals().items()
    if getattr(function, "__annotations__", {}) == {"page": "Page", "return": "str"}
}


def made(page: Page, name: str) -> str:
    if name in page.messages:
        return textwrap.fill(page.messages[name], 100)
    if name.startswith("after-"):
        return page.log.changes(name.removeprefix("after-"))
    return PRINTOUTS[name](page)


def written(text: str, times: bool) -> str:
    """The page with its printouts made anew, those with times only if asked for and if something else has changed."""
    page = Page(text)

    def replaced(block: re.Match) -> str:
        if block["what"] != "printout" or (block["times"] and not times):
            return block[0]
        head = block[0][: block[0].index("```")]
        lines = [line.rstrip() for line in made(page, block["name"]).splitlines()]
        now = "\n".join([f"{head}```text", *lines, "```"])
        return block[0] if block["times"] and without_numbers(now) == without_numbers(block[0]) else now

    return BLOCK.sub(replaced, text)


def without_numbers(text: str) -> list[str]:
    return re.sub(r"[\d.]+", "", text).split()


def compared(before: str, after: str) -> Iterable[str]:
    """The lines in which the page differs, but for printouts that other machines make otherwise."""
    same_tools = toolchain_of(before) == toolchain_of(after)
    for old, new in zip(BLOCK.finditer(before), BLOCK.finditer(after), strict=True):
        if old["times"] or (old["name"] in ASSEMBLY and not same_tools):
            continue
        if old[0] != new[0]:
            yield from difflib.unified_diff(old[0].splitlines(), new[0].splitlines(), old["name"], "now", lineterm="")


def toolchain_of(text: str) -> str | None:
    return next((block[0] for block in BLOCK.finditer(text) if block["name"] == "toolchain"), None)


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    check = "--check" in sys.argv
    now = written(text, times=not check)
    if check:
        differences = list(compared(text, now))
        print("\n".join(differences), end="\n" if differences else "")
        return 1 if differences else 0
    PAGE.write_text(now, encoding="utf-8")
    print(f"{PAGE.name}: {sum(block['what'] == 'printout' for block in BLOCK.finditer(now))} printouts")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
