"""Module and containers: the same small programs under PyTorch and Weft tell the same story."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import weft


def block(L):
    """A module with a parameter, a buffer, a non-persistent buffer, an empty place and parts."""

    class Block(L.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = L.nn.Parameter(L.ones(2, 3))
            self.register_parameter("nothing", None)
            self.register_buffer("count", L.zeros(1))
            self.register_buffer("scratch", L.zeros(1), persistent=False)
            self.inner = L.nn.Sequential(L.nn.Linear(3, 3), L.nn.Tanh())
            self.tied = self.inner[0]

        def forward(self, x):
            return self.inner(x) @ self.weight.T

    return Block()


def names(items):
    return [(name, tuple(value.shape)) for name, value in items]


def message(function, *kinds):
    try:
        function()
    except Exception as error:
        return next((k.__name__ for k in kinds if isinstance(error, k)), type(error).__name__)
    return "accepted"


def hook_story(L):
    model, story = block(L), []
    model.register_forward_pre_hook(lambda m, args: story.append("pre"))
    model.register_forward_hook(lambda m, args, out: story.append(("out", tuple(out.shape))))
    model.inner.register_forward_hook(lambda m, args, out: out * 2)
    first = model.register_forward_hook(lambda m, a, k, out: story.append(sorted(k)), with_kwargs=True, prepend=True)
    model.register_full_backward_pre_hook(lambda m, g: story.append(("back", tuple(g[0].shape))))
    model.register_full_backward_hook(lambda m, gi, go: story.append((tuple(gi[0].shape), tuple(go[0].shape))))
    out = model(L.ones(4, 3, requires_grad=True))
    out.sum().backward()
    first.remove()
    model(L.ones(4, 3, requires_grad=True))
    return story


def container_story(L):
    nn = L.nn
    seq = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    seq.append(nn.Tanh()).insert(1, nn.Sigmoid())
    del seq[2]
    modules = nn.ModuleList([nn.Linear(1, 1)])
    modules += [nn.ReLU()]
    modules.insert(0, nn.Tanh())
    table = nn.ModuleDict({"a": nn.Linear(1, 2)})
    table["b"] = nn.ReLU()
    values = nn.ParameterList([nn.Parameter(L.ones(2)), L.zeros(3)])
    named = nn.ParameterDict({"p": nn.Parameter(L.ones(1)), "q": L.ones(2)})
    return [
        [type(m).__name__ for m in seq],
        list(seq.state_dict()),
        [type(m).__name__ for m in modules],
        list(modules.state_dict()),
        list(table.state_dict()),
        list(table.keys()),
        names(values.named_parameters()),
        names(named.named_parameters()),
        len(seq[1:]),
        [type(m).__name__ for m in seq[-2:]],
        repr(seq),
        repr(table),
    ]


def loading_story(L):
    source, target = block(L), block(L)
    with L.no_grad():
        source.weight.fill_(5)
    state = source.state_dict()
    report = target.load_state_dict(state)
    partial = {k: v for k, v in state.items() if "inner" not in k} | {"extra": L.ones(1)}
    loose = target.load_state_dict(partial, strict=False)
    wrong = dict(state) | {"weight": L.ones(3, 3)}
    return [
        str(report),
        sorted(loose.missing_keys),
        sorted(loose.unexpected_keys),
        message(lambda: target.load_state_dict(partial), RuntimeError),
        message(lambda: target.load_state_dict(wrong), RuntimeError),
        message(lambda: target.load_state_dict([1]), TypeError),
        float(target.weight[0, 0]),
    ]


def copying_story(L):
    model = block(L)
    twin = copy.deepcopy(model)
    with L.no_grad():
        twin.weight.fill_(7)
    model.double()
    return [
        twin.tied is twin.inner[0],
        twin.tied.weight is twin.inner[0].weight,
        float(model.weight[0, 0]),
        str(model.weight.dtype).split(".")[1],
        str(model.count.dtype).split(".")[1],
        str(twin.weight.dtype).split(".")[1],
        model.weight.requires_grad,
    ]


STORIES = {
    "state": lambda L: [names(block(L).state_dict().items()), names(block(L).named_parameters())],
    "buffers": lambda L: names(block(L).named_buffers()),
    "modules": lambda L: [(n, type(m).__name__) for n, m in block(L).named_modules()],
    "duplicates": lambda L: [n for n, _ in block(L).named_modules(remove_duplicate=False)],
    "children": lambda L: [n for n, _ in block(L).named_children()],
    "paths": lambda L: [
        type(block(L).get_submodule("inner.1")).__name__,
        tuple(block(L).get_parameter("weight").shape),
    ],
    "bad path": lambda L: message(lambda: block(L).get_submodule("inner.9"), AttributeError),
    "modes": lambda L: [m.training for m in block(L).eval().modules()],
    "freeze": lambda L: [p.requires_grad for p in block(L).requires_grad_(False).parameters()],
    "apply": lambda L: (seen := [], block(L).apply(lambda m: seen.append(type(m).__name__)))[0],
    "no init": lambda L: message(
        lambda: type("M", (L.nn.Module,), {"__init__": lambda s: setattr(s, "p", L.nn.Parameter(L.ones(1)))})(),
        AttributeError,
    ),
    "wrong parameter": lambda L: message(lambda: setattr(block(L), "weight", L.ones(1)), TypeError),
    "dotted name": lambda L: message(lambda: block(L).register_buffer("a.b", L.ones(1)), KeyError),
    "empty name": lambda L: message(lambda: block(L).add_module("", None), KeyError),
    "taken name": lambda L: message(lambda: block(L).register_parameter("forward", None), KeyError),
    "no forward": lambda L: message(lambda: L.nn.Module()(1), NotImplementedError),
    "integer type": lambda L: message(lambda: block(L).to(L.int64), TypeError),
    "repr": lambda L: repr(block(L)),
    "hooks": hook_story,
    "containers": container_story,
    "loading": loading_story,
    "copying": copying_story,
}


@pytest.mark.parametrize("name", STORIES)
def test_same_story(name):
    assert STORIES[name](weft) == STORIES[name](torch)


def test_global_hooks_see_every_module():
    seen = []
    with (
        weft.nn.register_module_forward_pre_hook(lambda m, args: seen.append("pre")),
        weft.nn.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__)),
    ):
        weft.nn.Sequential(weft.nn.Tanh(), weft.nn.ReLU())(weft.ones(1))
    weft.nn.Tanh()(weft.ones(1))
    assert seen == ["pre", "pre", "Tanh", "pre", "ReLU", "Sequential"]


def test_pickling_keeps_values_and_sharing():
    model = weft.nn.Sequential(weft.nn.Linear(3, 3), weft.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    twin = pickle.loads(pickle.dumps(model))
    assert twin[1].weight is twin[0].weight
    np.testing.assert_array_equal(twin[0].weight.detach().numpy(), model[0].weight.detach().numpy())
