"""PyTorch's checkpoints with settings, NumPy's numbers and whole models beside the tensors."""

from __future__ import annotations

import argparse
import importlib

import numpy as np
import pytest
import torch

import weft
import weft.torch
from weft.io.errors import UnsafePickleError


@pytest.fixture
def checkpoint(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Conv1d(2, 2, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model[0](torch.ones(2, 3)).sum().backward()
    optimizer.step()
    tree = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "args": argparse.Namespace(lr=0.1, layers=[3, 2]),
        "best": np.float64(0.5),
        "counts": np.arange(3),
        "device": torch.device("cpu"),
        "kind": torch.float16,
        "weight": torch.nn.Parameter(torch.ones(2)),
    }
    torch.save(tree, tmp_path / "checkpoint.pt")
    torch.save(model, tmp_path / "model.pt")
    torch.save({"args": argparse.Namespace(lr=0.1), "x": torch.ones(2)}, tmp_path / "small.pt")
    return tmp_path, model


@pytest.fixture
def ours():
    with weft.torch.installed():
        found = importlib.import_module("torch")
        yield found
        found.serialization.clear_safe_globals()


def test_checkpoint_with_settings_is_read_when_it_is_trusted(checkpoint, ours):
    folder, theirs = checkpoint
    found = ours.load(folder / "checkpoint.pt", map_location="cpu", weights_only=False)
    assert (found["args"].layers, found["best"], found["counts"].tolist()) == ([3, 2], 0.5, [0, 1, 2])
    assert (found["device"], found["kind"]) == (weft.device("cpu"), weft.float16)
    assert isinstance(found["weight"], weft.nn.Parameter) and found["weight"].requires_grad
    model = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.ReLU(), weft.nn.Conv1d(2, 2, 1))
    model.load_state_dict(found["model"])
    optimizer = weft.optim.Adam(model.parameters())
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1
    np.testing.assert_array_equal(model[0].weight.detach().numpy(), theirs[0].weight.detach().numpy())


def test_without_trust_no_class_is_made(checkpoint, ours):
    folder, _ = checkpoint
    for options in ({}, {"weights_only": True}):
        with pytest.raises(UnsafePickleError, match=r"argparse\.Namespace"):
            ours.load(folder / "checkpoint.pt", **options)
    ours.serialization.add_safe_globals([argparse.Namespace])
    assert ours.load(folder / "small.pt")["args"].lr == 0.1
    with pytest.raises(UnsafePickleError, match="numpy"):
        ours.load(folder / "checkpoint.pt")


def test_whole_model_of_plain_layers(checkpoint, ours):
    folder, theirs = checkpoint
    model = ours.load(folder / "model.pt", weights_only=False)
    assert isinstance(model, weft.nn.Sequential) and list(model.state_dict()) == list(theirs.state_dict())
    x = np.random.RandomState(0).randn(4, 3).astype("f4")
    got, want = model[:2](weft.from_numpy(x)), theirs[:2](torch.from_numpy(x))
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5)
