"""One comparison for every layer: the same module in PyTorch and in Weft, with the same weights and inputs.

`check_module` compares representation, state dict, outputs, gradients of inputs and parameters, and the state after
the call; `check_cases` does so for a table of configurations and tells pytest how many it covered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import weft

TOLERANCE = {torch.float64: (1e-6, 1e-8), torch.float32: (2e-4, 2e-5)}


@dataclasses.dataclass(frozen=True)
class Case:
    """Constructor arguments and the inputs of one call: a shape stands for a normal sample, else the value itself."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: tuple[Any, ...] = ()
    call: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def case(*inputs: Any, args: Sequence[Any] = (), call: Mapping[str, Any] | None = None, **kwargs: Any) -> Case:
    """`case((2, 3), args=(3, 4), bias=False)`: Layer(3, 4, bias=False) called on a (2, 3) sample."""
    return Case(tuple(args), kwargs, inputs, call or {})


# ------------------------------------------------------------------------------------------- between the two


def map_tree(fn: Callable[[Any], Any], tree: Any) -> Any:
    """Apply `fn` to every leaf of tuples, lists and dictionaries."""
    if isinstance(tree, dict):
        return {key: map_tree(fn, value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)) and not isinstance(tree, (torch.Size, weft.Size)):
        parts = [map_tree(fn, value) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return fn(tree)


def leaves(tree: Any) -> list[Any]:
    """The tensors in a tree of outputs, in order."""
    found: list[Any] = []
    map_tree(lambda v: found.append(v) if isinstance(v, (torch.Tensor, weft.Tensor)) else None, tree)
    return found


def to_weft(value: Any) -> Any:
    """A torch tensor (or dtype) as ours, with its own memory; anything else as it is."""
    if isinstance(value, torch.dtype):
        return getattr(weft, str(value).removeprefix("torch."))
    if not isinstance(value, torch.Tensor):
        return value
    ours = weft.from_numpy(value.detach().numpy().copy())
    return ours.requires_grad_() if value.requires_grad else ours


def to_numpy(value: Any) -> np.ndarray:
    return value.detach().numpy()


def sample(value: Any, dtype: torch.dtype, requires_grad: bool) -> Any:
    """An input from its description: a tuple of sizes becomes a normal sample, a floating tensor takes `dtype`."""
    if isinstance(value, tuple) and all(isinstance(size, int) for size in value):
        value = torch.randn(value)
    if not isinstance(value, torch.Tensor):
        return map_tree(lambda v: sample(v, dtype, requires_grad), value) if isinstance(value, (tuple, list)) else value
    if not value.is_floating_point():
        return value
    return value.detach().to(dtype).clone().requires_grad_(requires_grad)


def load_weights(theirs: torch.nn.Module, ours: weft.nn.Module) -> None:
    """Copy PyTorch's state dict into our module; every key and shape must match."""
    report = ours.load_state_dict({key: to_weft(value) for key, value in theirs.state_dict().items()})
    assert not report.missing_keys and not report.unexpected_keys


# ------------------------------------------------------------------------------------------- the comparison


def assert_close(got: Any, want: Any, what: str, tolerance: tuple[float, float]) -> None:
    got, want = to_numpy(got), to_numpy(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, PyTorch has {want.shape}"
    assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, PyTorch has {want.dtype}"
    np.testing.assert_allclose(got, want, *tolerance, err_msg=what)


def compare_state(theirs: torch.nn.Module, ours: weft.nn.Module, what: str, tolerance: tuple[float, float]) -> None:
    want, got = theirs.state_dict(), ours.state_dict()
    assert list(got) == list(want), f"{what}: keys {list(got)}, PyTorch has {list(want)}"
    for key, value in want.items():
        assert_close(got[key], value, f"{what} {key}", tolerance)


def compare_gradients(
    outputs: tuple[list[Any], list[Any]], inputs: tuple[list[Any], list[Any]], tolerance: tuple[float, float]
) -> None:
    """Pull the same random direction back through both modules and compare what arrives at `inputs` (theirs, ours)."""
    theirs, ours = outputs
    places = [i for i, value in enumerate(theirs) if value.requires_grad]
    if not places or not inputs[0]:
        return
    directions = [torch.randn_like(theirs[i]) for i in places]
    want = torch.autograd.grad([theirs[i] for i in places], inputs[0], directions, allow_unused=True)
    ours_at = [ours[i] for i in places]
    got = weft.autograd.grad(ours_at, inputs[1], [to_weft(d) for d in directions], allow_unused=True)
    for number, (mine, reference) in enumerate(zip(got, want, strict=True)):
        absent = torch.zeros_like(inputs[0][number])
        mine = to_weft(absent) if mine is None else mine
        assert_close(mine, absent if reference is None else reference, f"gradient {number}", tolerance)


def check_module(
    theirs: torch.nn.Module,
    ours: weft.nn.Module,
    inputs: Sequence[Any],
    call: Mapping[str, Any] | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    train: bool = True,
    grad: bool = True,
    compare_repr: bool = True,
    tolerance: tuple[float, float] | None = None,
) -> None:
    """Same weights, same inputs (and keyword inputs `call`) → same outputs, gradients, state and representation."""
    tolerance = tolerance or TOLERANCE[dtype]
    if compare_repr:
        assert repr(ours).replace("weft.", "torch.") == repr(theirs)
    theirs.to(dtype).train(train)
    ours.to(to_weft(dtype)).train(train)
    load_weights(theirs, ours)
    their_inputs = [sample(value, dtype, grad) for value in inputs]
    their_call = {key: sample(value, dtype, grad) for key, value in (call or {}).items()}
    our_inputs, our_call = map_tree(to_weft, their_inputs), map_tree(to_weft, their_call)
    want, got = theirs(*their_inputs, **their_call), ours(*our_inputs, **our_call)
    want_leaves, got_leaves = leaves(want), leaves(got)
    assert len(got_leaves) == len(want_leaves)
    for number, (mine, reference) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        assert_close(mine, reference, f"output {number}", tolerance)
    if grad:
        their_leaves = [*leaves([their_inputs, their_call]), *theirs.parameters()]
        our_leaves = [*leaves([our_inputs, our_call]), *ours.parameters()]
        keep = [i for i, value in enumerate(their_leaves) if value.requires_grad]
        at = ([their_leaves[i] for i in keep], [our_leaves[i] for i in keep])
        compare_gradients((want_leaves, got_leaves), at, tolerance)
    compare_state(theirs, ours, "state after the call", tolerance)


def check_cases(
    name: str, cases: Sequence[Case], record_property: Callable[[str, Any], None] | None = None, **options: Any
) -> None:
    """`check_module` for `nn.<name>` in every configuration; the failing one is named."""
    for number, one in enumerate(cases):
        torch.manual_seed(number)
        weft.manual_seed(number)
        theirs = getattr(torch.nn, name)(*one.args, **one.kwargs)
        ours = getattr(weft.nn, name)(*map_tree(to_weft, one.args), **map_tree(to_weft, dict(one.kwargs)))
        try:
            check_module(theirs, ours, one.inputs, one.call, **options)
        except Exception as error:
            raise AssertionError(f"{name}{one}: {error}") from error
    if record_property is not None:
        record_property("cases", len(cases))
