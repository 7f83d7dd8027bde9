"""`weft launch`: ranks named on every line, a rank that fails named and the others stopped, restarts that lose nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import weft
from weft.app import guard, starters
from weft.app.output import Misuse
from weft.runtime.cluster import world

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


def test_a_rank_killed_while_the_others_wait_in_native_code_loses_nothing(tmp_path):
    words = (str(HERE / "job_trainer.py"), str(tmp_path / "run"), "ddp", "4", "6")
    job = launch("-n", "2", "--max-restarts", "1", *words, HARM="collective:7", COMPILE="1")
    assert job.returncode == 0, job.stderr[-3000:]
    assert len(re.findall(r"weft launch: rank 1 was ended by SIGKILL .*restarts left", job.stderr)) == 1
    assert set(re.findall(r'"digest": "(\w+)"', job.stdout)) == {trained(2, "ddp")[1][0]["digest"]}
    assert float(re.findall(r"stopped after ([\d.]+) s", job.stderr)[0]) < 10


def test_a_hung_rank_ends_the_job_and_is_named(tmp_path):
    """The other one waits for it inside of a compiled step."""
    begin = time.monotonic()
    words = (str(HERE / "job_trainer.py"), str(tmp_path / "run"), "ddp", "4", "6")
    job = launch("-n", "2", "--timeout", "3", *words, HARM="hang:2", COMPILE="1")
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
        env=environment(HARM="hang:2", COMPILE="0", WEFT_DISTRIBUTED_TIMEOUT="18"),
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


def test_a_file_of_machines_is_read_and_two_names_of_this_one_work_together(tmp_path):
    hosts, script = tmp_path / "machines.txt", tmp_path / "say.py"
    hosts.write_text("# two names of one machine\nlocalhost:1\n\n127.0.0.1:1\n")
    script.write_text(
        "import weft, weft.distributed as dist\ndist.init_process_group()\nx = weft.ones(1)\ndist.all_reduce(x)\n"
        "print(x.item(), dist.get_rank())\ndist.destroy_process_group()\n"
    )
    job = launch("-n", "2", "--hosts", str(hosts), str(script))
    assert job.returncode == 0, job.stderr[-2000:]
    assert sorted(job.stdout.splitlines()) == ["[0] 2.0 0", "[1] 2.0 1"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node1 node2\n", "line 1: expected name or name:ranks"),
        ("node1:4\nnode2:four\n", "line 2: expected name or name:ranks, got 'node2:four'"),
        ("node1:0\n", "line 1"),
        ("-oProxyCommand=sh:1\n", "line 1"),
        ("a:3\n# b:5\nc\n", "places for 4 ranks, -n asks for 5"),
        ("", "places for 0 ranks"),
    ],
)
def test_files_of_machines_that_would_be_misread_are_refused(tmp_path, text, told):
    file = tmp_path / "machines.txt"
    file.write_text(text)
    with pytest.raises(Misuse, match=told):
        starters.machines(file, 5)


SLURM = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1", "SLURM_NTASKS_PER_NODE": "4"}
STARTERS = {
    "srun": SLURM,
    "srun with pmi2": {**SLURM, "PMI_RANK": "5", "PMI_SIZE": "8"},
    "mpiexec inside of a SLURM job": {**SLURM, "PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "2"},
    "Open MPI": {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
    "an sbatch script alone": {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"},
    "nobody": {},
}


@pytest.mark.parametrize(
    ("starter", "rank", "size", "local"),
    [
        ("srun", 5, 8, 1),
        ("srun with pmi2", 5, 8, 1),
        ("mpiexec inside of a SLURM job", 2, 3, 2),
        ("Open MPI", 1, 2, 1),
        ("an sbatch script alone", 0, 1, 0),
        ("nobody", 0, 1, 0),
    ],
)
def test_ranks_are_those_that_the_starter_tells(monkeypatch, starter, rank, size, local):
    """What launchers put into the environment, set here by hand."""
    for name in [name for name in os.environ if name.startswith(("PMI", "OMPI_", "MPI_", "SLURM_"))]:
        monkeypatch.delenv(name)
    for name, value in STARTERS[starter].items():
        monkeypatch.setenv(name, value)
    assert (world.world_rank(), world.launched_size(), world.local_rank()) == (rank, size, local)
    if starter == "srun":
        told = guard.surroundings(0)
        assert (told["RANK"], told["WORLD_SIZE"], told["LOCAL_RANK"], told["LOCAL_WORLD_SIZE"]) == ("5", "8", "1", "4")
    if size > 1:  # MPI that knows of one process: mpiexec belongs to another one
        alone = SimpleNamespace(Get_size=lambda: 1)
        package = SimpleNamespace(rc=SimpleNamespace(), COMM_WORLD=alone, Get_library_version=lambda: "MPI of a test")
        monkeypatch.setattr(world, "extra", lambda name, why: package)
        with pytest.raises(weft.errors.DistributedError, match=f"speaks of {size} processes, MPI of 1") as refused:
            world.start()
        assert ("srun --mpi=pmi2" in str(refused.value)) == (starter == "srun")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("HYDRA build details:\n    Version: 5.0.2\n", ["-n", "3", "-f", "a:2|b:1"]),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.13\n", ["-n", "3", "-f", "a:2|b:1"]),
        (
            "mpiexec (Open MPI) 5.0.11\n",
            ["-n", "3", "--bind-to", "none", "--hostfile", "a|a|b", "-x", "HERE", "-x", "WEFT_RUNS"],
        ),
        (
            "mpirun (Open MPI) 4.1.4\n",
            ["-n", "3", "--bind-to", "none", "--hostfile", "a|a|b", "-x", "HERE", "-x", "WEFT_RUNS"],
        ),
    ],
)
def test_each_mpi_is_asked_in_its_own_words(monkeypatch, tmp_path, version, expected):
    """Stand-ins that say what the versions of these launchers say: threads need all cores, machines have two formats."""
    program = tmp_path / "mpiexec"
    program.write_text(f"#!/bin/sh\nprintf '{version.encode('unicode_escape').decode()}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    for name in [name for name in os.environ if name.startswith("WEFT_") or name in ("PYTHONPATH", "HF_HOME")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WEFT_RUNS", "here")
    words = starters.mpiexec(3, [("a", 2), ("b", 1)], ["HERE"])
    assert words[0] == str(program)
    read = lambda word: Path(word).read_text().strip().replace("\n", "|") if word.endswith(".hosts") else word
    assert [read(word) for word in words[1:]] == expected
