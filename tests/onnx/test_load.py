"""Loaded ONNX files as modules: names, buffers, gradients, compiled graphs, control flow, old opsets, frozen weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.onnx
from weft import nn
from weft.errors import ArgumentError

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

helper, FLOAT, INT64, BOOL = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def made(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], opset: int = 20, weights: Any = (), **more: Any
) -> bytes:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9, **more)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def value(name: str, *shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, array: Any) -> Any:
    return onnx.numpy_helper.from_array(np.asarray(array, np.float32), name)


def test_floats_are_parameters_and_settings_are_buffers() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2 * 36, 3)).eval()
    loaded = weft.onnx.load(weft.onnx.export(model, (weft.randn(2, 1, 8, 8),)))
    names = [n for n, _ in model.named_parameters()]
    assert sorted(n for n, _ in loaded.named_parameters()) == sorted(names)
    assert {n for n, _ in loaded.named_buffers()} == {"1.running_mean", "1.running_var"}
    loaded.load_state_dict({k: v for k, v in model.state_dict().items() if "num_batches" not in k})


def test_gradients_are_those_of_the_model() -> None:
    weft.manual_seed(0)
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).eval()
    x = weft.randn(2, 5, 8)
    loaded = weft.onnx.load(weft.onnx.export(model, (x,)))
    for f in (loaded, weft.compile(loaded)):
        loaded.zero_grad()
        model.zero_grad()
        (f(x) ** 3).sum().backward()
        (model(x) ** 3).sum().backward()
        theirs = dict(loaded.named_parameters())
        for name, parameter in model.named_parameters():
            np.testing.assert_allclose(theirs[name].grad.numpy(), parameter.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_inputs_by_place_by_name_with_defaults_and_mistakes() -> None:
    nodes = [helper.make_node("Sub", ["a", "b"], ["y"])]
    content = made(nodes, [value("a", 2), value("b", 2)], [value("y", 2)], weights=[weight("b", [1, 2])])
    loaded = weft.onnx.load(content)
    assert loaded(weft.tensor([5.0, 5.0])).tolist() == [4, 3]
    assert loaded(a=np.float32([5, 5]), b=weft.ones(2)).tolist() == [4, 4]
    with pytest.raises(ArgumentError, match="missing"):
        loaded()
    with pytest.raises(ArgumentError, match="no input 'c'"):
        loaded(weft.ones(2), c=1)
    with pytest.raises(ArgumentError, match="at most 2"):
        loaded(weft.ones(2), weft.ones(2), weft.ones(2))


def _branch(name: str, op: str) -> Any:
    return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [value(name, 3)])


@pytest.mark.parametrize("compiled", [False, True])
def test_branches_read_what_is_around_them(compiled: bool) -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=_branch("t", "Exp"), else_branch=_branch("e", "Neg")),
    ]
    content = made(nodes, [value("x", 3)], [value("y", 3)], weights=[weight("zero", 0)])
    loaded = weft.onnx.load(content)
    run = weft.compile(loaded) if compiled else loaded
    session = ort.InferenceSession(content)
    for x in (np.float32([1, 2, 3]), np.float32([-1, -2, 1]), np.float32([3, 2, 1])):
        np.testing.assert_allclose(run(weft.from_numpy(x)).numpy(), session.run(None, {"x": x})[0], rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_loops_carry_and_stack(compiled: bool) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["c", "w"], ["c2"]),
            helper.make_node("Add", ["c2", "x"], ["out"]),
            helper.make_node("Identity", ["go"], ["again"]),
            helper.make_node("ReduceSum", ["out"], ["row"], keepdims=0),
        ],
        "body",
        [value("i", kind=INT64), value("go", kind=BOOL), value("c", 3)],
        [value("again", kind=BOOL), value("out", 3), value("row")],
    )
    trips = onnx.numpy_helper.from_array(np.array(4), "n")
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["last", "rows"], body=body)]
    content = made(nodes, [value("x", 3)], [value("last", 3), value("rows", 4)], weights=[trips, weight("w", 0.5)])
    loaded = weft.onnx.load(content)
    x = np.float32([1, -2, 3])
    found = (weft.compile(loaded) if compiled else loaded)(weft.from_numpy(x))
    for one, other in zip(found, ort.InferenceSession(content).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-5)
    assert [name for name, _ in loaded.named_parameters()] == ["w"]


def test_a_loop_without_rounds_stacks_nothing() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Mul", ["c", "c"], ["out"])],
        "body",
        [value("i", kind=INT64), value("go", kind=BOOL), value("c", 3)],
        [value("again", kind=BOOL), value("out", 3), value("out", 3)],
    )
    trips = onnx.numpy_helper.from_array(np.array(0), "n")
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["last", "rows"], body=body)]
    content = made(nodes, [value("x", 3)], [value("last", 3), value("rows", None, 3)], weights=[trips])
    last, rows = weft.onnx.load(content)(weft.tensor([1.0, 2.0, 3.0]))
    assert last.tolist() == [1.0, 2.0, 3.0] and tuple(rows.shape) == (0, 3)


def test_functions_of_the_file_with_attributes_of_their_callers() -> None:
    opsets = [helper.make_opsetid("", 20)]
    leaky = helper.make_node("LeakyRelu", ["v"], ["u"])
    reference = leaky.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    function = helper.make_function(
        "mine", "Twice", ["v"], ["w"], [leaky, helper.make_node("Add", ["u", "u"], ["w"])], opsets, ["slope"]
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["h"], domain="mine", slope=0.5),
        helper.make_node("Twice", ["h"], ["y"], domain="mine", slope=0.25),
    ]
    content = made(
        nodes, [value("x", 3)], [value("y", 3)], functions=[function], opsets=[helper.make_opsetid("mine", 1)]
    )
    assert weft.onnx.load(content)(weft.tensor([1.0, -1.0, 0.0])).tolist() == [4.0, -0.5, 0.0]


def test_opsets_before_seven_go_through_the_converter() -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["y"], broadcast=1)]
    graph = helper.make_graph(nodes, "g", [value("x", 2, 3, 4), value("b", 4)], [value("y", 2, 3, 4)])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=4).SerializeToString()
    x, b = weft.randn(2, 3, 4), weft.randn(4)
    weft.testing.assert_close(weft.onnx.load(content)(x, b), x + b)


def test_frozen_weights_are_constants_and_nothing_is_computed_twice() -> None:
    model, x = nn.LSTM(3, 4, batch_first=True).eval(), weft.randn(2, 5, 3)
    content = weft.onnx.export(model, (x,))
    loaded = weft.onnx.load(content, frozen=True)
    assert not list(loaded.parameters()) and not loaded.training
    assert len(loaded.order) < len(weft.onnx.load(content).order) / 2
    for f in (loaded, weft.compile(loaded)):
        weft.testing.assert_close(f(x)[0], model(x)[0])


def test_a_loaded_model_can_be_summed_up_and_embedded(tmp_path: Path) -> None:
    weft.onnx.export(nn.Linear(4, 3), (weft.ones(2, 4),), tmp_path / "m.onnx")
    loaded = weft.onnx.load(tmp_path / "m.onnx")
    assert "Gemm(" in str(loaded)
    found = weft.onnx.summary(tmp_path / "m.onnx")
    assert found["inputs"] == {"input": "float32[2, 4]"} and found["parameters"] == 15
    whole = nn.Sequential(loaded, nn.ReLU()).eval()
    content = weft.onnx.export(whole, (weft.randn(2, 4),), dynamic_shapes=({0: "n"},))
    x = weft.randn(2, 4)
    weft.testing.assert_close(weft.onnx.load(content)(x), whole(x))
