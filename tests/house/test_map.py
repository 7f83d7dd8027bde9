"""docs/architecture.md tells the truth: every file that it names is there, and what it says to touch is little."""

from __future__ import annotations

import pathlib
import re
import statistics

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.compile(r"(?<![\w/.])(?:\w+/)*\w+\.(?:py|md|toml)\b")
FOLDERS = re.compile(r"(?<![\w/.`])(?:\w+/)+(?=\s|$)")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (\d+) \|$", TEXT, re.MULTILINE)


def _drawing() -> list[tuple[pathlib.Path, str]]:
    """The lines of the map, each with the folder that it is about."""
    block = TEXT.split("```\n")[1]
    lines, open_folders = [], [(-1, ROOT)]
    for line in block.splitlines():
        indent, words = len(line) - len(line.lstrip()), line.split()
        while open_folders[-1][0] >= indent:
            open_folders.pop()
        if words[0].endswith("/") and indent <= 4:
            open_folders.append((indent, open_folders[-1][1] / words[0]))
        lines.append((open_folders[-1][1], line))
    return lines


def test_every_file_on_the_map_is_there():
    """In the folder under which it stands, in one within, or beside it where a line goes on about neighbours."""
    lost = []
    for folder, line in _drawing():
        if not folder.is_dir():
            lost.append(f"{folder.relative_to(ROOT)}/")
        for name in NAMED.findall(line):
            beside = [(base / name).exists() for base in (ROOT if name.startswith("docs/") else folder, folder.parent)]
            if not any(beside) and not any(folder.rglob(name)):
                lost.append(f"{folder.relative_to(ROOT)}: {name}")
    assert not lost


def test_every_folder_on_the_map_is_there():
    lost = []
    for folder, line in _drawing():
        for name in FOLDERS.findall(line):
            if not any((start / name).is_dir() for start in (folder, folder.parent, ROOT)):
                lost.append(f"{folder.relative_to(ROOT)}: {name}")
    assert not lost


def test_every_file_of_the_walks_is_there():
    """Named by the end of its path, as far as a reader needs it."""
    tops = (ROOT / top for top in ("weft", "docs", "tests"))
    known = {path.relative_to(ROOT).as_posix() for top in tops for path in top.rglob("*.*")}
    walks = TEXT.split("```\n", 2)[2]
    walks = re.sub(r"```python.*?```", "", walks, flags=re.DOTALL)
    ends = {path[at:] for path in known for at in [0, *(m.end() for m in re.finditer("/", path))]}
    assert sorted(set(NAMED.findall(walks)) - ends) == []


def test_the_map_notices_what_is_not_there():
    """The guards above read names as meant: of the map's own lines, and of paths in sentences."""
    drawn = {name for _, line in _drawing() for name in NAMED.findall(line)}
    assert {"tensor.py", "pool.py", "builder.py", "winograd.py", "docs/operations.md"} <= drawn
    folders = {folder.relative_to(ROOT).as_posix() for folder, _ in _drawing()}
    assert {"weft/runtime", "weft/kernels/llvm", "weft/compiler/tracing", "tests"} <= folders


def test_change_requests_touch_few_files():
    """Each file stands in the table by its whole path; the numbers are those of the files."""
    assert len(ROWS) >= 20
    counts = []
    for request, touched, count in ROWS:
        files = re.findall(r"`([\w/]+\.(?:py|md))`", touched)
        assert len(files) == int(count), request
        for name in files:
            assert (ROOT / ("" if name.startswith("docs/") else "weft") / name).is_file(), (request, name)
        counts.append(len(files))
    assert statistics.mean(counts) <= 2.5
