"""The onnx package's own cases of single operators, in memory, and why some are not held.

Cases are read once and by the thousand; a case is (model, inputs, outputs), every one of them compared in shape, type and value.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

import weft
import weft.onnx
from weft.dtypes import dtype
from weft.tensor import Tensor

RANDOM = "random numbers: another generator gives others"
PREVIEW = "an operator of the preview domain, which later versions may change"
HALF = "16-bit arithmetic rounded at other places: results differ by more than one step of the type"

EXCEPTIONS = {
    **dict.fromkeys(
        ["test_bernoulli", "test_bernoulli_double", "test_bernoulli_double_expanded", "test_bernoulli_expanded"], RANDOM
    ),
    **dict.fromkeys(["test_bernoulli_seed", "test_bernoulli_seed_expanded"], RANDOM),
    **dict.fromkeys([f"test_training_dropout{end}" for end in ("", "_mask", "_default", "_default_mask")], RANDOM),
    "test_linear_attention_fp16": HALF,
}


class Case(NamedTuple):
    name: str
    model: bytes
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float
    opset: int
    domains: frozenset[str]
    plain: bool  # whether all values are of element types that tensors have


def _value(x: Any) -> Any:
    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    if isinstance(x, onnx.SequenceProto):
        return numpy_helper.to_list(x)
    return numpy_helper.to_optional(x) if isinstance(x, onnx.OptionalProto) else x


def _is_plain(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(_is_plain, x))
    return x is None or np.asarray(x).dtype in dtype.by_numpy


@functools.cache
def cases() -> dict[str, Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = {}
        for case in collect_testcases(None):
            data = [([_value(x) for x in given], [_value(y) for y in wanted]) for given, wanted in case.data_sets]
            domains = frozenset(entry.domain for entry in case.model.opset_import)
            opset = max((e.version for e in case.model.opset_import if e.domain == ""), default=0)
            plain = all(_is_plain(given) and _is_plain(wanted) for given, wanted in data)
            found[case.name] = Case(
                case.name, case.model.SerializeToString(), data, case.rtol, case.atol, opset, domains, plain
            )
    return found


def reason(case: Case) -> str | None:
    """Why a case is not held; None where it is."""
    return PREVIEW if "ai.onnx.preview" in case.domains and "expanded" not in case.name else EXCEPTIONS.get(case.name)


def check(case: Case) -> None:
    model = weft.onnx.load(case.model)
    for given, wanted in case.data:
        found = model(*given)
        _compare([found] if len(wanted) == 1 else list(found), wanted, case.rtol, case.atol)


def _compare(found: Any, wanted: Any, rtol: float, atol: float) -> None:
    if isinstance(wanted, (list, tuple)):
        assert isinstance(found, (list, tuple)) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            _compare(one, other, rtol, atol)
        return
    if wanted is None:
        assert found is None
        return
    array, wanted = found.numpy() if isinstance(found, Tensor) else found, np.asarray(wanted)
    assert isinstance(array, np.ndarray) and array.shape == wanted.shape
    if wanted.dtype.kind in "OUS":
        assert array.tolist() == wanted.tolist()
        return
    assert array.dtype == wanted.dtype
    _compare_numbers(array, wanted, rtol, atol)


STEPS = {"bfloat16": 2.0**-6, "float16": 2.0**-9}  # two steps of the type: the reference rounds at other places


def _compare_numbers(array: np.ndarray, wanted: np.ndarray, rtol: float, atol: float) -> None:
    if array.dtype.kind in "iub":
        np.testing.assert_array_equal(array, wanted)
        return
    rtol = max(rtol, STEPS.get(wanted.dtype.name, 0.0))
    wide = wanted.astype(np.complex128 if wanted.dtype.kind == "c" else np.float64)
    largest = np.abs(wide[np.isfinite(wide)]).max(initial=0)  # sums of large numbers leave this much where 0 is meant
    np.testing.assert_allclose(array.astype(wide.dtype), wide, rtol=rtol, atol=max(atol, 1e-6 * largest))
