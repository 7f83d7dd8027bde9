"""Values that a distribution cannot take: refused where PyTorch refuses them, by one piece of code for all families."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import weft

from .cases import CASES, of_torch, of_weft

BAD = {
    "not a number": lambda values: np.full_like(values, np.nan),
    "far below": lambda values: np.full_like(values, -7.5),
    "one too many": lambda values: np.concatenate([values, values[..., :1]], -1),
}
OWN_WAY = {("Gumbel", "cdf", "far below")}  # PyTorch goes through a uniform number, which underflows there


def refused(distributions, build, tensor, method, values):
    distribution = build(distributions, tensor)
    try:
        getattr(distribution, method)(tensor(values.tolist()))
    except NotImplementedError:  # there is no formula
        return None
    except (ValueError, RuntimeError):
        return True
    return False


@pytest.mark.parametrize("method", ["log_prob", "cdf"])
@pytest.mark.parametrize("name", CASES)
def test_the_values_that_pytorch_refuses_are_refused(name: str, method: str) -> None:
    build, values = CASES[name]
    for kind, bad in BAD.items():
        given = bad(np.array(values))
        theirs = refused(torch.distributions, build, of_torch, method, given)
        ours = refused(weft.distributions, build, of_weft, method, given)
        assert ours == theirs or theirs is None or (name, method, kind) in OWN_WAY


def test_the_check_has_one_home() -> None:
    package = Path(weft.distributions.__file__).parent
    assert [path.name for path in package.rglob("*.py") if "._validate_sample(" in path.read_text()] == [
        "distribution.py"
    ]


def test_a_family_that_hands_its_values_on_checks_them_there() -> None:
    """`Independent` as in PyTorch: a value for the batch is spread over what became the event."""
    for library in (weft, torch):
        D = library.distributions
        joint = D.Independent(D.Normal(library.zeros(3), library.ones(3)), 1)
        assert joint.log_prob(library.zeros(1)).item() == pytest.approx(-1.5 * np.log(2 * np.pi))
        with pytest.raises(ValueError):
            joint.log_prob(library.zeros(2))
