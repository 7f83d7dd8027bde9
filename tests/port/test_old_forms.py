"""What libraries write that PyTorch still takes: NumPy's names of arguments, numbers before tensors, lists of tensors."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest
import torch

import weft
import weft.torch

warnings.filterwarnings("ignore", "This overload of", UserWarning)

CALLS = {
    "cat axis": lambda t: t.cat([t.ones(2, 2)] * 2, axis=1),
    "stack axis": lambda t: t.stack([t.ones(2, 2), t.zeros(2, 2)], axis=1),
    "squeeze axis": lambda t: t.squeeze(t.ones(2, 1), axis=1),
    "unsqueeze axis": lambda t: t.ones(2).unsqueeze(axis=1),
    "gather axis": lambda t: t.eye(3).gather(axis=1, index=t.zeros(3, 1, dtype=t.int64)),
    "chunk axis": lambda t: t.chunk(t.eye(4), 2, axis=1)[0],
    "fft axis": lambda t: t.fft.fft(t.eye(3), axis=1),
    "add x2": lambda t: t.add(t.ones(2), x2=t.ones(2)),
    "add_ number tensor": lambda t: t.ones(2).add_(0.5, t.ones(2)),
    "add number tensor": lambda t: t.ones(2).add(0.5, t.ones(2)),
    "sub_ number tensor": lambda t: t.ones(2).sub_(0.5, t.ones(2)),
    "addcmul_": lambda t: t.ones(2).addcmul_(-0.5, t.ones(2), t.full((2,), 3.0)),
    "addcdiv_": lambda t: t.ones(2).addcdiv_(-0.5, t.ones(2), t.full((2,), 3.0)),
    "addcdiv": lambda t: t.addcdiv(t.ones(2), -0.5, t.ones(2), t.full((2,), 3.0)),
    "addmm_ beta": lambda t: t.ones(2, 2).addmm_(0.5, t.eye(2), t.ones(2, 2)),
    "addmm_ beta alpha": lambda t: t.ones(2, 2).addmm_(0.5, 2.0, t.eye(2), t.ones(2, 2)),
    "addmm beta self alpha": lambda t: t.addmm(0.5, t.ones(2, 2), 2, t.eye(2), t.ones(2, 2)),
    "baddbmm": lambda t: t.baddbmm(1, t.ones(1, 2, 2), -1, t.ones(1, 2, 2), t.ones(1, 2, 2)),
    "to None": lambda t: t.ones(2).to(None),
    "to place None": lambda t: t.ones(2).to("cpu", None),
    "to None kind": lambda t: t.ones(2).to(None, t.float64),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_means_what_it_means_to_pytorch(name):
    got, want = CALLS[name](weft), CALLS[name](torch)
    assert str(got.dtype).partition(".")[2] == str(want.dtype).partition(".")[2]
    np.testing.assert_allclose(got.numpy(), want.numpy())


@pytest.mark.parametrize("call", [lambda x: x.add_(x, 0.5), lambda x: x.mul_(0.5, x), lambda x: x.addcdiv_(x, 0.5, x)])
def test_other_orders_are_still_refused(call):
    with pytest.raises(weft.errors.ArgumentError):
        call(weft.ones(2))


ONE = "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round"
ONE += " rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
TWO = "add sub mul div maximum minimum clamp_max clamp_min pow"


def _lists(t, name):
    values = lambda seed: [t.from_numpy(np.random.RandomState(seed + i).rand(3) + 0.1) for i in (0, 1)]
    a, b, c = values(0), values(2), values(4)
    if name in ONE.split():
        return [(a,)]
    if name in TWO.split():
        return [(a, b), (values(0), 0.5), (values(0), [0.5, 2.0])]
    if name == "lerp":
        return [(a, b, c), (values(0), b, 0.3)]
    return [(a, b, c, 0.5), (values(0), b, c, [0.5, 0.3]), (values(0), b, c)]


@pytest.mark.parametrize("name", [*ONE.split(), *TWO.split(), "lerp", "addcmul", "addcdiv"])
def test_foreach(name):
    with weft.torch.installed():
        ours = importlib.import_module("torch")
        for mine, theirs in zip(_lists(weft, name), _lists(torch, name), strict=True):
            got, want = getattr(ours, f"_foreach_{name}")(*mine), getattr(torch, f"_foreach_{name}")(*theirs)
            getattr(ours, f"_foreach_{name}_")(*mine)
            for x, changed, y in zip(got, mine[0], want, strict=True):
                np.testing.assert_allclose(x.numpy(), y.numpy())
                np.testing.assert_allclose(changed.numpy(), y.numpy())


@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_foreach_norm(order):
    x = np.random.RandomState(0).randn(5)
    with weft.torch.installed():
        ours = importlib.import_module("torch")
        (got,) = ours._foreach_norm([weft.from_numpy(x)], ord=order)
    np.testing.assert_allclose(got.item(), np.linalg.norm(x, order))


def test_every_listed_name_is_there():
    with weft.torch.installed():
        for name in ("torch", "torch.nn", "torch.utils.data", "torch.optim"):
            module = importlib.import_module(name)
            assert [found for found in dir(module) if not hasattr(module, found)] == []


def test_errors_of_missing_names_are_made_anew_with_a_text():
    with weft.torch.installed():
        ours = importlib.import_module("torch")
        with pytest.raises(AttributeError) as caught:
            _ = ours.nonsense
        assert "more" in str(type(caught.value)(f"{caught.value} and more"))
    assert str(weft.errors.MissingNameError("a text")) == "a text"


def test_subclass_with_a_property_called_array_keeps_its_memory():
    with pytest.warns(UserWarning, match="array is left out"):

        class Named(weft.Tensor):
            @property
            def array(self):
                return self.numpy()

    x = weft.ones(2).as_subclass(Named)
    assert (x + 1).tolist() == [2.0, 2.0]


def test_conditions_have_the_errors_that_python_has():
    with weft.torch.installed():
        ours = importlib.import_module("torch")
        ours._check(True)
        for name, kind in {"": RuntimeError, "_index": IndexError, "_value": ValueError, "_type": TypeError}.items():
            with pytest.raises(kind, match="told"):
                getattr(ours, f"_check{name}")(False, lambda: "told")


def test_batches_cut_for_cards_and_put_together():
    with weft.torch.installed():
        parts = importlib.import_module("torch.nn.parallel.scatter_gather")
        cut = parts.scatter({"x": weft.arange(4), "y": (weft.arange(4), 3)}, [0, 1])
        assert cut[1]["x"].tolist() == [2, 3] and cut[1]["y"][1] == 3
        assert parts.gather([c["x"] for c in cut], 0).tolist() == [0, 1, 2, 3]


def test_values_of_parameters_are_read_where_nothing_is_recorded():
    x = weft.nn.Parameter(weft.ones(2))
    with weft.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0] and np.asarray(x).tolist() == [1.0, 1.0]
    with pytest.raises(weft.errors.AutogradError):
        x.numpy()


def test_module_dicts_are_put_into_one_another():
    one = weft.nn.ModuleDict({"a": weft.nn.ReLU()})
    one.update(weft.nn.ModuleDict({"b": weft.nn.Tanh()}))
    assert list(weft.nn.ModuleDict(one)) == ["a", "b"]
