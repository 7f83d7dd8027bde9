"""Machine code on disk is loaded only where nobody but the user can have written it."""

from __future__ import annotations

import os
import warnings
import weakref

import numpy as np
import pytest

import weft
from weft.kernels.llvm import jit
from weft.runtime import cache

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners on this system")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(cache, "_here", cache._Here())
    return tmp_path / "kernels"


def outcome(monkeypatch):
    """How many kernels were compiled, and what was said; as a new process would find it."""
    compiled, emit = [], jit._emit
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        patch.setattr(jit, "_alive", weakref.WeakValueDictionary())
        patch.setattr(jit, "_emit", lambda *given, **how: (compiled.append(1), emit(*given, **how))[1])
        found = weft.compile(lambda x: (x * 1.25).tanh() + 0.125)(weft.ones(5))
        np.testing.assert_allclose(found.numpy(), np.tanh(1.25) + 0.125, rtol=1e-6)
    return len(compiled), [str(w.message) for w in said if w.category is RuntimeWarning]


def test_the_users_own_entries_are_loaded(place, monkeypatch):
    assert outcome(monkeypatch) == (1, [])
    assert outcome(monkeypatch) == (0, [])
    assert place.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702], ids=oct)
def test_a_directory_that_others_can_write_is_not_used(mode, place, monkeypatch):
    outcome(monkeypatch)
    place.chmod(mode)
    before = sorted(os.listdir(place))
    count, said = outcome(monkeypatch)
    assert count == 1 and len(said) == 1 and "kernels' can be written by others" in said[0] and "chmod go-w" in said[0]
    assert outcome(monkeypatch) == (1, []) and sorted(os.listdir(place)) == before  # said once, nothing written there
    place.chmod(0o700)
    assert outcome(monkeypatch) == (0, [])


def test_an_entry_that_others_can_write_is_compiled_anew(place, monkeypatch):
    outcome(monkeypatch)
    (entry,) = place.glob("*.object")
    entry.chmod(0o666)
    count, said = outcome(monkeypatch)
    assert count == 1 and len(said) == 1 and "can be written by others" in said[0]
    assert entry.stat().st_mode & 0o077 == 0  # a new one took its place
    assert outcome(monkeypatch) == (0, [])


def test_what_belongs_to_another_user_is_not_loaded(place, monkeypatch):
    outcome(monkeypatch)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    count, said = outcome(monkeypatch)
    assert count == 1 and len(said) == 1 and f"belongs to user {me}, not to {me + 1}" in said[0]
