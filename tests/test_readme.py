"""The programs of the README run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import weft

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PRINTED = [  # a pattern for what each program prints, in the order of the page
    r"^tensor\(\[\[3\.0000\]\], requires_grad=True\) tensor\(\[0\.5000\], requires_grad=True\)$",
    r"^$",
    r"^loss 0\.0\d+, accuracy (0\.9\d+|1\.000)$",
    r"^loss 0\.0\d+, accuracy (0\.9\d+|1\.000)$",
    r"^0\.9\d+$",
    r"^tensor\(\[\[ *1, +2, +3(, +\d+){9}\]\]\)$",
    r"^  log_prob_bound +≤ +-8\.3\d+ nats ",
    r"^tensor\(\[(-\d+\.\d+(, )?){5}\], .*'log_prob': 'exact'",
    r"^tensor\(0\., ",
    r"^tensor\(\[[01]\]\) weft\.Size\(\[60, 2\]\)$",
]


def test_every_program_has_its_pattern() -> None:
    assert len(BLOCKS) == len(PRINTED)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_programs_run(number: int, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    weft.manual_seed(0)
    exec(compile(BLOCKS[number], "README.md", "exec"), {"__name__": "readme"})
    lines = capsys.readouterr().out.strip().splitlines()
    assert re.search(PRINTED[number], lines[-1] if lines else "")
