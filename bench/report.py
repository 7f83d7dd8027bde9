"""What `run.py` measured, as rows, as a table and as a picture.

    python bench/report.py build/bench

makes table and picture again from results.json (the yardstick's folder must be on PYTHONPATH for the FLOP counts).
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import tasks
from machine import QUIET

REFERENCE = "torch"
GOALS = {  # time of Weft's compiled step over PyTorch's eager step that is asked for: with AVX-512, and without
    "mlp_small": (0.28, 0.28), "mlp_large": (0.38, 0.42), "cnn_small": (0.20, 0.26), "resnet18_cifar": (0.40, 0.40),
    "lstm": (0.50, 0.48), "gpt_small": (0.47, 0.52), "gpt_medium": (0.64, 0.76), "vae": (0.42, 0.46),
    "realnvp": (0.15, 0.15), "gcn": (0.06, 0.08), "rbm_cd1": (0.35, 0.45), "wgan_gp": (0.26, 0.30),
    "ddpm_mlp": (0.46, 0.50), "vit_tiny": (0.54, 0.64),
}  # fmt: skip
WIDE = 16  # float32 numbers in a vector of AVX-512
COLOURS = {"weft": "#c1440e", "weft_eager": "#e8a07c", "torch": "#555555", "torch_compile": "#8fa3ad", "jax": "#2f6f8f"}
HIGHEST = 2.0  # ratio up to which bars are drawn
NOTES = """\
step: median over rounds of the median step; ±: half the spread of the middle half of rounds / median; ratio: to PyTorch
eager in the same round, median over rounds, below 1 is faster; goal: asked of Weft compiled on such a processor (✓ reached,
↓ so low that the counted products and convolutions at the FLOP peak would miss it); roofline: share of the FLOP peak that
they alone would take; cold, warm: first step with an empty and with a filled cache of compiled code; peak: most resident
memory of the process; loss: after the task's steps, the same for all from the same start (≠: not so) except where a task
draws random numbers (~); others: cores that other programs used meanwhile (!: too many for the figures to mean much)."""


def rows(about: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each task and peer."""
    peak, narrow = max(p["gflops"] for p in about["peaks"]), about.get("lanes", WIDE) < WIDE
    made = [row(found, peak) for found in about["runs"]]
    made = [r for r in made if not r.get("error", "").startswith("NotImplementedError")]
    order = list(COLOURS)
    made.sort(key=lambda r: (tasks.NAMES.index(r["task"]), order.index(r["peer"])))
    reference = {r["task"]: r for r in made if r["peer"] == REFERENCE and "error" not in r}
    for r in made:
        if r["peer"] == "weft" and r["task"] in GOALS:
            r["goal"] = GOALS[r["task"]][narrow]
        other = reference.get(r["task"])
        if other and "error" not in r:
            r["ratio"] = ratio(r["windows"], other["windows"])
            r["same_loss"] = math.isclose(r["loss"], other["loss"], rel_tol=1e-3, abs_tol=1e-6)
    return made


def ratio(windows: list[dict[str, float]], others: list[dict[str, float]]) -> float:
    """Median over rounds of one peer's time over another's; disturbed rounds count only where there is no other."""
    pairs = [
        (w["median_ms"] / o["median_ms"], max(w["others"], o["others"])) for w, o in zip(windows, others, strict=True)
    ]
    return statistics.median([value for value, busy in pairs if busy < QUIET] or [value for value, _ in pairs])


def row(run: dict[str, Any], peak: float) -> dict[str, Any]:
    """The medians of one peer on one task."""
    task, peer = run["task"], run["peer"]
    if "error" in run:
        return {"task": task, "peer": peer, "error": run["error"]}
    quiet = [w for w in run["windows"] if w["others"] < QUIET] or run["windows"]
    medians = [w["median_ms"] for w in quiet]
    middle = statistics.median(medians)
    low, _, high = statistics.quantiles(medians, n=4) if len(medians) > 1 else (middle,) * 3
    flops = tasks.flops(task)
    return {
        "task": task,
        "peer": peer,
        "version": run["version"],
        "ms": middle,
        "best_ms": min(w["best_ms"] for w in quiet),
        "spread": (high - low) / 2 / middle,
        "floor_ms": flops / peak / 1e6 if flops else None,
        "roofline": flops / peak / 1e6 / middle if flops else None,
        "cold_s": run["first_s"],
        "warm_s": run.get("warm_s"),
        "peak_mb": run["peak_mb"],
        "loss": run["loss"],
        "noisy": tasks.TASKS[task].get("noisy", False),
        "others": max(w["others"] for w in quiet),
        "windows": run["windows"],
        "parts_ms": run["parts_ms"],
    }


def table(made: list[dict[str, Any]]) -> str:
    """The rows as text, a block for each task."""
    head = (
        f"{'task':15} {'peer':14} {'step ms':>10} {'±':>5} {'ratio':>6} {'goal':>6} {'roofline':>8} {'cold s':>7} "
        f"{'warm s':>7} {'peak MB':>8} {'loss':>12} {'others':>6}"
    )
    lines = [head, "-" * len(head)]
    for before, r in zip([None, *made], made, strict=False):
        if before and before["task"] != r["task"]:
            lines.append("")
        lines.append(line(r))
        lines += [f"{'':15} {'  ' + name:14} {ms:10.3f}" for name, ms in r.get("parts_ms", {}).items()]
    return "\n".join(lines)


def line(r: dict[str, Any]) -> str:
    if "error" in r:
        return f"{r['task']:15} {r['peer']:14} failed: {r['error'][:120]}"
    goal, reached = r.get("goal"), " "
    if goal and "ratio" in r:
        reached = "✓" if r["ratio"] <= goal else "↓" if r["ratio"] * (r["roofline"] or 0) > goal else " "
    disturbed = "!" if r["others"] >= QUIET else " "
    mark = "~" if r["noisy"] else " " if r.get("same_loss", True) else "≠"
    return (
        f"{r['task']:15} {r['peer']:14} {r['ms']:10.3f} {r['spread']:5.0%} {number(r.get('ratio'), 6, '.2f')} "
        f"{number(goal, 5, '.2f')}{reached} {number(r['roofline'], 8, '.0%')} {number(r['cold_s'], 7, '.2f')} "
        f"{number(r['warm_s'], 7, '.2f')} {r['peak_mb']:8.0f} {r['loss']:11.5g}{mark} {r['others']:6.2f}{disturbed}"
    )


def number(value: float | None, width: int, form: str) -> str:
    return f"{'-' if value is None else format(value, form):>{width}}"


def picture(made: list[dict[str, Any]], path: Path) -> None:
    """Ratios to PyTorch eager and shares of the roofline, a group of bars for each task."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = [r for r in made if "ratio" in r]
    names = list(dict.fromkeys(r["task"] for r in shown))
    peers = [peer for peer in COLOURS if any(r["peer"] == peer for r in shown)]
    width = 0.8 / len(peers)
    figure, (above, below) = plt.subplots(2, 1, figsize=(1.1 * len(names) + 2.5, 7), sharex=True)
    for k, peer in enumerate(peers):
        mine = [r for r in shown if r["peer"] == peer]
        places = [names.index(r["task"]) + (k - (len(peers) - 1) / 2) * width for r in mine]
        above.bar(places, [r["ratio"] for r in mine], width, color=COLOURS[peer], label=peer)
        below.bar(places, [r["roofline"] or 0.0 for r in mine], width, color=COLOURS[peer])
        for place, r in zip(places, mine, strict=True):
            if r["ratio"] > HIGHEST:
                above.text(place, HIGHEST, f"{r['ratio']:.1f}", ha="center", va="bottom", fontsize=7)
    goals = [(names.index(r["task"]), r["goal"]) for r in shown if "goal" in r]
    above.hlines(
        [goal for _, goal in goals], [i - 0.42 for i, _ in goals], [i + 0.42 for i, _ in goals], "black", label="goal"
    )
    above.axhline(1, color="#999999", linewidth=0.8, zorder=0)
    above.set(ylabel="step time / PyTorch eager", ylim=(0, HIGHEST))
    below.set(ylabel="share of the FLOP peak", ylim=(0, 1))
    below.set_xticks(range(len(names)), names, rotation=30, ha="right")
    figure.legend(ncols=6, frameon=False, loc="upper left", fontsize=8)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def write(about: dict[str, Any], folder: Path) -> str:
    """Write table.txt, results.json and ratios.png; the text of the table."""
    made = rows(about)
    peaks = about["peaks"]
    versions = {r["peer"]: r["version"] for r in made if "version" in r}
    text = (
        f"{about['threads']} threads; peaks {max(p['gflops'] for p in peaks):.0f} GFLOP/s, "
        f"{max(p['streams'] for p in peaks):.0f} GB/s; started {about['started']}; "
        + ", ".join(f"{peer} {version}" for peer, version in versions.items())
        + f"\n\n{table(made)}\n\n{NOTES}\n"
    )
    (folder / "table.txt").write_text(text)
    (folder / "results.json").write_text(json.dumps({**about, "rows": made}, indent=1))
    if any("ratio" in r for r in made):
        picture(made, folder / "ratios.png")
    return text


if __name__ == "__main__":
    place = Path(sys.argv[1])
    print(write(json.loads((place / "results.json").read_text()), place))
