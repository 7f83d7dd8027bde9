"""The base of all optimisers: groups, hooks, errors, copies; all as in PyTorch."""

from __future__ import annotations

import copy
import pickle
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import weft

DENSE = ["SGD", "ASGD", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Adam", "AdamW", "Adamax", "NAdam", "RAdam"]
DENSE += ["Adafactor", "Muon", "LBFGS"]


def ones(library: ModuleType, *shape: int) -> Any:
    return library.nn.Parameter(library.ones(*(shape or (2, 2))))


def with_gradient(library: ModuleType) -> Any:
    p = ones(library)
    p.grad = library.ones(2, 2)
    return p


@pytest.mark.parametrize("name", [*DENSE, "SparseAdam"])
def test_defaults_and_repr(name: str) -> None:
    ours, theirs = (getattr(library.optim, name)([ones(library)]) for library in (weft, torch))
    assert list(ours.defaults.items()) == list(theirs.defaults.items())
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()["param_groups"][0]) == list(theirs.state_dict()["param_groups"][0])


BAD_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *[(name, dict(lr=-1.0)) for name in [*DENSE, "SparseAdam"] if name != "LBFGS"],
    *[(name, dict(weight_decay=-1.0)) for name in DENSE if name not in ("LBFGS", "Rprop")],
    *[(name, dict(eps=-1.0)) for name in ("Adagrad", "Adadelta", "RMSprop", "Adam", "Adamax", "NAdam", "RAdam")],
    *[(name, dict(betas=(1.0, 0.9))) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam")],
    *[(name, dict(betas=(0.9, -0.1))) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam")],
    ("SGD", dict(momentum=-0.5)),
    ("SGD", dict(nesterov=True)),
    ("SGD", dict(nesterov=True, momentum=0.9, dampening=0.1)),
    ("Adagrad", dict(lr_decay=-1.0)),
    ("Adagrad", dict(initial_accumulator_value=-1.0)),
    ("Adadelta", dict(rho=1.5)),
    ("RMSprop", dict(momentum=-1.0)),
    ("RMSprop", dict(alpha=-1.0)),
    ("Rprop", dict(etas=(1.1, 1.2))),
    ("NAdam", dict(momentum_decay=-1.0)),
    ("Adafactor", dict(beta2_decay=1.0)),
    ("Adafactor", dict(eps=(-1.0, 1.0))),
    ("Adafactor", dict(eps=(None, -1.0))),
    ("Adafactor", dict(d=0.5)),
    ("Muon", dict(momentum=-1.0)),
    ("Muon", dict(adjust_lr_fn="other")),
]


@pytest.mark.parametrize(("name", "options"), BAD_OPTIONS, ids=[f"{n}-{next(iter(o))}" for n, o in BAD_OPTIONS])
def test_bad_options_raise_pytorchs_errors(name: str, options: dict[str, Any]) -> None:
    said = []
    for library in (weft, torch):
        with pytest.raises(ValueError) as caught:
            getattr(library.optim, name)([ones(library)], **options)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", [*DENSE, "SparseAdam"])
def test_a_rate_of_two_elements_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        getattr(weft.optim, name)([ones(weft)], lr=weft.tensor([0.1, 0.2]))


def test_muon_takes_matrices_only_and_adam_betas_of_one_kind() -> None:
    with pytest.raises(ValueError, match="only supports 2D parameters"):
        weft.optim.Muon([ones(weft, 3)])
    with pytest.raises(ValueError, match="both floats or both Tensors"):
        weft.optim.Adam([ones(weft)], betas=(0.9, weft.tensor(0.9)))
    with pytest.raises(RuntimeError, match="Adafactor does not support complex"):
        p = weft.nn.Parameter(weft.ones(2, dtype=weft.complex64))
        p.grad = weft.ones(2, dtype=weft.complex64)
        weft.optim.Adafactor([p]).step()
    with pytest.raises(ValueError, match=r"Complex params at indices \[\[0, 0\]\]"):
        weft.optim.SparseAdam([weft.nn.Parameter(weft.ones(2, dtype=weft.complex64))])


BAD_PARAMETERS = ["tensor", "empty", "not a leaf", "number", "text", "set", "twice", "half named", "named then not"]
BAD_PARAMETERS += ["not named then named"]


def _bad_parameters(library: ModuleType, kind: str) -> Any:
    p, q = ones(library), ones(library)
    return {
        "tensor": p,
        "empty": [],
        "not a leaf": [p * 2],
        "number": [3],
        "text": "ab",
        "set": [{"params": {p}}],
        "twice": [{"params": [p]}, {"params": [p]}],
        "half named": [("a", p), q],
        "named then not": [{"params": [("a", p)]}, {"params": [q]}],
        "not named then named": [{"params": [p]}, {"params": [("a", q)]}],
    }[kind]


@pytest.mark.parametrize("kind", BAD_PARAMETERS)
def test_bad_parameters_raise_pytorchs_errors(kind: str) -> None:
    raised = []
    for library in (weft, torch):
        with pytest.raises((TypeError, ValueError)) as caught:
            library.optim.SGD(_bad_parameters(library, kind))
        raised.append((caught.type, str(caught.value).replace("torch.FloatTensor", "Parameter")))
    assert issubclass(raised[0][0], raised[1][0]) and raised[0][1] == raised[1][1]


def test_the_same_parameter_twice_in_a_group_warns() -> None:
    p = ones(weft)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        weft.optim.SGD([p, p])


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_groups_and_loading(library: ModuleType) -> None:
    p, q = ones(library), ones(library)
    optimizer = library.optim.SGD([p], lr=0.1)
    optimizer.add_param_group({"params": q, "lr": 4})
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 4]
    with pytest.raises(TypeError, match="param_group must be a dict"):
        optimizer.add_param_group(3)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": q})
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict(library.optim.SGD([p]).state_dict())
    with pytest.raises(ValueError, match="doesn't match the size"):
        library.optim.SGD([p]).load_state_dict(library.optim.SGD([p, q]).state_dict())
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        library.optim.LBFGS([{"params": [p]}, {"params": [q]}])
    with pytest.raises(TypeError, match="closure"):
        library.optim.LBFGS([p]).step()


def test_required_options() -> None:
    required = weft.optim.optimizer.required
    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter lr"):
        weft.optim.Optimizer([ones(weft)], {"lr": required})


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_names(library: ModuleType) -> None:
    p, q = ones(library), ones(library)
    named = library.optim.Adam([("a", p), ("b", q)])
    assert named.param_groups[0]["param_names"] == ["a", "b"]
    assert next(iter(named.state_dict()["param_groups"][0])) == "param_names"
    plain = library.optim.Adam([p, q])
    saved = copy.deepcopy(plain.state_dict()), copy.deepcopy(named.state_dict())
    named.load_state_dict(saved[0])
    assert named.param_groups[0]["param_names"] == ["a", "b"]
    plain.load_state_dict(saved[1])
    assert plain.param_groups[0]["param_names"] == ["a", "b"]


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_step_hooks(library: ModuleType) -> None:
    optimizer, calls = library.optim.SGD([with_gradient(library)], lr=0.5), []
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append(("before", o, args[1:], kwargs)))
    optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append(("after", o, args[1:], kwargs)))

    def closure() -> float:
        calls.append("closure")
        return 3.0

    assert optimizer.step(closure) == 3.0
    assert [c if c == "closure" else c[0] for c in calls] == ["before", "closure", "after"]
    assert calls[0] == ("before", optimizer, (closure,), {})
    before.remove()
    assert optimizer.step() is None
    assert len(calls) == 4
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, closure), {}))
    assert optimizer.step() == 3.0
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_state_hooks(library: ModuleType) -> None:
    optimizer, calls = library.optim.SGD([with_gradient(library)], lr=0.5), []
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, d: {**d, "note": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, d: calls.append(d["note"]))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    optimizer.register_load_state_dict_pre_hook(lambda o, d: calls.append("first"), prepend=True)
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["save", "first", 1, "loaded"]


@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_an_optimizer_of_the_users_own(library: ModuleType) -> None:
    class Own(library.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    p.data = p.data - group["lr"] * p.grad
                    self.state[p]["count"] = self.state[p].get("count", 0) + 1

    p, calls = with_gradient(library), []
    optimizer = Own([p], lr=0.25)
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert p.tolist() == [[0.75, 0.75], [0.75, 0.75]] and calls == [1]
    assert optimizer.state_dict()["state"] == {0: {"count": 1}}


def test_an_optimizer_without_update_says_so() -> None:
    optimizer = weft.optim.Optimizer([with_gradient(weft)], {})
    with pytest.raises(NotImplementedError, match="defines neither"):
        optimizer.step()


def test_zero_grad() -> None:
    p = with_gradient(weft)
    optimizer, gradient = weft.optim.SGD([p]), p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]] and p.grad.data_ptr() == gradient.data_ptr()
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is None


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_copies_go_on_alike(way: Any) -> None:
    p = with_gradient(weft)
    optimizer = weft.optim.Adam([p], lr=0.1)
    optimizer.step()
    again, parameter = way((optimizer, p))
    parameter.grad = weft.ones(2, 2)
    assert again.param_groups[0]["params"][0] is parameter
    optimizer.step()
    again.step()
    assert p.tolist() == parameter.tolist()
    assert again.state[parameter]["step"].item() == 2


def test_loading_copies_and_converts() -> None:
    p = with_gradient(weft)
    first = weft.optim.Adam([p])
    first.step()
    q = weft.nn.Parameter(weft.ones(2, 2, dtype=weft.float64))
    second = weft.optim.Adam([q], lr=0.5)
    second.load_state_dict(first.state_dict())
    state = second.state[q]
    assert state["exp_avg"].dtype is weft.float64 and state["step"].dtype is weft.float32
    assert second.param_groups[0]["lr"] == 1e-3
    q.grad = weft.ones(2, 2, dtype=weft.float64)
    second.step()
    assert first.state[p]["step"].item() == 1 and np.allclose(first.state[p]["exp_avg"].numpy(), 0.1)


def test_loads_a_state_with_tensors_of_another_library() -> None:
    q = with_gradient(torch)
    theirs = torch.optim.Adam([q])
    theirs.step()
    p = weft.nn.Parameter(weft.from_numpy(q.detach().numpy().copy()))
    ours = weft.optim.Adam([p])
    ours.load_state_dict(theirs.state_dict())
    p.grad = weft.ones(2, 2)
    theirs.step()
    ours.step()
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6)


def test_a_state_of_an_older_version_gets_the_defaults() -> None:
    optimizer = weft.optim.Adam([with_gradient(weft)], amsgrad=True)
    saved = optimizer.state_dict()
    del saved["param_groups"][0]["decoupled_weight_decay"]
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is False


@pytest.mark.parametrize("name", DENSE)
def test_gradients_are_left_alone_and_nothing_is_recorded(name: str) -> None:
    p = with_gradient(weft)
    optimizer = getattr(weft.optim, name)([p])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step(lambda: weft.tensor(1.0))
    assert p.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert p.is_leaf and p.requires_grad
    assert not any(isinstance(v, weft.Tensor) and v.requires_grad for s in optimizer.state.values() for v in s.values())
