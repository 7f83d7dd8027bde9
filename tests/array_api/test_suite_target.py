"""`make array-api`: the standard's own suite is run where it is, and what to do is said where it is not."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def made(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    return subprocess.run(["make", "-C", ROOT, "array-api", *words], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("folder", ["", "/nowhere"])
def test_without_the_suite_it_says_where_to_get_it(folder: str) -> None:
    found = made(f"ARRAY_API_TESTS={folder}")
    assert found.returncode == 2 and "pip install --quiet" not in found.stdout  # nothing is installed in vain
    assert f"got '{folder}'" in found.stderr and "git clone --recursive https://github.com/data-apis" in found.stderr


def test_with_the_suite_it_is_run_on_weft(tmp_path: pathlib.Path) -> None:
    (tmp_path / "array_api_tests").mkdir()
    found = made("--dry-run", f"ARRAY_API_TESTS={tmp_path}", "EXAMPLES=5")
    assert found.returncode == 0 and f'cd "{tmp_path}"' in found.stdout
    assert (
        "ARRAY_API_TESTS_MODULE=weft.array_api" in found.stdout and "--max-examples=5 array_api_tests" in found.stdout
    )
