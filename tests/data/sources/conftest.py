"""Every test begins with trust in made-up files, without $WEFT_DATA and with an empty cache; `real` is the folder of the real files, if it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[4] / "shared" / "data"
REAL = Path(os.environ.get("WEFT_DATA") or BESIDE)


@pytest.fixture(autouse=True)
def no_folders(monkeypatch, tmp_path_factory):
    monkeypatch.delenv("WEFT_DATA", raising=False)
    monkeypatch.setenv("WEFT_TRUST_DATA", "1")  # made-up files have other digests
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def real() -> Path:
    if not REAL.is_dir():
        pytest.skip("the real files are not there; set WEFT_DATA")
    return REAL
