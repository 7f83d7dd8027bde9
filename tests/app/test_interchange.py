"""`weft export --to onnx|torch` and `weft show model.onnx`, read by those they are written for."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from weft.data import load_digits

from .shell import in_pipe


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interchange")
    in_pipe("train", "digits-mlp", "--set", "epochs=1", "--set", "hidden=16", "--name", "one", cwd=folder)
    return folder


def test_a_run_goes_to_onnx_runtime_and_is_shown(place):
    runtime = pytest.importorskip("onnxruntime")
    done = in_pipe("export", "one", "--to", "onnx", "-o", "one.onnx", "--json", cwd=place)
    assert done.code == 0, done.err
    images = (load_digits()[0][:7] / 16).astype(np.float32)
    session = runtime.InferenceSession(str(place / "one.onnx"))
    given = session.get_inputs()[0]
    assert given.shape[0] == "batch"
    shape = [7 if n == "batch" else n for n in given.shape]
    theirs = session.run(None, {given.name: images.reshape(shape)})[0]
    ours = weft.onnx.load(place / "one.onnx")(weft.from_numpy(images.reshape(shape)))
    np.testing.assert_allclose(ours.detach().numpy(), theirs, atol=1e-5)
    told = json.loads(in_pipe("show", "one.onnx", "--json", cwd=place).out)
    assert told["parameters"] == json.loads(done.out)["numbers"] and told["operators"]["Gemm"] >= 2
    shown = in_pipe("show", "one.onnx", cwd=place).out
    assert "opset ai.onnx" in shown and "batch" in shown and "Gemm" in shown


def test_a_run_goes_to_torch_load(place):
    torch = pytest.importorskip("torch")
    assert in_pipe("export", "one", "--to", "torch", "-o", "one.pt", cwd=place).code == 0
    theirs, ours = torch.load(place / "one.pt", weights_only=True), weft.io.load_torch(place / "one.pt")
    assert list(theirs) == list(ours)
    for name, tensor in theirs.items():
        np.testing.assert_array_equal(tensor.numpy(), ours[name].numpy())


def test_a_missing_or_broken_file_is_misuse_or_said(place):
    assert in_pipe("show", "none.onnx", cwd=place).code == 2
    (place / "broken.onnx").write_bytes(b"\x00\x01nonsense")
    broken = in_pipe("show", "broken.onnx", cwd=place)
    assert broken.code == 1 and "Traceback" not in broken.err
