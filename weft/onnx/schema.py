"""The messages of an ONNX file, with the numbers of their fields (onnx.proto of the ONNX project, IR version 13)."""

from __future__ import annotations

from typing import Any, ClassVar

from .wire import BYTES, DOUBLE, FLOAT, INT, STRING, UINT, Field, Message, many, one

__all__ = [
    "AttributeProto",
    "Dimension",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "OperatorSetIdProto",
    "StringStringEntryProto",
    "TensorProto",
    "TensorShapeProto",
    "TensorTypeProto",
    "TypeProto",
    "ValueInfoProto",
    "attribute_value",
    "make_attribute",
]


class StringStringEntryProto(Message):
    key: str
    value: str
    fields: ClassVar[dict[int, Field]] = {1: one("key", STRING), 2: one("value", STRING)}


class OperatorSetIdProto(Message):
    domain: str | None
    version: int
    fields: ClassVar[dict[int, Field]] = {1: one("domain", STRING), 2: one("version", INT)}


class TensorProto(Message):
    """An array: its bytes in `raw_data`, in one of the lists, or in another file."""

    dims: Any
    data_type: int | None
    name: str | None
    raw_data: Any
    external_data: list[StringStringEntryProto]
    data_location: int | None
    fields: ClassVar[dict[int, Field]] = {
        1: many("dims", INT),
        2: one("data_type", INT),
        4: many("float_data", FLOAT),
        5: many("int32_data", INT),
        6: many("string_data", BYTES),
        7: many("int64_data", INT),
        8: one("name", STRING),
        9: one("raw_data", BYTES),
        10: many("double_data", DOUBLE),
        11: many("uint64_data", UINT),
        12: one("doc_string", STRING),
        13: many("external_data", StringStringEntryProto),
        14: one("data_location", INT),
        16: many("metadata_props", StringStringEntryProto),
    }


class SparseTensorProto(Message):
    values: TensorProto | None
    indices: TensorProto | None
    dims: Any
    fields: ClassVar[dict[int, Field]] = {
        1: one("values", TensorProto),
        2: one("indices", TensorProto),
        3: many("dims", INT),
    }


class Dimension(Message):
    dim_value: int | None
    dim_param: str | None
    fields: ClassVar[dict[int, Field]] = {
        1: one("dim_value", INT),
        2: one("dim_param", STRING),
        3: one("denotation", STRING),
    }


class TensorShapeProto(Message):
    dim: list[Dimension]
    fields: ClassVar[dict[int, Field]] = {1: many("dim", Dimension)}


class TensorTypeProto(Message):
    elem_type: int | None
    shape: TensorShapeProto | None
    fields: ClassVar[dict[int, Field]] = {1: one("elem_type", INT), 2: one("shape", TensorShapeProto)}


class TypeProto(Message):
    """The type of a value; of sequences and optional values the type inside."""

    tensor_type: TensorTypeProto | None
    sequence_type: Any
    optional_type: Any


class _Inner(Message):
    elem_type: TypeProto | None
    fields: ClassVar[dict[int, Field]] = {1: one("elem_type", TypeProto)}


TypeProto.fields = {
    1: one("tensor_type", TensorTypeProto),
    4: one("sequence_type", _Inner),
    6: one("denotation", STRING),
    8: one("sparse_tensor_type", TensorTypeProto),
    9: one("optional_type", _Inner),
}


class ValueInfoProto(Message):
    name: str
    type: TypeProto | None
    fields: ClassVar[dict[int, Field]] = {
        1: one("name", STRING),
        2: one("type", TypeProto),
        3: one("doc_string", STRING),
        4: many("metadata_props", StringStringEntryProto),
    }


class AttributeProto(Message):
    """One named option of a node; `type` says which of the other fields holds its value."""

    name: str
    type: int | None
    ref_attr_name: str | None


class NodeProto(Message):
    """One operation: names of what it reads and makes."""

    input: list[str]
    output: list[str]
    name: str | None
    op_type: str
    attribute: list[AttributeProto]
    domain: str | None
    overload: str | None
    fields: ClassVar[dict[int, Field]] = {
        1: many("input", STRING),
        2: many("output", STRING),
        3: one("name", STRING),
        4: one("op_type", STRING),
        5: many("attribute", AttributeProto),
        6: one("doc_string", STRING),
        7: one("domain", STRING),
        8: one("overload", STRING),
        9: many("metadata_props", StringStringEntryProto),
    }


class GraphProto(Message):
    """Nodes in an order in which inputs come before their users, with inputs, outputs and constants by name."""

    node: list[NodeProto]
    name: str | None
    initializer: list[TensorProto]
    sparse_initializer: list[SparseTensorProto]
    input: list[ValueInfoProto]
    output: list[ValueInfoProto]
    value_info: list[ValueInfoProto]
    fields: ClassVar[dict[int, Field]] = {
        1: many("node", NodeProto),
        2: one("name", STRING),
        5: many("initializer", TensorProto),
        10: one("doc_string", STRING),
        11: many("input", ValueInfoProto),
        12: many("output", ValueInfoProto),
        13: many("value_info", ValueInfoProto),
        15: many("sparse_initializer", SparseTensorProto),
        16: many("metadata_props", StringStringEntryProto),
    }


AttributeProto.fields = {
    1: one("name", STRING),
    2: one("f", FLOAT),
    3: one("i", INT),
    4: one("s", BYTES),
    5: one("t", TensorProto),
    6: one("g", GraphProto),
    7: many("floats", FLOAT),
    8: many("ints", INT),
    9: many("strings", BYTES),
    10: many("tensors", TensorProto),
    11: many("graphs", GraphProto),
    13: one("doc_string", STRING),
    14: one("tp", TypeProto),
    15: many("type_protos", TypeProto),
    20: one("type", INT),
    21: one("ref_attr_name", STRING),
    22: one("sparse_tensor", SparseTensorProto),
    23: many("sparse_tensors", SparseTensorProto),
}


class FunctionProto(Message):
    """An operation of the file's own, made of others."""

    name: str
    input: list[str]
    output: list[str]
    attribute: list[str]
    node: list[NodeProto]
    opset_import: list[OperatorSetIdProto]
    domain: str | None
    overload: str | None
    attribute_proto: list[AttributeProto]
    fields: ClassVar[dict[int, Field]] = {
        1: one("name", STRING),
        4: many("input", STRING),
        5: many("output", STRING),
        6: many("attribute", STRING),
        7: many("node", NodeProto),
        8: one("doc_string", STRING),
        9: many("opset_import", OperatorSetIdProto),
        10: one("domain", STRING),
        11: many("attribute_proto", AttributeProto),
        12: many("value_info", ValueInfoProto),
        13: one("overload", STRING),
        14: many("metadata_props", StringStringEntryProto),
    }


class ModelProto(Message):
    """A whole file."""

    ir_version: int | None
    producer_name: str | None
    graph: GraphProto | None
    opset_import: list[OperatorSetIdProto]
    functions: list[FunctionProto]
    metadata_props: list[StringStringEntryProto]
    fields: ClassVar[dict[int, Field]] = {
        1: one("ir_version", INT),
        2: one("producer_name", STRING),
        3: one("producer_version", STRING),
        4: one("domain", STRING),
        5: one("model_version", INT),
        6: one("doc_string", STRING),
        7: one("graph", GraphProto),
        8: many("opset_import", OperatorSetIdProto),
        14: many("metadata_props", StringStringEntryProto),
        25: many("functions", FunctionProto),
    }


_HOLDERS = dict(enumerate("f i s t g floats ints strings tensors graphs sparse_tensor sparse_tensors tp".split(), 1))


def attribute_value(attribute: AttributeProto) -> Any:
    """The value of an attribute: text as str, numbers as Python's, tensors and graphs as their messages."""
    holder = _HOLDERS.get(attribute.type or 0) or next(
        (name for name in _HOLDERS.values() if _held(getattr(attribute, name))), "ints"
    )
    value = getattr(attribute, holder)
    if holder == "s":
        return str(value if value is not None else b"", "utf-8", "surrogateescape")
    if holder == "strings":
        return [str(text, "utf-8", "surrogateescape") for text in value]
    if holder in ("floats", "ints"):
        return value.tolist() if hasattr(value, "tolist") else list(value)
    return value if value is not None else {"f": 0.0, "i": 0}.get(holder)


def _held(value: Any) -> bool:
    return value is not None and not (isinstance(value, list) and not value)


def make_attribute(name: str, value: Any) -> AttributeProto:
    """The attribute that holds a Python value, a tensor or a graph."""
    number, holder, content = _placed(value)
    return AttributeProto(**{"name": name, "type": number, holder: content})


def _placed(value: Any) -> tuple[int, str, Any]:
    if isinstance(value, (bool, int)):
        return 2, "i", int(value)
    if isinstance(value, float):
        return 1, "f", value
    if isinstance(value, str):
        return 3, "s", value.encode()
    if isinstance(value, TensorProto):
        return 4, "t", value
    if isinstance(value, GraphProto):
        return 5, "g", value
    values = list(value)
    if values and isinstance(values[0], str):
        return 8, "strings", [text.encode() for text in values]
    return (6, "floats", values) if values and isinstance(values[0], float) else (7, "ints", values)
