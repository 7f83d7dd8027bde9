"""References to the lecture notes lead to known sections, and docs/notes.md, their legend, is what `make docs` writes."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("notes", ROOT / "docs" / "notes.py")
notes = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notes)

READ = {
    "N2 §3.4.4": [("N2", "3.4.4")],
    "(N4 §3–4, N2 §2.3.3, §2.4.5–2.4.7)": [
        ("N4", "3"),
        ("N4", "4"),
        ("N2", "2.3.3"),
        ("N2", "2.4.5"),
        ("N2", "2.4.6"),
        ("N2", "2.4.7"),
    ],
    "N2 §2.4.8–2.4.10": [("N2", "2.4.8"), ("N2", "2.4.9"), ("N2", "2.4.10")],
    "N1 thm. 1.4, N0 §1.7.": [("N1", "theorem 1.4"), ("N0", "1.7")],
    "N1 §2.9, 6 and 8: rates": [("N1", "2.9")],
    "N1 eqs. 46–54": [("N1", "equation 46")],
    "N1 §1.5, eqs. 59–67": [("N1", "1.5"), ("N1", "equation 59")],
    "(N3, linear transformers)": [("N3", "linear transformers")],
    "N3) in its stochastic form": [("N3", "")],
}


@pytest.mark.parametrize("text", READ)
def test_references_are_read(text):
    assert list(notes.references(text)) == READ[text]
    assert notes.unresolved(text) == []


@pytest.mark.parametrize("text", ["N7 §1", "N2 §9.9", "N1 def. 77.1", "N0 §1.7–1.9", "N1 ex. 1.1"])
def test_references_that_lead_nowhere_are_found(text):
    assert notes.unresolved(text)


def test_every_reference_leads_to_a_section():
    found = {}
    for top in ("weft", "tests", "handbook", "docs", "bench"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in (".py", ".md") and path.name not in ("notes.py", "notes.md", pathlib.Path(__file__).name):
                if lost := notes.unresolved(path.read_text(encoding="utf-8")):
                    found[str(path.relative_to(ROOT))] = lost
    assert not found, "docs/notes.toml says what each section is about"


def test_sections_stand_in_order():
    for name, of_set in notes.NOTES.items():
        numbers = [tuple(map(int, s.split("."))) for s in of_set["sections"] if s[0].isdigit()]
        assert numbers == sorted(set(numbers)), name


def test_the_page_is_current():
    assert notes.TARGET.read_text(encoding="utf-8") == notes.page(), "run make docs"
    assert "◆" not in "".join(path.read_text(encoding="utf-8") for path in (ROOT / "weft").rglob("*.py"))
