"""Kernels compiled by these tests go to a cache of this run: no test sees what an earlier version of Weft has built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield
