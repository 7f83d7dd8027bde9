"""ONNX files that are cut, lie about themselves, nest or point elsewhere: a Weft error, in bounded time and memory."""

from __future__ import annotations

import itertools
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.onnx
from weft.errors import MissingFileError, UnsupportedError, WeftError
from weft.io.errors import FileFormatError, HeaderError, LayoutError, OversizeError, TruncatedError, UnsafeNameError
from weft.onnx.schema import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    StringStringEntryProto,
    TensorProto,
    ValueInfoProto,
    make_attribute,
)
from weft.onnx.tensors import to_proto
from weft.onnx.wire import encode

SECONDS, BYTES = 5.0, 300 << 20


@pytest.fixture(autouse=True)
def bounded() -> Any:
    """Whatever happens, it happens quickly and in little memory."""
    tracemalloc.start()
    before = time.process_time()
    yield
    spent, (_, peak) = time.process_time() - before, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent < SECONDS and peak < BYTES


def model(nodes: list[NodeProto], **graph: Any) -> bytes:
    made = GraphProto(
        name="g", node=nodes, input=[ValueInfoProto(name="x")], output=[ValueInfoProto(name="y")], **graph
    )
    return packed(ModelProto(ir_version=9, graph=made, opset_import=[OperatorSetIdProto(domain="", version=20)]))


def packed(message: Any) -> bytes:
    return b"".join(bytes(piece) for piece in encode(message))


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> NodeProto:
    made = NodeProto(op_type=op, input=inputs, output=outputs, name=f"the {op}")
    made.attribute = [make_attribute(name, value) for name, value in attributes.items()]
    return made


@pytest.fixture(scope="module")
def whole() -> bytes:
    return weft.onnx.export(weft.nn.Sequential(weft.nn.Linear(4, 3), weft.nn.ReLU()), (weft.ones(2, 4),))


def test_every_cut_is_refused_or_is_a_smaller_file(whole: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(WeftError):
            weft.onnx.load(whole[:end])


def test_bytes_changed_at_random_never_do_anything_but_raise_wefts_errors(whole: bytes) -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            damaged[place] = random.integers(0, 256)
        try:
            weft.onnx.load(bytes(damaged))(weft.ones(2, 4))
        except WeftError:
            pass


@pytest.mark.parametrize("content", [b"", b"\x00", b"not a model at all", b"\xff" * 100, b"PK\x03\x04" + b"\0" * 50])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(FileFormatError):
        weft.onnx.load(content)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no such file"):
        weft.onnx.load(tmp_path / "none.onnx")


def test_huge_sizes_without_bytes_are_refused() -> None:
    lying = TensorProto(name="w", data_type=1, dims=[1 << 40, 1 << 20], raw_data=b"abcd")
    with pytest.raises(OversizeError, match="'w'"):
        weft.onnx.load(model([node("Add", ["x", "w"], ["y"])], initializer=[lying]))
    for dims, error in (([3], LayoutError), ([-1], LayoutError), ([1] * 100, LayoutError)):
        lying = TensorProto(name="w", data_type=1, dims=dims, raw_data=b"abcd")
        with pytest.raises(error):
            weft.onnx.load(model([node("Add", ["x", "w"], ["y"])], initializer=[lying]))
    with pytest.raises(HeaderError, match="element type 99"):
        weft.onnx.load(model([], initializer=[TensorProto(name="w", data_type=99, dims=[1], raw_data=b"a")]))


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ConstantOfShape", ["s"], ["y"])],
        [node("Expand", ["x", "s"], ["y"])],
        [node("Range", ["zero", "many", "one"], ["y"])],
        [node("Tile", ["x", "s2"], ["y"])],
        [node("Pad", ["x", "wide"], ["y"])],
    ],
    ids=lambda nodes: nodes[0].op_type,
)
def test_a_small_file_cannot_ask_for_all_memory(nodes: list[NodeProto]) -> None:
    numbers = {"s": [1 << 30, 1 << 30], "s2": [1 << 40], "zero": 0, "one": 1, "many": 1 << 50, "wide": [0, 1 << 50]}
    given = [to_proto(np.array(value, np.int64), name) for name, value in numbers.items()]
    with pytest.raises(OversizeError, match="elements at once"):
        weft.onnx.load(model(nodes, initializer=given))(weft.ones(1))


def test_cycles_unknown_names_and_names_made_twice() -> None:
    with pytest.raises(HeaderError, match="a cycle"):
        weft.onnx.load(model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]))
    with pytest.raises(HeaderError, match="'nowhere'"):
        weft.onnx.load(model([node("Relu", ["nowhere"], ["y"])]))
    with pytest.raises(HeaderError, match="made twice"):
        weft.onnx.load(model([node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"])]))
    with pytest.raises(HeaderError, match="returns 'y'"):
        weft.onnx.load(model([]))


def test_an_unknown_operator_is_named_with_opset_and_node() -> None:
    with pytest.raises(UnsupportedError, match=r"'Frobnicate' at opset 20, in node 'the Frobnicate'"):
        weft.onnx.load(model([node("Frobnicate", ["x"], ["y"])]))
    with pytest.raises(UnsupportedError, match="attribute 'speed' of operator Relu"):
        weft.onnx.load(model([node("Relu", ["x"], ["y"], speed=3)]))


def test_deep_nesting_is_refused() -> None:
    graph = GraphProto(name="g", node=[node("Identity", ["x"], ["y"])], output=[ValueInfoProto(name="y")])
    for _ in range(70):
        inner = node("If", ["x"], ["y"], then_branch=graph)
        graph = GraphProto(name="g", node=[inner], output=[ValueInfoProto(name="y")])
    with pytest.raises(HeaderError, match="deep"):
        weft.onnx.load(model(graph.node))
    bomb = b""
    for _ in range(5000):  # length-delimited fields inside of each other
        bomb = b"\x3a" + _varint(len(bomb)) + bomb
    with pytest.raises(WeftError):
        weft.onnx.load(bomb)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def test_functions_that_call_themselves_or_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = sys.modules["weft.onnx.load"]

    def function(name: str, calls: list[str]) -> FunctionProto:
        nodes = [
            NodeProto(op_type=call, domain="f", input=[a], output=[b])
            for call, (a, b) in zip(
                calls, itertools.pairwise(["x", *(f"v{k}" for k in range(len(calls) - 1)), "y"]), strict=True
            )
        ]
        return FunctionProto(name=name, domain="f", input=["x"], output=["y"], node=nodes)

    def made(functions: list[FunctionProto]) -> bytes:
        start = NodeProto(op_type="f0", domain="f", input=["x"], output=["y"])
        graph = GraphProto(name="g", node=[start], input=[ValueInfoProto(name="x")], output=[ValueInfoProto(name="y")])
        opsets = [OperatorSetIdProto(domain="", version=20), OperatorSetIdProto(domain="f", version=1)]
        return packed(ModelProto(ir_version=9, graph=graph, opset_import=opsets, functions=functions))

    with pytest.raises(HeaderError, match="calls itself"):
        weft.onnx.load(made([function("f0", ["f1"]), function("f1", ["f0"])]))
    last = FunctionProto(name="f30", domain="f", input=["x"], output=["y"], node=[node("Relu", ["x"], ["y"])])
    monkeypatch.setattr(loading, "MOST_NODES", 1000)
    exploding = [function(f"f{k}", [f"f{k + 1}"] * 10) for k in range(30)]
    with pytest.raises(OversizeError, match="functions written out"):
        weft.onnx.load(made([*exploding, last]))


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "", ".", "\0", "link"])
def test_external_data_cannot_leave_the_folder(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 16)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    entries = [StringStringEntryProto(key="location", value=location)]
    tensor = TensorProto(name="w", data_type=1, dims=[4], external_data=entries, data_location=1)
    (folder / "m.onnx").write_bytes(model([node("Add", ["x", "w"], ["y"])], initializer=[tensor]))
    with pytest.raises(UnsafeNameError, match="outside of the folder"):
        weft.onnx.load(folder / "m.onnx")


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ({"location": "w.bin", "offset": "8"}, TruncatedError),
        ({"location": "w.bin", "offset": "-4"}, HeaderError),
        ({"location": "w.bin", "offset": "9" * 40}, HeaderError),
        ({"location": "w.bin", "length": "4"}, LayoutError),
        ({"location": "other.bin"}, HeaderError),
    ],
)
def test_external_data_that_are_not_there(entries: dict[str, str], error: type[Exception], tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 16)
    told = [StringStringEntryProto(key=key, value=value) for key, value in entries.items()]
    tensor = TensorProto(name="w", data_type=1, dims=[4], external_data=told, data_location=1)
    content = model([node("Add", ["x", "w"], ["y"])], initializer=[tensor])
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(error):
        weft.onnx.load(tmp_path / "m.onnx")
    with pytest.raises(HeaderError, match="load it by its path"):
        weft.onnx.load(content)


def test_a_regular_expression_that_never_ends_is_refused() -> None:
    from weft.io.errors import FileFormatError

    content = model([node("RegexFullMatch", ["x"], ["y"], pattern="(a+)+b")])
    with pytest.raises(FileFormatError):
        weft.onnx.load(content)(np.array(["a" * 40], object))


def test_millions_of_empty_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.onnx.wire, "MOST", 20_000)
    content = b"\x3a" + _varint(2 * 21_000) + b"\x0a\x00" * 21_000
    with pytest.raises(OversizeError, match="parts"):
        weft.onnx.load(content)
