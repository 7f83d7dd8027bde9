"""Modules inside of modules, two thousand deep: everything that walks or calls them works."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

import weft
from weft import nn

DEPTH = 2000


def nested(outer_first: bool = False) -> nn.Module:
    if not outer_first:
        module = nn.Linear(3, 3)
        for _ in range(DEPTH):
            module = nn.Sequential(module)
        return module
    root = inner = nn.Sequential()
    for _ in range(DEPTH - 1):
        inner.append(nn.Sequential())
        inner = inner[0]
    inner.append(nn.Linear(3, 3))
    list(root.parameters())  # as an optimiser asks for them
    return root


USES: dict[str, Callable[[nn.Module], bool]] = {
    "forward": lambda m: m(weft.ones(2, 3)).shape == (2, 3),
    "parameters": lambda m: len(list(m.parameters())) == 2,
    "modules": lambda m: len(list(m.modules())) == DEPTH + 1,
    "state_dict": lambda m: [k.count(".") for k in m.state_dict()] == [DEPTH, DEPTH],
    "load_state_dict": lambda m: not m.load_state_dict(m.state_dict()).missing_keys,
    "repr": lambda m: repr(m).count("Sequential") == DEPTH,
    "train and eval": lambda m: m.train() is m and m.eval() is m and not any(p.training for p in m.modules()),
    "apply": lambda m: m.apply(lambda part: None) is m,
    "to": lambda m: next(m.to(weft.float64).parameters()).dtype is weft.float64,
    "deepcopy": lambda m: len(list(copy.deepcopy(m).modules())) == DEPTH + 1,
    "pickle": lambda m: len(list(pickle.loads(pickle.dumps(m)).modules())) == DEPTH + 1,
    "compile": lambda m: weft.compile(m)(weft.ones(2, 3)).shape == (2, 3),
}


@pytest.mark.parametrize("use", USES)
def test_deep_modules(use):
    assert USES[use](nested())


def test_modules_that_are_filled_from_outside():
    module = nested(outer_first=True)
    module(weft.ones(2, 3)).sum().backward()
    assert [p.grad.shape for p in module.parameters()] == [(3, 3), (3,)]


def test_shared_parts_are_named_once_unless_asked():
    shared = nn.Linear(2, 2)
    module = nn.Sequential(shared, nn.Sequential(shared, nn.ReLU()), shared)
    assert [name for name, _ in module.named_modules()] == ["", "0", "1", "1.1"]
    names = [name for name, _ in module.named_modules(remove_duplicate=False)]
    assert names == ["", "0", "1", "1.0", "1.1", "2"]
    assert [name for name, _ in module.named_modules(prefix="net")] == ["net", "net.0", "net.1", "net.1.1"]
