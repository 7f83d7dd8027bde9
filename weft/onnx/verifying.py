"""An exported model run by somebody else: ONNX Runtime, or the reference of the onnx package."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

from ..errors import ConditionError
from ..runtime.extras import extra
from ..tape.modes import no_grad
from ..tensor import Tensor
from ..utils.pytree import tree_flatten

__all__ = ["compare", "run_elsewhere"]

RTOL = ATOL = 1e-4


def run_elsewhere(source: Any, inputs: dict[str, np.ndarray]) -> list[Any]:
    """The outputs that ONNX Runtime computes, or the onnx package's reference where that is not installed."""
    if importlib.util.find_spec("onnxruntime") is not None:
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        given = source if isinstance(source, bytes) else str(source)
        return runtime.InferenceSession(given, options, providers=["CPUExecutionProvider"]).run(None, inputs)
    onnx = extra("onnx", "verify=True needs")
    reference = extra("onnx.reference", "verify=True needs")
    model = onnx.load_model_from_string(source) if isinstance(source, bytes) else onnx.load(str(source))
    return reference.ReferenceEvaluator(model).run(None, inputs)


def compare(source: Any, request: Any) -> None:
    """Raise ConditionError where the exported model computes something else than the model itself."""
    onnx = extra("onnx", "verify=True needs")
    onnx.checker.check_model(source if isinstance(source, bytes) else str(source), full_check=True)
    inputs = {name: x.detach().numpy() for name, x in zip(request.input_names, request.tensors, strict=True)}
    found = run_elsewhere(source, inputs)
    with request._mode(), no_grad():
        wanted = [x for x in tree_flatten(request.model(*request.args, **request.kwargs))[0] if isinstance(x, Tensor)]
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not np.allclose(one, other.detach().numpy(), rtol=RTOL, atol=ATOL, equal_nan=True):
            apart = float(np.max(np.abs(np.asarray(one, np.float64) - other.detach().numpy())))
            raise ConditionError(f"onnx.export: output {number} of the exported model differs by up to {apart:.3g}")
