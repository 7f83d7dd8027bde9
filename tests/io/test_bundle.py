"""`weft.save` and `weft.load`: trees come back as they were, shared memory stays shared, the rest is refused by place."""

from __future__ import annotations

import collections
import io
import math
import pickle

import numpy as np
import pytest
import safetensors.torch
import torch

import weft
from weft.errors import OptionError
from weft.nn import Buffer, Parameter


def through(tree, path):
    weft.save(tree, path)
    return weft.load(path)


PLAIN = [
    None, True, 0, -(2**80), 1.5, -0.0, 5e-324, 0.1, "", "ä\n\ud7ff", 1 - 2j, complex("nan+infj"), b"\x00\xff", (), [], {},
    (1, [2, {"a": (3,)}]), {1: "a", None: 2, (1, 2.5): [3], False: 0.5}, {"tensor": 1, "keys": 2, "float": "x"},
    {1, 2}, weft.Size([2, 3]), weft.bfloat16, collections.OrderedDict([("b", 1), ("a", 2)]), [math.inf, -math.inf],
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values(value, tmp_path):
    found = through(value, tmp_path / "a")
    assert type(found) is type(value) and repr(found) == repr(value)


@pytest.mark.parametrize("name", [d.name for d in weft.dtype.by_name.values()])
def test_every_element_type(name, tmp_path):
    x = weft.as_tensor(np.arange(6).reshape(2, 3)).to(getattr(weft, name))
    tree = {"x": x, "scalar": x[1, 2].clone(), "none": x[:0].clone()}
    found = through(tree, tmp_path / "a")
    for key in tree:
        assert found[key].dtype is tree[key].dtype and found[key].shape == tree[key].shape
        assert found[key].numpy().tobytes() == tree[key].numpy().tobytes()


def test_classes_gradients_and_modules(tmp_path):
    model = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.BatchNorm1d(3))
    tree = {
        "model": model.state_dict(),
        "parameter": Parameter(weft.ones(2)),
        "frozen": Parameter(weft.ones(2), requires_grad=False),
        "buffer": Buffer(weft.ones(2), persistent=False),
        "leaf": weft.ones(2, requires_grad=True),
        "computed": weft.ones(2, requires_grad=True) * 2,
    }
    found = through(tree, tmp_path / "a")
    assert [type(v) for v in found.values()] == [type(v) for v in tree.values()]
    assert [found[k].requires_grad for k in list(tree)[1:]] == [True, False, False, True, True]
    assert found["computed"].is_leaf and found["buffer"].persistent is False
    assert found["model"]._metadata == tree["model"]._metadata
    other = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.BatchNorm1d(3))
    other.load_state_dict(found["model"])
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert (a == b).all()


def test_shared_memory_stays_shared(tmp_path):
    base = weft.arange(12.0).reshape(3, 4)
    tree = {"base": base, "again": base, "row": base[1], "column": base[:, 2], "flip": weft.as_tensor(base.array[::-1])}
    tree |= {"bytes": weft.as_tensor(base.array.view(np.uint8)), "alone": weft.ones(2)}
    found = through(tree, tmp_path / "a")
    assert found["again"] is found["base"]
    found["base"][1, 2] = -1
    assert found["row"].tolist() == [4, 5, -1, 7] and found["column"].tolist() == [2, -1, 10]
    assert found["flip"].tolist()[1] == [4, 5, -1, 7] and found["column"].stride() == (4,)
    assert found["bytes"].numpy().view(np.float32)[1].tolist() == [4, 5, -1, 7]
    tied = through([base[0], base[2]], tmp_path / "b")
    assert tied[0].tolist() == [0, 1, 2, 3] and tied[1].tolist() == [8, 9, 10, 11]


def test_tied_weights_of_a_model(tmp_path):
    weight = Parameter(weft.ones(3, 3))
    found = through({"encoder": weight, "decoder": weight, "transposed": weight.detach().T}, tmp_path / "a")
    assert found["encoder"] is found["decoder"] and isinstance(found["encoder"], Parameter)
    found["encoder"].data.fill_(7)
    assert found["transposed"].tolist() == [[7] * 3] * 3


def test_any_reader_of_safetensors_can_look_inside(tmp_path):
    weft.save({"model": {"weight": weft.arange(3.0)}, "steps": [weft.ones(2), 4]}, tmp_path / "a")
    found = safetensors.torch.load_file(tmp_path / "a")
    assert set(found) == {"model.weight", "steps.0"} and torch.equal(found["model.weight"], torch.arange(3.0))
    safetensors.torch.save_file({"x": torch.ones(2)}, tmp_path / "b")
    assert weft.load(tmp_path / "b")["x"].tolist() == [1, 1]


Point = collections.namedtuple("Point", "x y")
itself: list = [1]
itself.append(itself)
REFUSED = [
    ({"a": [1, object()]}, r"obj\['a'\]\[1\] is a builtins.object"),
    ({"model": weft.nn.Linear(1, 1)}, r"obj\['model'\] is a .*Linear.*save its state_dict"),
    ([np.zeros(2)], r"obj\[0\] is a numpy.ndarray.*weft.as_tensor"),
    ((Point(1, 2),), r"obj\[0\] is a .*Point.*_asdict"),
    (collections.defaultdict(int), r"obj is a collections.defaultdict"),
    ({"f": len}, r"obj\['f'\] is a builtins.builtin_function_or_method"),
    ({"a": itself}, r"obj\['a'\]\[1\] contains itself"),
    ({frozenset(): 1}, r"key frozenset\(\)"),
    ([weft.nn.UninitializedParameter()], r"UninitializedParameter"),
]


@pytest.mark.parametrize("tree, says", REFUSED, ids=[s for _, s in REFUSED])
def test_anything_else_is_refused_by_place(tree, says, tmp_path):
    with pytest.raises(TypeError, match=says):
        weft.save(tree, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_file_objects_and_pytorchs_arguments(tmp_path):
    file = io.BytesIO()
    weft.save({"x": weft.ones(2)}, file)
    file.seek(0)
    assert weft.load(file, map_location="cpu", weights_only=True)["x"].tolist() == [1, 1]
    with pytest.raises(OptionError, match="never unpickles"):
        weft.load(file, weights_only=False)
    with pytest.raises(OptionError, match="map_location"):
        weft.load(file, map_location="cuda")


def test_optimiser_state_goes_through(tmp_path):
    model = weft.nn.Linear(3, 2)
    optimizer = weft.optim.Adam(model.parameters(), lr=0.1)
    model(weft.ones(4, 3)).sum().backward()
    optimizer.step()
    found = through(optimizer.state_dict(), tmp_path / "a")
    expected = pickle.loads(pickle.dumps(optimizer.state_dict()))
    assert found["param_groups"] == expected["param_groups"]
    for key, state in expected["state"].items():
        for name, value in state.items():
            assert weft.as_tensor(found["state"][key][name]).tolist() == weft.as_tensor(value).tolist()
