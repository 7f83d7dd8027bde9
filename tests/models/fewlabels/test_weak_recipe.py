"""weak-sst2 on made-up sentences: votes, a label model, a network that learns words which no rule names."""

from __future__ import annotations

import numpy as np
import pytest

from weft import recipes
from weft.data.sources import trusted


def write(path, count, seed):
    """A sentence has a word of its class that a rule names, or not, and always one that none names."""
    rng = np.random.default_rng(seed)
    known, other = (["dull", "boring"], ["great", "funny"]), ("grey", "bright")
    lines = ["sentence\tlabel"]
    for label in rng.integers(0, 2, count):
        said = [other[label]] if rng.random() < 0.9 else [other[1 - label]]
        said += [str(rng.choice(known[label]))] if rng.random() < 0.6 else []
        lines.append(f"a film {' '.join(said)} .\t{label}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def test_the_network_goes_beyond_its_rules(tmp_path):
    for seed, (part, count) in enumerate({"train": 600, "dev": 50, "test": 300}.items()):
        write(tmp_path / "sst2" / f"{part}.tsv", count, seed)
    with trusted():
        found = recipes.run(
            "weak-sst2", ["batch_size=50"], root=tmp_path, folder=tmp_path / "run", progress=False
        ).figures
    assert found["coverage"] == pytest.approx(0.6, abs=0.08)
    assert found["baseline_accuracy"] == pytest.approx(0.8, abs=0.05)  # sentences without a vote count half
    assert found["test_accuracy"] > 0.87 and found["test_accuracy"] > found["baseline_accuracy"] + 0.05
    assert found["all_labels"] > 0.87
