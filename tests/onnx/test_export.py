"""Models written as ONNX files: the checker takes them, ONNX Runtime computes the same, and they load back unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.onnx
from weft import nn
from weft.errors import ConditionError, InvalidValueError, OptionError, TraceError, UnsupportedError
from weft.nn import functional as F
from weft.utils.pytree import tree_flatten

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


def tensors_of(result: Any) -> list[weft.Tensor]:
    return [x for x in tree_flatten(result)[0] if isinstance(x, weft.Tensor)]


def agree(model: Any, content: bytes, *calls: tuple[weft.Tensor, ...]) -> None:
    """ONNX Runtime and the loaded module give what the model gives."""
    session = ort.InferenceSession(content)
    loaded = weft.onnx.load(content).eval()
    for args in calls:
        wanted = [x.detach().numpy() for x in tensors_of(model(*args))]
        names = [i.name for i in session.get_inputs()]
        theirs = session.run(None, {name: x.numpy() for name, x in zip(names, args, strict=True)})
        ours = [x.detach().numpy() for x in tensors_of(loaded(*args))]
        for a, b, c in zip(wanted, theirs, ours, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(c, a, rtol=1e-4, atol=1e-4)


def operators(content: bytes) -> list[str]:
    return [n.op_type for n in onnx.load_model_from_string(content).graph.node if n.op_type != "Constant"]


def convolutional() -> nn.Module:
    parts = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*parts, nn.Linear(64, 5), nn.GELU(), nn.LayerNorm(5), nn.Dropout(0.5)).eval()


def test_composites_become_the_operators_that_onnx_has_for_them() -> None:
    model, x = convolutional(), weft.randn(2, 3, 8, 8)
    content = weft.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},))
    onnx.checker.check_model(content, full_check=True)
    agree(model, content, (x,), (weft.randn(1, 3, 8, 8),), (weft.randn(7, 3, 8, 8),))
    wanted = "Conv BatchNormalization Relu MaxPool Reshape Gemm Gelu LayerNormalization".split()
    assert operators(content) == wanted  # and no Dropout


@pytest.mark.parametrize("opset", [17, 18, 20, 21, 22, 23])
def test_every_opset_that_is_offered(opset: int) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    model = nn.Sequential(nn.GroupNorm(2, 6), layer, nn.RMSNorm(8)).eval()
    x = weft.randn(2, 6, 8)
    content = weft.onnx.export(model, (x,), opset_version=opset, dynamic_shapes=({0: "batch"},))
    onnx.checker.check_model(content, full_check=True)
    assert onnx.load_model_from_string(content).opset_import[0].version == opset
    agree(model, content, (x,), (weft.randn(3, 6, 8),))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers_are_single_operators_over_any_length(layer: Any, bidirectional: bool) -> None:
    model = layer(3, 4, num_layers=2, bidirectional=bidirectional, batch_first=True).eval()
    x = weft.randn(2, 5, 3)
    content = weft.onnx.export(model, (x,), dynamic_shapes=({0: "batch", 1: "length"},))
    agree(model, content, (x,), (weft.randn(1, 1, 3),), (weft.randn(4, 9, 3),))
    assert operators(content).count(layer.__name__) == 2 * (1 + bidirectional)


FUNCTIONS = {
    "slices": lambda x: x[:, 1:-1:2, -1] + x[:, 0, None, 0],
    "mean over a dynamic axis": lambda x: x.mean(1) + x.sum((0, 1)) / x.shape[1],
    "positions": lambda x: x + weft.arange(x.shape[1]).unsqueeze(1),
    "flattened": lambda x: x.reshape(x.shape[0] * x.shape[1], -1) @ weft.ones(4, 2),
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "lower triangle": lambda x: weft.tril(x @ x.mT),
    "divided": lambda x: (x * 10).floor().to(weft.int64) // 3 + (x * 10).to(weft.int64) % 4,
    "where and comparisons": lambda x: weft.where((x > 0) & ~(x >= 1), x.sigmoid(), -x.abs().sqrt()),
    "sorted": lambda x: x.sort(-1).values + x.topk(4, -1).values,
    "gathered": lambda x: x.gather(2, x.argsort(2)) + x[..., [1, 0, 3, 2]],
    "joined": lambda x: weft.cat([x, x.flip(2), weft.stack([x[..., 0]] * 2, -1)], -1),
    "variance": lambda x: x.var(1) + weft.logsumexp(x, 1) + x.std((0, 2)).sum(),
    "cumulative": lambda x: x.cumsum(1) * weft.softmax(x, 1) + weft.log_softmax(x, 2),
    "resampled": lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
    "norms": lambda x: F.normalize(x, dim=-1) + F.softplus(x) + F.silu(x) + F.mish(x) + F.elu(x) + F.hardswish(x),
    "written in place": lambda x: _written(x),
    "scan": lambda x: weft.scan(lambda c, r: (c * 0.5 + r, c.sum(-1)), x[:, 0] * 0, x.transpose(0, 1)),
    "scan backwards": lambda x: weft.scan(
        lambda c, r: (c + r * x.mean((0, 1)), c), x[:, 0] * 0, x.mT.mT.transpose(0, 1), reverse=True
    ),
    "scan by a count": lambda x: weft.scan(lambda c, _: (c * 0.5, c.sum()), x, length=x.shape[1], reverse=True),
    "while": lambda x: weft.while_loop(lambda v: v.abs().max() < 100, lambda v: v * 3 + x.mean((0, 1)), x),
    "while never": lambda x: weft.while_loop(lambda v: v.sum() > 1e9, lambda v: v * 2, x),
    "while with a tree": lambda x: weft.while_loop(
        lambda s: s["t"] < x.shape[1],
        lambda s: {"t": s["t"] + 1, "y": s["y"] * 0.5 + x[:, :1].sum(), "kept": s["kept"]},
        {"t": weft.tensor(0), "y": x, "kept": x + 1},
    ),
    "while inside of a while": lambda x: weft.while_loop(
        lambda v: v.max() < 100,
        lambda v: weft.while_loop(lambda w: w.max() < v.max() + 1, lambda w: w.abs() * 1.5 + 0.5, v),
        x,
    ),
    "branches inside of a while": lambda x: weft.while_loop(
        lambda v: v.max() < 100, lambda v: weft.cond(v.sum() > 5, lambda w: w * 2, lambda w: w + 1, v), x.abs()
    ),
    "a count that is computed": lambda x: weft.fori_loop(
        0, (x.sum() * 0).to(weft.int64) + 4, lambda i, c: c + i * x, x
    ),
    "branches": lambda x: weft.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x),
    "einsum": lambda x: weft.einsum("bti,bsi->bts", x, x),
}


def _written(x: weft.Tensor) -> weft.Tensor:
    y = x.clone()
    y[:, :, 1:3] = 0
    y[..., 0] += 1
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_follow_their_dynamic_axes(name: str) -> None:
    function, x = FUNCTIONS[name], weft.randn(2, 5, 4)
    content = weft.onnx.export(function, (x,), dynamic_shapes=({0: "b", 1: "t"},), opset_version=20)
    onnx.checker.check_model(content, full_check=True)
    agree(function, content, (x,), (weft.randn(3, 6, 4),), (weft.randn(1, 4, 4),))


def test_a_layer_inside_of_a_while_loop_learns_after_loading() -> None:
    class Repeated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            step = lambda state: (state[0] + 1, self.layer(state[1]).tanh())
            return weft.while_loop(lambda state: state[0] < 3, step, (weft.tensor(0), x))[1]

    model, x = Repeated(), weft.randn(3, 4)
    content = weft.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},))
    assert operators(content)[-1] == "Loop"
    loaded = weft.onnx.load(content)
    for module in (model, loaded):
        module(x).pow(2).sum().backward()
    found = dict(loaded.named_parameters())
    assert list(found) == ["layer.weight", "layer.bias"]
    for name, parameter in model.named_parameters():
        weft.testing.assert_close(found[name].grad, parameter.grad)


def test_a_loop_over_a_dynamic_axis_is_refused_with_its_line() -> None:
    def function(x: weft.Tensor) -> weft.Tensor:
        total = x[:, 0]
        for t in range(1, x.shape[1]):
            total = total * x[:, t]
        return total

    with pytest.raises(TraceError, match=r"test_export.py:\d+ .*depends on the size of a dynamic axis"):
        weft.onnx.export(function, (weft.randn(2, 5),), dynamic_shapes=({1: "length"},))
    agree(function, weft.onnx.export(function, (weft.randn(2, 5),)), (weft.randn(2, 5),))


def test_what_cannot_be_written_says_why() -> None:
    x = weft.randn(3, 3)
    with pytest.raises(UnsupportedError, match=r"test_export.py:\d+.*Det"):
        weft.onnx.export(lambda x: weft.linalg.det(x), (x,))
    with pytest.raises(UnsupportedError, match="eval mode"):
        weft.onnx.export(lambda x: x + weft.rand(3), (x,))
    with pytest.raises(TraceError, match="Python decides by values"):
        weft.onnx.export(lambda x: x if x.sum() > 0 else -x, (x,))
    with pytest.raises(OptionError, match="17 to 23"):
        weft.onnx.export(nn.ReLU(), (x,), opset_version=9)
    with pytest.raises(InvalidValueError, match="different names"):
        weft.onnx.export(lambda x, y: x + y, (x, x), input_names=["x", "x"])


def test_bytes_are_the_same_every_time_and_after_loading() -> None:
    model, x = convolutional(), weft.randn(2, 3, 8, 8)
    first, second = (weft.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},)) for _ in range(2))
    assert first == second == weft.onnx.export(weft.onnx.load(first), (x,))


def test_names_of_parameters_inputs_outputs_and_modules() -> None:
    model, x = convolutional(), weft.randn(2, 3, 8, 8)
    content = weft.onnx.export(
        model,
        (x,),
        opset_version=21,
        input_names=["image"],
        output_names=["scores"],
        dynamic_axes={"image": {0: "batch"}},
    )
    graph = onnx.load_model_from_string(content).graph
    assert [i.name for i in graph.input] == ["image"] and [o.name for o in graph.output] == ["scores"]
    assert {t.name for t in graph.initializer} <= set(model.state_dict())
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    conv = next(n for n in graph.node if n.op_type == "Conv")
    assert conv.name == "/0/conv_2" or conv.name.startswith("/0/")
    assert {(p.key, p.value) for p in conv.metadata_props} == {("weft.scope", "0")}


def test_external_data_lie_beside_the_file(tmp_path: Any) -> None:
    model, x = nn.Linear(64, 64).eval(), weft.randn(2, 64)
    path = tmp_path / "model.onnx"
    weft.onnx.export(model, (x,), path, external_data=True, verify=True)
    assert (tmp_path / "model.onnx.data").stat().st_size >= 64 * 64 * 4 > path.stat().st_size
    onnx.checker.check_model(str(path))
    weft.testing.assert_close(weft.onnx.load(path)(x), model(x))


def test_verify_finds_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.onnx import verifying

    x = weft.randn(2, 3)
    weft.onnx.export(nn.Tanh(), (x,), verify=True)
    monkeypatch.setattr(verifying, "run_elsewhere", lambda source, inputs: [np.zeros((2, 3))])
    with pytest.raises(ConditionError, match="differs by up to"):
        weft.onnx.export(nn.Tanh(), (x,), verify=True)


def test_a_loaded_model_trains_compiles_and_can_be_watched() -> None:
    weft.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = weft.randn(32, 4), weft.randn(32, 1)
    loaded = weft.onnx.load(weft.onnx.export(model, (x,)))
    assert [n for n, _ in loaded.named_parameters()] == [n for n, _ in model.named_parameters()]
    optimizer = weft.optim.SGD(loaded.parameters(), lr=0.1)

    @weft.compile
    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(loaded(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [step(x, y).item() for _ in range(20)]
    assert losses[-1] < 0.7 * losses[0]
    seen = []
    for name, node in loaded.nodes.items():
        node.register_forward_hook(lambda m, args, out, name=name: seen.append(m.op_type))
    loaded(x)
    assert seen == ["Gemm", "Tanh", "Gemm"]
    exported = weft.onnx.load(weft.onnx.export(loaded, (x,)))
    weft.testing.assert_close(exported(x), loaded(x))  # the trained weights, not the old ones


class _TwoIsSpecial(nn.Module):
    def forward(self, x):
        return x.reshape(2 if len(x) == 2 else 1, -1).sum(0)


def test_size_that_was_given_is_no_exception_in_the_graph():
    """The three sizes of the trace are others than the given one, at which Python may go its own way."""
    with pytest.raises(TraceError, match="size"):
        weft.onnx.export(_TwoIsSpecial(), weft.ones(2, 3), dynamic_shapes=({0: "n"},))
