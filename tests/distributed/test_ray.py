"""`weft search --on ray`: the table of a local search, also when a worker is killed half-way."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from .launching import ROOT, environment

pytest.importorskip("ray")


METHODS = {"random": ["--set", "epochs=2"], "asha": ["--set", "epochs=4", "--eta", "2"]}


def command(method: str, trials: int, runs: pathlib.Path, *more: str) -> list[str]:
    words = ["search", "digits-mlp", "--space", "lr=1e-3..1e-1", "--space", "hidden=8,16", "--trials", str(trials)]
    words += ["--method", method, *METHODS[method], "--runs", str(runs), "--threads", "1", "--json", *more]
    return [sys.executable, "-m", "weft", *words]


def table(text: str) -> list[tuple]:
    return [(r["number"], r["rung"], str(r["settings"]), r["score"], r["error"]) for r in json.loads(text)["trials"]]


def workers() -> list[int]:
    """Processes of Ray that run a trial for this test."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name = (entry / "cmdline").read_bytes()
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if name.startswith(b"ray::run_trial") and f"WEFT_TEST_DRIVER={os.getpid()}".encode() in environ:
                found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_search_on_ray_with_a_killed_worker_gives_the_table_of_a_local_one(method, tmp_path):
    trials = 24
    env = environment(WEFT_TEST_DRIVER=str(os.getpid()), RAY_raylet_start_wait_time_s="300")
    local = subprocess.run(
        command(method, trials, tmp_path / "local"), env=env, capture_output=True, text=True, check=True, cwd=ROOT
    )
    driver = subprocess.Popen(
        command(method, trials, tmp_path / "ray", "--on", "ray"),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    done, killed = tmp_path / "ray" / "digits-mlp-search" / "trials", False
    begin = time.monotonic()
    while driver.poll() is None and time.monotonic() - begin < 1500:
        if not killed and len(list(done.glob("*.json"))) >= trials // 2:
            for pid in workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed = True
        time.sleep(0.05)
    out, error = driver.communicate(timeout=30)
    assert driver.returncode == 0, error[-2000:]
    assert killed and table(out) == table(local.stdout)
    assert sum(rung == 0 for _, rung, *_ in table(out)) == trials


@pytest.mark.slow
def test_a_search_whose_head_was_killed_goes_on(tmp_path):
    """The driver dies by −9 half-way, and Ray with it; resumed, it runs what is missing: the table is that of a local search."""
    env = environment(WEFT_TEST_DRIVER=str(os.getpid()), RAY_raylet_start_wait_time_s="300")
    local = subprocess.run(
        command("asha", 12, tmp_path / "local"), env=env, capture_output=True, text=True, check=True, cwd=ROOT
    )
    words = command("asha", 12, tmp_path / "ray", "--on", "ray")
    head = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    done, begin = tmp_path / "ray" / "digits-mlp-search" / "trials", time.monotonic()
    while head.poll() is None and len(list(done.glob("*.json"))) < 6 and time.monotonic() - begin < 600:
        time.sleep(0.05)
    head.kill()
    head.wait()
    kept = {file.name: file.read_bytes() for file in done.glob("*.json")}
    assert 6 <= len(kept) < len(table(local.stdout))
    again = subprocess.run(words, env=env, capture_output=True, text=True, check=False, cwd=ROOT)
    assert again.returncode == 0, again.stderr[-2000:]
    assert table(again.stdout) == table(local.stdout)
    assert all((done / name).read_bytes() == content for name, content in kept.items())
