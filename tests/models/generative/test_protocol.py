"""The protocol of generative models: what is declared is what can be asked, and nothing else."""

from __future__ import annotations

import pytest

import weft
from weft.errors import ArgumentError, OptionError, UnsupportedError
from weft.models.generative import PROTOCOL, Bound, GenerativeModel, bound, estimate, exact


class Line(GenerativeModel):
    """x ~ N(0, 1/2): E = x², of which a code is 2x."""

    continuous = True

    def __init__(self, small: bool = True) -> None:
        super().__init__()
        self.small = small

    @exact
    def energy(self, x):
        return (x**2).sum(-1)

    @exact(where=lambda model: model.small)
    def log_prob(self, x):
        return -self.energy(x)

    @estimate
    def encode(self, x):
        return 2 * x

    @exact
    def decode(self, z):
        return z / 2

    @bound
    def elbo(self, x):
        return -self.energy(x) - 1


def test_a_model_says_what_it_has():
    assert Line().promises == {
        **{"log_prob": "exact", "elbo": "bound", "energy": "exact", "score": "exact", "encode": "estimate"},
        **{"decode": "exact", "reconstruct": "estimate", "interpolate": "estimate"},
    }
    assert "log_prob" not in Line(small=False).promises


@pytest.mark.parametrize("name", PROTOCOL)
def test_what_is_missing_is_refused_with_what_is_there(name):
    class Sampler(GenerativeModel):
        @estimate
        def sample(self, n, condition=None, generator=None):
            return weft.zeros(n)

    if name == "sample":
        assert Sampler().sample(3).shape == (3,)
    else:
        with pytest.raises(UnsupportedError, match=f"Sampler has no {name}; it has sample \\(estimate\\)"):
            getattr(Sampler(), name)(weft.zeros(1))


def test_what_a_large_model_cannot_do_is_refused_as_well():
    with pytest.raises(UnsupportedError, match=r"Line has no log_prob; it has elbo \(bound\), energy \(exact\)"):
        Line(small=False).log_prob(weft.zeros(2, 1))


def test_an_undeclared_method_is_refused_when_the_class_is_made():
    with pytest.raises(ArgumentError, match=r"Silent\.sample does not say how true it is"):

        class Silent(GenerativeModel):
            def sample(self, n, condition=None, generator=None):
                return weft.zeros(n)


def test_what_follows_from_energy_and_codes():
    x, y = weft.tensor([[1.0, 2.0]]), weft.tensor([[3.0, 0.0]])
    assert Line().score(x).tolist() == [[-2.0, -4.0]]
    assert Line().reconstruct(x).tolist() == x.tolist()
    assert Line().interpolate(x, y, 3).tolist() == [[[1.0, 2.0]], [[2.0, 1.0]], [[3.0, 0.0]]]


def test_bounds_of_opposite_sides_are_not_ranked():
    low, high, lower = (
        Bound(weft.tensor([v]), s, weft.zeros(1)) for v, s in ((-90.0, "lower"), (-85.0, "upper"), (-95.0, "lower"))
    )
    assert low.better_than(lower) and not lower.better_than(low)
    with pytest.raises(OptionError, match="a lower and an upper bound cannot be ranked"):
        low.better_than(high)
