"""`weft launch`: ranks named on every line, a rank that fails named and the others stopped, restarts that lose nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest

from .launching import HERE, ROOT, SECONDS, environment, mpiexec, rows_of, run_job
from .test_trainer import trained

pytest.importorskip("mpi4py")


def launch(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", "launch", *words]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=SECONDS, check=False, cwd=ROOT
    )


def test_a_rank_killed_in_forward_in_a_collective_and_in_a_checkpoint_loses_nothing(tmp_path):
    """Each time rank 1 is named, the other is stopped within 10 s, all start again; the weights are those of an undisturbed run."""
    harm = "kill:7,collective:9,checkpoint:12"
    job = launch(
        "-n",
        "2",
        "--max-restarts",
        "3",
        str(HERE / "job_trainer.py"),
        str(tmp_path / "run"),
        "zero1",
        "4",
        "6",
        HARM=harm,
        COMPILE="0",
    )
    assert job.returncode == 0, job.stderr[-3000:]
    assert len(re.findall(r"weft launch: rank 1 was ended by SIGKILL .*restarts left", job.stderr)) == 3
    digests = set(re.findall(r'"digest": "(\w+)"', job.stdout))
    assert digests == {trained(2, "zero1")[1][0]["digest"]}
    stopped = [float(t) for t in re.findall(r"stopped after ([\d.]+) s", job.stderr)]
    assert len(stopped) == 3 and max(stopped) < 10


def test_a_hung_rank_ends_the_job_and_is_named(tmp_path):
    begin = time.monotonic()
    words = (str(HERE / "job_trainer.py"), str(tmp_path / "run"), "ddp", "4", "6")
    job = launch("-n", "2", "--timeout", "3", *words, HARM="hang:2", COMPILE="0")
    assert job.returncode == 1 and time.monotonic() - begin < 60
    assert "rank 1 did not come within 3 s" in job.stderr
    assert "weft launch: rank 0 ended with exit code 1" in job.stderr


def test_sigterm_to_one_rank_lets_all_save_and_the_run_goes_on(tmp_path):
    words = (str(HERE / "job_trainer.py"), str(tmp_path / "run"), "zero1", "4", "6")
    first = run_job(2, "job_trainer.py", *words[1:], HARM="terminate:8", COMPILE="0")
    assert first.returncode != 0 and "SIGTERM" in first.stderr
    rows = rows_of(run_job(2, "job_trainer.py", *words[1:], "resume", COMPILE="0"))
    assert {row["digest"] for row in rows} == {trained(2, "zero1")[1][0]["digest"]}


def test_two_jobs_in_one_folder_are_refused(tmp_path):
    words = ("job_trainer.py", str(tmp_path / "run"), "ddp", "4", "6")
    hanging = subprocess.Popen(
        mpiexec(2, str(HERE / words[0]), *words[1:]),
        env=environment(HARM="hang:2", COMPILE="0", WEFT_DISTRIBUTED_TIMEOUT="30"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        lock = tmp_path / "run" / ".lock"
        for _ in range(200):
            if lock.exists():
                break
            time.sleep(0.1)
        second = run_job(2, *words, COMPILE="0")
        assert second.returncode != 0 and "has been training since" in second.stderr
    finally:
        hanging.terminate()
        hanging.wait()


def test_every_line_has_its_rank_and_threads_are_shared_out(tmp_path):
    script = tmp_path / "say.py"
    script.write_text("import os\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['OMP_NUM_THREADS'])\n")
    job = launch("-n", "2", "--threads", "3", str(script))
    assert sorted(job.stdout.splitlines()) == ["[0] 0 2 3", "[1] 1 2 3"] and job.returncode == 0


def test_what_cannot_be_launched_is_refused_with_exit_code_2(tmp_path):
    assert launch("-n", "2", "nothing.py").returncode == 2
    assert "there is no file" in launch("-n", "2", "--hosts", str(tmp_path / "no"), "train.py").stderr
