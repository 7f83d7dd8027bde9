"""Every supervised model exports with batch and length dynamic, runs the same elsewhere, loads back and exports unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.onnx
from weft.utils.pytree import tree_flatten

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from .models_table import TABLE, tensors  # noqa: E402

QUICK = {
    *("mlp", "mlp gelu", "polynomial regression"),
    *(f"{name} (vision)" for name in ("lenet", "resnet", "densenet", "convnext", "vit", "mobilenet_v2")),
    *(
        "sequence classifier",
        "sequence tagger",
        "language model",
        "wavenet",
        "tcn",
        "translation",
        "bert",
        "roberta-masked",
    ),
    *(
        "gpt2",
        "llama",
        "t5",
        "bart",
        "clip",
        "swin",
        "mixtral",
        "whisper",
        "anomaly detector",
        "albert",
        "mpnet",
        "opt",
    ),
}


def awake(model: weft.nn.Module) -> weft.nn.Module:
    """Weights and running statistics moved from where they start: zeros and ones hide mistakes."""
    with weft.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * weft.randn(parameter.shape))
        for name, buffer in model.named_buffers():
            if "running_" in name:
                buffer.add_(weft.rand(buffer.shape))
    return model


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in TABLE])
def test_model_exports_agrees_and_comes_back(name: str) -> None:
    weft.manual_seed(0)
    entry = TABLE[name]
    model = awake(entry.make().eval())
    content = weft.onnx.export(model, (), kwargs=tensors(entry.inputs(2, 6)), dynamic_shapes=entry.axes)
    onnx.checker.check_model(content, full_check=True)
    session, loaded = ort.InferenceSession(content), weft.onnx.load(content).eval()
    for batch, length in ((2, 6), (3, 7), (1, 5)):
        given = tensors(entry.inputs(batch, length))
        wanted = [x for x in tree_flatten(model(**given))[0] if isinstance(x, weft.Tensor)]
        theirs = session.run(None, {name: x.numpy() for name, x in given.items()})
        ours = loaded(**given)
        ours = [ours] if isinstance(ours, weft.Tensor) else ours
        for a, b, c in zip(wanted, theirs, ours, strict=True):
            np.testing.assert_allclose(b, a.detach().numpy(), rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(c.detach().numpy(), a.detach().numpy(), rtol=1e-4, atol=1e-4)
    assert weft.onnx.export(loaded, (), kwargs=given) == content
