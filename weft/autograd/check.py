"""gradcheck: is the gradient that backward computes the slope of the function?

Each input is moved a little, element by element, and the change of the outputs is compared with
the Jacobian that the tape gives, row by row. `gradgradcheck` does the same with the gradient as the
function, and so checks second derivatives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import complex128, float64
from ..errors import AutogradError, InvalidValueError
from ..tape import tape
from ..tape.modes import enable_grad, no_grad
from ..tensor import Tensor, wrap
from ..utils import finite
from .batched import vmap
from .transforms import linearize

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(AutogradError):
    """A derivative that is not the slope of its function."""


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _checked(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _floating(outputs: Any) -> list[Tensor]:
    """The outputs that can carry gradients."""
    return [y for y in _as_tuple(outputs) if isinstance(y, Tensor) and (y.is_floating_point() or y.is_complex())]


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    if not any(_checked(x) for x in inputs):
        raise InvalidValueError(
            "gradcheck: expects at least one input tensor to require gradient, but none of them have requires_grad=True"
        )
    for number, x in enumerate(inputs):
        if not _checked(x):
            continue
        if x.dtype not in (float64, complex128):
            warnings.warn(
                f"gradcheck: input #{number} requires gradient and is not a double precision floating point or "
                f"complex, but {x.dtype}; finite differences will likely fail: convert it with .double()",
                stacklevel=4,
            )
        if finite.overlaps(x.array):
            raise AutogradError(
                f"gradcheck: input #{number} of shape {tuple(x.shape)} has elements that share memory (an expanded "
                "tensor), so they cannot be moved one by one; call .contiguous() first"
            )


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` agree with central differences, |a − n| ≤ atol + rtol |n|.

    True, or (with raise_exception) an error that shows both Jacobians. Inputs with
    requires_grad=True are checked; use float64. `check_forward_ad` compares Jv as well,
    `check_batched_grad` the gradient under vmap. `fast_mode` is accepted and checks everything all
    the same; `check_undefined_grad` and `masked` have nothing to do here.
    """
    inputs = _as_tuple(inputs)
    _check_inputs(inputs)
    try:
        numerical = _numerical(func, inputs, eps)
        if check_backward_ad:
            _check_backward(func, inputs, numerical, rtol, atol, nondet_tol, check_grad_dtypes)
        if check_forward_ad or check_batched_forward_grad:
            _check_forward(func, inputs, numerical, rtol, atol)
        if check_batched_grad:
            _check_batched(func, inputs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


# -------------------------------------------------------------------------------------- Jacobians


def _numerical(func: Callable, inputs: tuple[Any, ...], eps: float) -> list[list[Any]]:
    """Finite differences: [input][output] → (output, input) coordinates."""

    def call() -> list[Any]:
        with no_grad():
            return [y.array for y in _floating(func(*inputs))]

    return [finite.numerical_jacobian(call, x.array, eps) for x in inputs if _checked(x)]


def _analytical(func: Callable, inputs: tuple[Any, ...], check_dtypes: bool) -> list[list[Any]]:
    """The tape's Jacobians, one row a backward pass: [input][output] → (output, input) coordinates."""
    targets = [x for x in inputs if _checked(x)]
    with enable_grad():
        outputs = _floating(func(*inputs))
    found: list[list[Any]] = [[] for _ in targets]
    for y in outputs:
        rows: list[list[Any]] = [[] for _ in targets]
        for number in range(finite.coordinate_count(y.array)):
            seed = wrap(finite.unit(y.shape, y.dtype.np, number))
            grads = _pulled(y, targets, seed)
            for row, x, g in zip(rows, targets, grads, strict=True):
                if check_dtypes and g is not None and g.dtype is not x.dtype:
                    raise GradcheckError(f"gradcheck: expected a gradient of {x.dtype} for its input, got {g.dtype}")
                row.append(finite.coordinates((x._filled(0) if g is None else g).array))
        for column, row, x in zip(found, rows, targets, strict=True):
            column.append(finite.matrix(row, finite.coordinate_count(x.array)))
    return found


def _pulled(y: Tensor, targets: Sequence[Tensor], seed: Tensor) -> Sequence[Any]:
    if not y.requires_grad:
        return [None] * len(targets)
    grads = tape.grad(y, targets, seed, retain_graph=True, allow_unused=True)
    for x, g in zip(targets, grads, strict=True):
        if g is not None and g.shape != x.shape:
            raise GradcheckError(
                f"gradcheck: the gradient of an input of shape {tuple(x.shape)} has shape {tuple(g.shape)}"
            )
    return grads


def _check_backward(
    func: Callable,
    inputs: tuple[Any, ...],
    numerical: list[list[Any]],
    rtol: float,
    atol: float,
    nondet_tol: float,
    check_dtypes: bool,
) -> None:
    analytical = _analytical(func, inputs, check_dtypes)
    again = _analytical(func, inputs, False)
    for i, (ours, theirs, second) in enumerate(zip(analytical, numerical, again, strict=True)):
        for o, (a, n, b) in enumerate(zip(ours, theirs, second, strict=True)):
            _compare(a, n, rtol, atol, f"Jacobian mismatch for output {o} with respect to input {i}", "analytical")
            if finite.worst(a, b) > nondet_tol:
                raise GradcheckError(
                    f"gradcheck: backward is not reentrant: the same function gave different gradients for output "
                    f"{o} with respect to input {i} (by {finite.worst(a, b):.3g}, nondet_tol is {nondet_tol})"
                )


def _compare(ours: Any, numerical: Any, rtol: float, atol: float, what: str, label: str) -> None:
    if not finite.close(ours, numerical, rtol, atol):
        raise GradcheckError(
            f"gradcheck: {what},\nnumerical:\n{wrap(numerical)}\n{label}:\n{wrap(ours)}\n"
            f"The largest difference is {finite.worst(ours, numerical):.3g} (rows are coordinates of the output, "
            "columns of the input; a complex number has two, real and imaginary)."
        )


def _check_forward(
    func: Callable, inputs: tuple[Any, ...], numerical: list[list[Any]], rtol: float, atol: float
) -> None:
    """Jv for every unit vector v, as columns."""
    targets = [x.detach() for x in inputs if _checked(x)]

    def of_targets(*variables: Tensor) -> tuple[Tensor, ...]:
        given = iter(variables)
        return tuple(_floating(func(*(next(given) if _checked(x) else x for x in inputs))))

    _, push = linearize(of_targets, *targets)
    for i, x in enumerate(targets):
        columns: list[list[Any]] = [[] for _ in numerical[i]]
        for number in range(finite.coordinate_count(x.array)):
            tangents = [
                wrap(finite.unit(x.shape, x.dtype.np, number)) if other is x else other._filled(0) for other in targets
            ]
            for column, pushed in zip(columns, push(*tangents), strict=True):
                column.append(finite.coordinates(pushed.array))
        for o, (column, n) in enumerate(zip(columns, numerical[i], strict=True)):
            what = f"forward mode: Jacobian mismatch for output {o} with respect to input {i}"
            _compare(finite.matrix(column, n.shape[0]).T, n, rtol, atol, what, "forward")


def _check_batched(func: Callable, inputs: tuple[Any, ...]) -> None:
    """The backward pass under vmap against one pass for each seed."""
    targets = [x for x in inputs if _checked(x)]
    with enable_grad():
        outputs = [y for y in _floating(func(*inputs)) if y.requires_grad]
    for y in outputs:
        seeds = wrap(finite.random_array((2, *y.shape), y.dtype.np, seed=0))
        pull = lambda seed, y=y: tape.grad(
            y, targets, seed, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        together = vmap(pull)(seeds)
        for k in range(2):
            for ours, alone in zip(together, pull(wrap(seeds.array[k])), strict=True):
                if not finite.close(ours.array[k], alone.array, 1e-5, 1e-8):
                    raise GradcheckError(
                        f"gradcheck: the batched gradient differs from the single one:\n{wrap(ours.array[k])}\n{alone}"
                    )


# ----------------------------------------------------------------------------------- second order


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradient: (inputs, grad_outputs) ↦ Jᵀ grad_outputs."""
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        outputs = _floating(func(*inputs))
        made = [
            wrap(finite.random_array(y.shape, y.dtype.np, seed, not gen_non_contig_grad_outputs))
            for seed, y in enumerate(outputs)
        ]
    else:
        made = [g.detach() for g in _as_tuple(grad_outputs)]
    seeds = [g.requires_grad_() for g in made]
    count = len(seeds)

    def gradient(*args: Any) -> tuple[Any, ...]:
        given, seeds = args[:-count], args[-count:]
        outputs = [(y, g) for y, g in zip(_floating(func(*given)), seeds, strict=True) if y.requires_grad]
        targets = [x for x in given if _checked(x)]
        if not outputs or not targets:
            return ()
        ys, gs = zip(*outputs, strict=True)
        found = tape.grad(ys, targets, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    def numerically(*args: Any) -> tuple[Any, ...]:
        with enable_grad():
            return gradient(*args)

    return gradcheck(
        numerically,
        (*inputs, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )
