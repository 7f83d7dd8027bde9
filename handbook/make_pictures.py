"""Make the pictures of the handbook: run the Python of its pages, which save what they draw into `pictures/`.

    python handbook/make_pictures.py [page …]

Only data that come with Weft are used, but for graphs.md, which reads the karate club and Cora from $WEFT_DATA.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """The Python of a page, each block with the number of its first line."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)) + 1, found.group(1)) for found in BLOCK.finditer(text)]


def run(page: Path, folder: Path) -> dict[str, Any]:
    """Run a page from top to bottom in one namespace, with `folder` as the working directory."""
    namespace: dict[str, Any] = {"__name__": page.stem}
    (folder / "pictures").mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        for line, source in blocks(page):
            padded = "\n" * (line - 1) + source  # so that errors name lines of the page
            exec(compile(padded, str(page), "exec"), namespace)
    finally:
        os.chdir(before)
    return namespace


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]] or sorted(HERE.glob("*.md")):
        run(page, HERE)
