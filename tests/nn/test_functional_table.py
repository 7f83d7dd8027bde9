"""Every sampled function of `weft.nn.functional` against PyTorch, finite differences and loops."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import weft
import weft.nn.functional as ours
from tests.ops.harness import laid_out
from tests.ops.samples.base import S, T
from weft.autograd.check import gradcheck, gradgradcheck
from weft.func import vmap

from .functional_samples import SAMPLES, UNSAMPLED

theirs = torch.nn.functional
FILES = ("activation", "attention", "ctc", "dropout", "embedding", "entropy", "loss", "margin", "norm")
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-2, "bfloat16": 1e-1}
COSTLY = {"multi_head_attention_forward", "scaled_dot_product_attention"}  # one second derivative is enough
KINKED = {"l1_loss"}  # second derivatives exist, but finite differences straddle a kink of the first


def drawn(call: S, dtype: str, seed: int = 0) -> tuple[list[Any], dict[str, Any], list[bool]]:
    """The arguments as arrays, and for each positional or keyword array whether it is differentiated."""
    rng = np.random.default_rng(seed)
    wanted = [x.kind == "float" for x in (*call.args, *call.kwargs.values()) if isinstance(x, T)]
    draw = lambda x: x.draw(rng, dtype) if isinstance(x, T) else x
    return [draw(a) for a in call.args], {k: draw(v) for k, v in call.kwargs.items()}, wanted


def as_torch(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.astype(np.float32)).bfloat16()
    return torch.from_numpy(x.copy())


def as_ours(x: Any) -> Any:
    return weft.tensor(x) if isinstance(x, np.ndarray) else x


def parts(result: Any) -> list[Any]:
    return [r for r in (result if isinstance(result, tuple) else (result,)) if r is not None]


def plain(x: Any) -> np.ndarray:
    return x.detach().double().numpy() if x.is_floating_point() else x.numpy()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", SAMPLES)
def test_values_and_types_are_those_of_pytorch(name: str, dtype: str) -> None:
    for number, call in enumerate(SAMPLES[name]):
        args, kwargs, _ = drawn(call, dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = getattr(theirs, name)(*map(as_torch, args), **{k: as_torch(v) for k, v in kwargs.items()})
            except (RuntimeError, NotImplementedError):
                continue  # PyTorch has no kernel for this type
            got = getattr(ours, name)(*map(as_ours, args), **{k: as_ours(v) for k, v in kwargs.items()})
        for mine, reference in zip(parts(got), parts(expected), strict=True):
            assert mine.dtype.name == str(reference.dtype).removeprefix("torch."), (number, call)
            bound = TOLERANCE[dtype] * max(1.0, float(np.nanmax(np.abs(plain(reference)), initial=0.0)))
            np.testing.assert_allclose(
                plain(mine), plain(reference), TOLERANCE[dtype], bound, err_msg=f"{number} {call}"
            )


def laid(x: Any, layout: str) -> Any:
    """An array of the drawn type with other strides; integers and masks stay as they are."""
    return laid_out(x, layout) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def with_gradients(function: Any, convert: Any, args: list[Any], kwargs: dict[str, Any], wanted: list[bool]) -> Any:
    """Differentiable results of a call, and the gradients of Σ cos(k) yₖ with respect to the wanted inputs."""
    values = [convert(v) for v in (*args, *kwargs.values())]
    flags = iter(wanted)
    leaves = [v.requires_grad_() for v in values if hasattr(v, "requires_grad_") and next(flags)]
    results = parts(function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True))))
    for result in results:
        if result.requires_grad:
            weights = convert(np.cos(np.arange(result.numel(), dtype=np.float64)).reshape(tuple(result.shape)))
            result.backward(weights, retain_graph=True)
    return results, [None if leaf.grad is None else leaf.grad for leaf in leaves]


@pytest.mark.parametrize("name", [n for n in SAMPLES if n != "rrelu"])  # random slopes
def test_outputs_and_gradients_are_those_of_pytorch(name: str, record_property: Any) -> None:
    """float64, every sample with its tensors contiguous, transposed and stepped: at least six configurations."""
    cases = 0
    for call in SAMPLES[name]:
        for layout in ("contiguous", "transposed", "stepped"):
            args, kwargs, wanted = drawn(call, "float64")
            args, kwargs = [laid(a, layout) for a in args], {k: laid(v, layout) for k, v in kwargs.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected, slopes, wanted = torch_answer(name, args, kwargs, wanted)
                if expected is None:
                    continue
                found, ours_slopes = with_gradients(getattr(ours, name), as_ours_strided, args, kwargs, wanted)
            cases += 1
            for mine, reference in zip((*found, *ours_slopes), (*expected, *slopes), strict=True):
                if mine is None or reference is None:
                    filled = mine if mine is not None else reference
                    assert filled is None or not np.any(plain(filled)), (call, layout)
                    continue
                np.testing.assert_allclose(plain(mine), plain(reference), 1e-7, 1e-9, err_msg=f"{call} {layout}")
    assert cases >= 6
    record_property("cases", cases)


def torch_answer(name: str, args: list[Any], kwargs: dict[str, Any], wanted: list[bool]) -> tuple[Any, Any, list[bool]]:
    """PyTorch's results and gradients; of the first input alone where it refuses the others (weights of a loss), None
    where it refuses the strides."""
    for flags in (wanted, [True] + [False] * (len(wanted) - 1)):
        try:
            return *with_gradients(getattr(theirs, name), as_torch_strided, args, kwargs, flags), flags
        except RuntimeError:
            continue
    return None, None, wanted


def as_torch_strided(x: Any) -> Any:
    return torch.from_numpy(x) if isinstance(x, np.ndarray) else x


def as_ours_strided(x: Any) -> Any:
    return weft.from_numpy(x.copy("K")) if isinstance(x, np.ndarray) else x


def closed(name: str, call: S) -> tuple[Any, tuple[Any, ...]]:
    """The function of its differentiable arguments alone, and those arguments as leaves in float64."""
    args, kwargs, wanted = drawn(call, "float64")
    keys = [*range(len(args)), *kwargs]
    values = [as_ours(v) for v in (*args, *kwargs.values())]
    flags = iter(wanted)
    chosen = [i for i, v in enumerate(values) if isinstance(v, weft.Tensor) and next(flags)]

    def function(*inputs: Any) -> Any:
        filled = list(values)
        for place, value in zip(chosen, inputs, strict=True):
            filled[place] = value
        named = {k: v for k, v in zip(keys, filled, strict=True) if isinstance(k, str)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(parts(getattr(ours, name)(*filled[: len(args)], **named)))

    return function, tuple(values[i].requires_grad_() for i in chosen)


DIFFERENTIABLE = [name for name in SAMPLES if name != "one_hot"]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_finite_differences(name: str) -> None:
    for call in SAMPLES[name]:
        function, inputs = closed(name, call)
        assert not all(x.numel() for x in inputs) or gradcheck(function, inputs), call


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n not in KINKED])
def test_second_derivatives_are_finite_differences(name: str) -> None:
    for call in SAMPLES[name][: 1 if name in COSTLY else 3]:
        function, inputs = closed(name, call)
        assert not all(x.numel() for x in inputs) or gradgradcheck(function, inputs), call


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_batched_by_vmap_is_a_loop(name: str) -> None:
    for call in SAMPLES[name]:
        function, inputs = closed(name, call)
        several = tuple(weft.stack([x.detach(), x.detach() * 0.5, x.detach() * 0.9]) for x in inputs)
        batched = parts(vmap(function)(*several))
        rows = [parts(function(*(x[i] for x in several))) for i in range(3)]
        for k, together in enumerate(batched):
            one_by_one = np.stack([plain(row[k]) for row in rows])
            np.testing.assert_allclose(plain(together), one_by_one, 1e-10, 1e-10, err_msg=str(call))


def test_every_function_is_sampled_or_listed() -> None:
    # by path: `weft.nn.functional.dropout` is the function, not the file
    names = [n for file in FILES for n in importlib.import_module(f"weft.nn.functional.{file}").__all__]
    assert {n for n in names if not n.endswith("_")} == set(SAMPLES) | set(UNSAMPLED)
    assert all(getattr(ours, name).__doc__ for name in names)
