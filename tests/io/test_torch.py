"""Files that PyTorch wrote, read without it; memory shared with it."""

from __future__ import annotations

import collections
import io
import subprocess
import sys

import numpy as np
import pytest
import torch

import weft
from weft.io import from_torch, load_torch, to_torch

from .test_safetensors import raw

TYPES = [d.name for d in weft.dtype.by_name.values()]
FORMATS = [{}, {"pickle_protocol": 4}, {"pickle_protocol": 5}, {"_use_new_zipfile_serialization": False}]


def read(value, path, **options):
    torch.save(value, path, **options)
    return load_torch(path)


def same(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape)
    if theirs.numel() and not theirs.is_conj() and not theirs.is_neg():  # these are computed, so they are new memory
        assert ours.stride() == theirs.stride()
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.") and ours.requires_grad == theirs.requires_grad
    assert ours.detach().numpy().tobytes() == raw(theirs)


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_every_element_type(name, options, tmp_path):
    x = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, name))
    value = {"x": x, "scalar": x[1, 1, 1], "empty": x[:0], "offset": x[1, 1:], "steps": x[:, ::2, 1], "t": x.mT}
    found = read(value, tmp_path / "a", **options)
    for key in value:
        same(found[key], value[key])


@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_state_dict_of_a_model(options, tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.LSTM(3, 4))
    found = read(model.state_dict(), tmp_path / "a", **options)
    assert type(found) is collections.OrderedDict and dict(found._metadata) == dict(model.state_dict()._metadata)
    for key, value in model.state_dict().items():
        same(found[key], value)
    ours = weft.nn.Sequential(weft.nn.Conv2d(1, 2, 3), weft.nn.BatchNorm2d(2), weft.nn.LSTM(3, 4))
    assert repr(ours.load_state_dict(found)) == "<All keys matched successfully>"


def test_checkpoint_with_optimiser_and_plain_values(tmp_path):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    named = torch.nn.Parameter(torch.ones(2))
    named.note = "hung on by the user"
    value = {
        "optimizer": optimizer.state_dict(),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "with_state": named,
        "buffer": torch.nn.Buffer(torch.ones(2)),
        "leaf": torch.ones(2, requires_grad=True),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "negative": torch.tensor([1 + 2j]).conj().imag,
        "plain": [1, 2.5, "ä", None, True, (1, (2,)), b"\xff", {1, 2}, frozenset([3]), 1 - 2j, 2**70, bytearray(b"x")],
    }
    found = read(value, tmp_path / "a")
    assert found["plain"] == value["plain"] and type(found["parameter"]) is weft.nn.Parameter
    assert found["optimizer"]["param_groups"] == value["optimizer"]["param_groups"]
    same(found["optimizer"]["state"][0]["exp_avg"], value["optimizer"]["state"][0]["exp_avg"])
    for key in "parameter frozen with_state buffer leaf conjugate negative".split():
        same(found[key], value[key])
    special = read(
        {"size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda:1")}, tmp_path / "b"
    )
    assert special == {"size": weft.Size([2, 3]), "dtype": weft.bfloat16, "device": "cuda:1"}


@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_views_share_their_storage(options, tmp_path):
    base = torch.arange(6.0)
    found = read({"base": base, "view": base[2:4], "expanded": base[:1].expand(5)}, tmp_path / "a", **options)
    found["base"][2] = 9
    assert found["view"].tolist() == [9, 3] and found["expanded"].stride() == (0,)


@pytest.mark.parametrize("mapped", [False, True])
def test_zip_is_never_written_to(mapped, tmp_path):
    path = tmp_path / "a"
    torch.save(torch.ones(1000), path)
    content = path.read_bytes()
    x = load_torch(path, mmap=mapped)
    x.add_(1)
    assert path.read_bytes() == content and load_torch(path)[0] == 1


def test_file_object_and_a_shared_list():
    shared = [torch.ones(1)]
    file = io.BytesIO()
    torch.save({"a": shared, "b": shared}, file)
    file.seek(0)
    found = load_torch(file)
    assert found["a"] is found["b"]


@pytest.mark.parametrize("name", TYPES)
def test_memory_is_shared_both_ways(name):
    ours = weft.as_tensor(np.arange(6).reshape(2, 3)).to(getattr(weft, name))
    theirs = to_torch(ours)
    assert str(theirs.dtype) == f"torch.{name}" and theirs.data_ptr() == ours.data_ptr()
    back = from_torch(theirs)
    assert back.data_ptr() == ours.data_ptr() and back.dtype is ours.dtype
    back.zero_()
    assert not theirs.any() and not ours.any()


def test_trees_strides_and_gradients():
    tree = {"a": [weft.ones(2, requires_grad=True), None], "b": (weft.arange(6.0).reshape(2, 3).T, 3)}
    theirs = to_torch(tree)
    assert theirs["b"][0].stride() == (1, 3) and not theirs["a"][0].requires_grad and theirs["a"][1] is None
    assert torch.equal(
        to_torch(weft.as_tensor(np.arange(3.0)[::-1])), torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)
    )
    state = from_torch(torch.nn.Linear(2, 3).state_dict())
    assert type(state) is collections.OrderedDict and state["weight"].shape == (3, 2)
    assert from_torch(torch.tensor([1j]).conj()).tolist() == [-1j]
    with pytest.raises(TypeError, match="from_torch: expected tensors"):
        from_torch(object())


def test_weft_never_imports_torch():
    program = (
        "import sys, weft\nassert 'torch' not in sys.modules\n"
        "try: weft.io.to_torch(weft.ones(1))\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("to_torch: PyTorch is not imported")
