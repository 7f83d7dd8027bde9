"""Messages of a model to bytes and files; weights beside the file where it would be too large."""

from __future__ import annotations

import os
from pathlib import Path as Location

import numpy as np

from ..errors import InvalidValueError
from ..io.atomic import Path, replacing
from .module import OnnxModule
from .schema import GraphProto, ModelProto, TensorProto
from .tensors import external_entries, to_proto
from .wire import encode

__all__ = ["rewritten", "write"]

LARGEST = (1 << 31) - (1 << 20)  # protocol buffers end at 2 GB
ALIGNED = 4096  # where weights start, so that they can be mapped
SMALL = 1024  # bytes that stay in the file


def write(model: ModelProto, path: Path | None, external: bool | None) -> bytes:
    """The bytes of the model; also as a file, with another one for weights where they are too many or that was asked for."""
    graph = model.graph
    assert graph is not None
    weights = sum(memoryview(t.raw_data).nbytes for t in graph.initializer if t.raw_data is not None)
    if external is None:
        external = weights > LARGEST
    if external:
        if path is None:
            raise InvalidValueError("onnx.export: external data lie beside a file; give a path")
        model = _with_external(model, Location(os.fspath(path)))
    elif weights > LARGEST:
        raise InvalidValueError(
            f"onnx.export: {weights} bytes of weights do not fit a file of 2 GB; external_data=True"
        )
    pieces = encode(model)
    if path is not None:
        with replacing(path) as file:
            for piece in pieces:
                file.write(piece)
    return b"".join(pieces)


def _with_external(model: ModelProto, path: Location) -> ModelProto:
    """A copy whose large initialisers lie in `path`.data."""
    graph = model.graph
    assert graph is not None
    location = f"{path.name}.data"
    made = ModelProto(**{f.name: getattr(model, f.name) for f in ModelProto.fields.values()})
    made.graph = GraphProto(**{f.name: getattr(graph, f.name) for f in GraphProto.fields.values()})
    made.graph.initializer = []
    with replacing(path.with_name(location)) as file:
        for tensor in graph.initializer:
            length = memoryview(tensor.raw_data).nbytes if tensor.raw_data is not None else 0
            if length <= SMALL:
                made.graph.initializer.append(tensor)
                continue
            file.write(b"\0" * (-file.tell() % ALIGNED))
            entries = external_entries(location, file.tell(), length)
            file.write(tensor.raw_data)
            made.graph.initializer.append(
                TensorProto(
                    dims=tensor.dims,
                    data_type=tensor.data_type,
                    name=tensor.name,
                    external_data=entries,
                    data_location=1,
                )
            )
    return made


def rewritten(model: OnnxModule) -> ModelProto:
    """What a loaded model came from, with its parameters as they are now."""
    proto = model.proto
    assert proto.graph is not None
    made = ModelProto(**{f.name: getattr(proto, f.name) for f in ModelProto.fields.values()})
    made.graph = GraphProto(**{f.name: getattr(proto.graph, f.name) for f in GraphProto.fields.values()})
    made.graph.initializer = [_current(model, tensor) for tensor in proto.graph.initializer]
    return made


def _current(model: OnnxModule, tensor: TensorProto) -> TensorProto:
    place = model.held.get(tensor.name or "")
    if place is None:
        return to_proto(model.constants[tensor.name or ""], tensor.name)
    home, leaf = place
    return to_proto(np.asarray(getattr(home, leaf).array), tensor.name)
