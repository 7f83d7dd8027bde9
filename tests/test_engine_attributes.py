"""What the engine keeps on a tensor stands in one table; a user's attributes go along with copies, the engine's do not."""

from __future__ import annotations

import copy
import pickle

import weft
from weft.protocols import Borders
from weft.tensor import ENGINE_ATTRIBUTES, Tensor


def _is_data(value: object) -> bool:
    return not callable(value) and not isinstance(value, (property, classmethod, staticmethod))


def test_every_private_attribute_is_in_the_table():
    of_class = {n for c in (Tensor, Borders) for n, v in vars(c).items() if n.startswith("_") and _is_data(v)}
    of_class = {name for name in of_class if not name.startswith("__")} - {"_repr_prefix"}  # of classes, not of tensors
    assert of_class == ENGINE_ATTRIBUTES - {"array", "node", "_running"}  # public, or without a default


def _used() -> Tensor:
    """A leaf that most of the engine has left its mark on."""
    x = weft.ones(3, requires_grad=True)
    x.register_hook(lambda g: g)
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    (x.view(3, 1) * 2).sum().backward()
    with weft.no_grad():
        x.view(-1).mul_(2)
    return x


def test_copies_take_what_is_the_users():
    x = _used()
    x.label = ["mine"]
    copies = [copy.deepcopy(x), pickle.loads(pickle.dumps(x.detach().requires_grad_()))]
    assert copies[0].label == ["mine"] and copies[0].label is not x.label
    for c in copies:
        assert set(c.__dict__) - {"label"} <= {"array", "_needs_grad", "_grad", "_base"}


def test_a_copy_in_a_forward_pass_is_no_variable_of_it():
    inside = []

    def f(x):
        inside.append((copy.deepcopy(x), dict(x.__dict__)))
        return x * x

    weft.func.jvp(f, (weft.ones(2),), (weft.ones(2),))
    copied, original = inside[0]
    assert original.keys() <= ENGINE_ATTRIBUTES
    assert original.keys() >= {"_tangents", "_running"} and copied.__dict__.keys().isdisjoint({"_tangents", "_running"})


def test_hooks_that_a_compiled_function_adds_do_not_pile_up():
    """Both kinds alike: a trace puts back what it found, and the plan made holds for the next call."""
    for register in ("register_hook", "register_post_accumulate_grad_hook"):
        w = weft.ones(3, requires_grad=True)

        def step(x, w=w, register=register):
            getattr(w, register)(lambda _: None)
            (w * x).sum().backward()

        compiled = weft.compile(step)
        for _ in range(3):
            compiled(weft.ones(3))
        assert not w._hooks and not w._post_hooks
        assert w.grad.tolist() == [3, 3, 3]
