"""`weft evaluate`: likelihoods of runs and of one's own models, ranked or refused, as a table and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from weft import recipes
from weft.app import cli
from weft.models.generative import ProductOfBernoullis

MODELS = """
import weft
from weft.models.generative import Bound, GenerativeModel, ProductOfBernoullis, bound

fair = ProductOfBernoullis(3)

class Sided(GenerativeModel):
    def __init__(self, side):
        super().__init__()
        self.which = side

    @bound
    def log_prob_bound(self, x, generator=None):
        return Bound(-weft.ones(len(x)), self.which, weft.zeros(len(x)))

def upper():
    return Sided("upper")

def lower():
    return Sided("lower")

nothing = 3
"""


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """What `weft evaluate` says: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_densities.py").write_text(MODELS)
    np.save(tmp_path / "bits.npy", np.array([[0, 1, 1], [1, 0, 0]], np.uint8))

    def evaluate(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["evaluate", *arguments])
        return ended.value.code, *capsys.readouterr()

    return evaluate


OWN = ("--data", "bits.npy", "--binarisation", "native")


def test_a_model_of_ones_own(told):
    code, out, err = told("my_densities:fair", *OWN, "--json")
    (found,) = json.loads(out)["evaluations"]
    assert (code, err) == (0, "") and found["likelihoods"][0]["nats"] == pytest.approx(3 * np.log(0.5))
    assert found["likelihoods"][0]["bits_per_dim"] == pytest.approx(1) and found["binarisation"] == "native"
    assert found["examples"] == 2 and len(found["split"]) == 16 and found["seeds"] == [0, 1]
    _, out, _ = told("my_densities:fair", *OWN)
    assert "native binarisation" in out and "exact" in out and "-2.079" in out


def test_models_are_ranked_or_not(told):
    document = json.loads(told("my_densities:fair", "my_densities:lower", *OWN, "--json")[1])
    assert document["best_first"] == ["my_densities:lower", "my_densities:fair"]
    document = json.loads(told("my_densities:upper", "my_densities:lower", *OWN, "--json")[1])
    assert document["best_first"] is None and "cannot be ranked" in document["not_ranked"]


def test_what_cannot_be_evaluated_is_said(told):
    for arguments, said in (
        (("my_densities:fair",), "give it a .npy file"),
        (("my_densities:fair", "--data", "bits.npy"), "binarisation='fixed'"),
        (("my_densities:nothing", *OWN), "expected a weft.models.generative.GenerativeModel"),
        (("my_densities:absent", *OWN), "expected package.module:name"),
        (("my_densities:fair", "--data", "none.npy"), "does not exist"),
    ):
        code, out, err = told(*arguments)
        assert code == 2 and said in err and not out, arguments


def test_a_run_that_is_no_density_is_sent_to_eval(told, tmp_path):
    recipes.run("digits-mlp", ["epochs=1", "hidden=8"], folder=tmp_path / "digits", progress=False)
    code, _, err = told(str(tmp_path / "digits"))
    assert code == 2 and "weft eval" in err


def test_the_figure_is_that_of_the_model(told):
    x = weft.tensor(np.load("bits.npy").astype(np.float32))
    (found,) = json.loads(told("my_densities:fair", *OWN, "--json")[1])["evaluations"]
    expected = ProductOfBernoullis(3).log_prob(x)
    assert found["likelihoods"][0]["nats"] == pytest.approx(expected.mean().item())
