"""What an editor shows under the mouse: pyright's language server is asked, as an editor asks it."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
PROGRAM = """
import weft
import weft.nn.functional as F

x = weft.randn(2, 3)
x.exp
x.topk
x.shape
weft.zeros
weft.linalg.solve
weft.nn.Linear
F.relu
weft.optim.AdamW
weft.data.DataLoader
weft.train.Trainer
""".lstrip()
SHOWN = {
    "x.exp": ("def exp(", ") -> Tensor", "eˣ."),
    "x.topk": ("k: int", ") -> Topk", "(values, indices) of the k largest"),
    "x.shape": ("shape: Size", "The size of every dimension."),
    "weft.zeros": ("requires_grad: bool = False", ") -> Tensor", "A tensor filled with 0."),
    "weft.linalg.solve": (") -> Tensor", "X with A X = B"),
    "weft.nn.Linear": ("in_features: int", "y = x Wᵀ + b."),
    "F.relu": (") -> Tensor", "max(x, 0), element by element"),
    "weft.optim.AdamW": ("weight_decay: float",),
    "weft.data.DataLoader": ("batch_size: int | None = 1", "Iterate over a data set in batches"),
    "weft.train.Trainer": ("max_epochs: int | None = None", "Trains a task"),
}


@pytest.fixture(scope="module")
def hovers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """expression → the text shown over its last name."""
    folder = tmp_path_factory.mktemp("edited")
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    file = folder / "program.py"
    file.write_text(PROGRAM)
    with _Server(folder) as server:
        document = {"uri": file.as_uri()}
        opened = {**document, "languageId": "python", "version": 1, "text": PROGRAM}
        server.tell("textDocument/didOpen", {"textDocument": opened})
        return {line: server.hover(document, number, len(line) - 1) for number, line in enumerate(PROGRAM.splitlines())}


@pytest.mark.parametrize("expression", SHOWN)
def test_signature_and_text_are_shown(hovers, expression):
    assert [part for part in SHOWN[expression] if part not in hovers[expression]] == [], hovers[expression]


class _Server:
    """The least that a language server must be told before it answers."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.count = folder, 0

    def __enter__(self) -> _Server:
        command = [sys.executable, "-m", "pyright.langserver", "--stdio"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder)
        place = {"uri": self.folder.as_uri(), "name": "edited"}
        self.ask(
            "initialize", {"processId": None, "rootUri": place["uri"], "workspaceFolders": [place], "capabilities": {}}
        )
        self.tell("initialized", {})
        return self

    def __exit__(self, *_: Any) -> None:
        self.ask("shutdown", None)
        self.tell("exit", None)
        self.process.wait(timeout=20)

    def hover(self, document: dict[str, str], line: int, character: int) -> str:
        place = {"line": line, "character": max(character, 0)}
        found = self.ask("textDocument/hover", {"textDocument": document, "position": place})
        return found["contents"]["value"] if found else ""

    def ask(self, method: str, params: Any) -> Any:
        self.count += 1
        self._send({"id": self.count, "method": method, "params": params})
        while (answer := self._receive()).get("id") != self.count or "method" in answer:
            if "id" in answer and "method" in answer:  # the server asks for settings: there are none
                wanted = answer.get("params") or {}
                self._send({"id": answer["id"], "result": [None] * len(wanted.get("items", ()))})
        return answer.get("result")

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        length = 0
        while (line := self.process.stdout.readline().strip()) or not length:
            assert line or self.process.poll() is None, "the language server ended"
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self.process.stdout.read(length))
