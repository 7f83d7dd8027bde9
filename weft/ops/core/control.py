"""Loops and branches as functions: Python's own when run eagerly, single nodes of the graph when compiled.

Eagerly every iteration is recorded on the tape like any other code. While a function is traced, the body of a loop is
traced once, whatever the number of iterations, and both branches of a condition are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dtypes import bool_
from ...errors import ArgumentError, DtypeError, ShapeError
from ...random import fork_rng
from ...tape.modes import mode, unrecorded
from ...tensor import Tensor, wrap
from ...utils.pytree import TreeSpec, tree_flatten, tree_unflatten
from ..create.create import tensor
from ..shape.join import stack
from ..shape.reshape import unbind

__all__ = ["cond", "fori_loop", "scan", "while_loop"]


def scan(f: Callable, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """(c_T, (y_0, …, y_{T−1})) with (c_{t+1}, y_t) = f(c_t, x_t) and c_0 = `init`, as in JAX.

    `init`, `xs` and what f returns are tensors or nested containers of them. f gets the slices of `xs` along the first
    dimension one after the other, or None `length` times; the carry it returns must have the sizes and types of the one
    it gets. The results y are stacked along a new first dimension. With `reverse` the last slice comes first, and the
    results still lie in the order of the slices.

    >>> import weft
    >>> weft.scan(lambda total, x: (total + x, total * x), weft.tensor(0.0), weft.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    return _scan("scan", f, init, xs, length, reverse)


def fori_loop(lower: Any, upper: Any, body_fn: Callable, init: Any) -> Any:
    """carry = body_fn(i, carry) for i = lower, …, upper − 1, each i a 0-d integer tensor; from `init` on.

    In compiled code, bounds that are tensors make a `while_loop`, which has no gradient there.

    >>> import weft
    >>> weft.fori_loop(1, 6, lambda i, product: product * i, weft.tensor(1))
    tensor(120)
    """
    if mode.interpreter is not None and (isinstance(lower, Tensor) or isinstance(upper, Tensor)):
        first = lower if isinstance(lower, Tensor) else tensor(lower)
        step = lambda state: (state[0] + 1, body_fn(state[0], state[1]))
        return _while("fori_loop", lambda state: state[0] < upper, step, (first + 0, init))[1]
    numbers = wrap(np.arange(int(lower), max(int(lower), int(upper))))
    return _scan("fori_loop", lambda carry, i: (body_fn(i, carry), None), init, numbers, None, False)[0]


def while_loop(cond_fn: Callable, body_fn: Callable, init: Any) -> Any:
    """carry = body_fn(carry) as long as cond_fn(carry), a one-element bool, is true; from `init` on.

    The carry, one tensor or nested containers of them, keeps its sizes and types. Eagerly the loop has gradients of any
    order; in compiled code it runs forward only, since its length is known only at run time.

    >>> import weft
    >>> weft.while_loop(lambda x: x < 100, lambda x: x * 3, weft.tensor(1))
    tensor(243)
    """
    return _while("while_loop", cond_fn, body_fn, init)


def cond(pred: Any, true_fn: Callable, false_fn: Callable, *operands: Any) -> Any:
    """true_fn(*operands) if `pred`, a one-element bool, else false_fn(*operands).

    In compiled code both functions are traced and must return the same containers, sizes and types; one of them runs.

    >>> import weft
    >>> weft.cond(weft.tensor(True), weft.sin, weft.cos, weft.tensor(0.0))
    tensor(0.)
    """
    over = mode.interpreter
    if over is None or not isinstance(pred, Tensor):
        return (true_fn if _truth(pred, "cond") else false_fn)(*operands)
    _check_truth(pred, "cond")
    seen: list[tuple[Form, list[Tensor]]] = []

    def branch(function: Callable) -> Callable[[], list[Tensor]]:
        def run() -> list[Tensor]:
            form, leaves = taken_apart(function(*operands), "cond", "the result")
            if seen:
                _check_branches(*seen[0], form, leaves)
            seen.append((form, leaves))
            return leaves

        return run

    leaves = over.cond(pred.reshape(()), branch(true_fn), branch(false_fn))
    return seen[0][0].filled(leaves)


# ---------------------------------------------------------------------------------------------- loops


def _scan(name: str, f: Callable, init: Any, xs: Any, length: int | None, reverse: bool) -> tuple[Any, Any]:
    form, carry = taken_apart(init, name, "init")
    row_form, rows = taken_apart(xs, name, "xs")
    count = _count(name, row_form, rows, length)
    forms: list[Form] = []

    def step(carry: Sequence[Tensor], row: Sequence[Tensor], when: str = "") -> tuple[list[Tensor], list[Tensor]]:
        result = f(form.filled(carry), row_form.filled(row))
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentError(f"{name}: f must return a pair (carry, y), got {type(result).__name__}")
        after_form, after = taken_apart(result[0], name, "the carry")
        _check_carry(name, form, carry, after_form, after, when)
        y_form, ys = taken_apart(result[1], name, "y")
        if forms and forms[0] != y_form:
            raise ShapeError(f"{name}: f returned y as {forms[0]} first and as {y_form}{when}; it must stay the same")
        forms.append(y_form)
        return after, ys

    over = mode.interpreter
    if over is not None:
        carry, ys = over.scan(name, step, carry, rows, count, reverse)
    else:
        columns = [unbind(x) for x in rows]
        found = []
        for t in reversed(range(count)) if reverse else range(count):
            carry, y = step(carry, [column[t] for column in columns], f" in iteration {t}")
            found.append(y)
        ys = [stack(column[::-1] if reverse else column) for column in zip(*found, strict=True)]
        if not count:
            ys = _no_results(step, carry, rows)
    return form.filled(carry), forms[0].filled(ys)


def _no_results(step: Callable, carry: Sequence[Tensor], rows: Sequence[Tensor]) -> list[Tensor]:
    """What no iterations give: one on zeros tells the sizes."""
    with unrecorded(), fork_rng():
        _, ys = step(carry, [wrap(np.zeros(tuple(x.shape)[1:], x.dtype.np)) for x in rows])
    return [wrap(np.zeros((0, *y.shape), y.dtype.np)) for y in ys]


def _count(name: str, form: Form, rows: Sequence[Tensor], length: int | None) -> int:
    """The number of iterations."""
    if not rows and length is None:
        raise ShapeError(f"{name}: without xs the number of iterations is not known; pass length")
    sizes = {}
    for path, x in zip(form.paths("xs"), rows, strict=True):
        if x.ndim == 0:
            raise ShapeError(f"{name}: {path} has no dimension to go along; every tensor of xs needs a first dimension")
        sizes[path] = x.shape[0]
    if length is not None:
        sizes["length"] = int(length)
    (path, size), *others = sizes.items()
    for other, different in others:
        if different != size:
            raise ShapeError(
                f"{name}: {path} gives {size} iterations and {other} {different}; the first dimensions of all tensors "
                "in xs, and length if it is given, must be equal"
            )
    if size < 0:
        raise ShapeError(f"{name}: length must not be negative, got {size}")
    return size


def _while(name: str, cond_fn: Callable, body_fn: Callable, init: Any) -> Any:
    form, carry = taken_apart(init, name, "init")

    def step(carry: Sequence[Tensor], when: str = "") -> list[Tensor]:
        after_form, after = taken_apart(body_fn(form.filled(carry)), name, "the carry")
        _check_carry(name, form, carry, after_form, after, when)
        return after

    over = mode.interpreter
    if over is not None:

        def test(carry: Sequence[Tensor]) -> Tensor:
            pred = cond_fn(form.filled(carry))
            pred = pred if isinstance(pred, Tensor) else tensor(pred)
            _check_truth(pred, name)
            return pred

        return form.filled(over.while_loop(name, test, step, carry))
    t = 0
    while _truth(cond_fn(form.filled(carry)), name):
        carry, t = step(carry, f" in iteration {t}"), t + 1
    return form.filled(carry)


# -------------------------------------------------------------------------------- trees and their checks


@dataclass(frozen=True)
class Form:
    """The containers of a tree of tensors; a leaf that is None is no tensor but a part of them."""

    spec: TreeSpec
    held: tuple[bool, ...]  # for each leaf, whether it is a tensor

    def filled(self, leaves: Sequence[Tensor]) -> Any:
        given = iter(leaves)
        return tree_unflatten([next(given) if held else None for held in self.held], self.spec)

    def paths(self, start: str) -> list[str]:
        """How Python reaches each tensor."""
        return [path for path, held in zip(_paths(self.spec, start), self.held, strict=True) if held]

    def __str__(self) -> str:
        return repr(self.filled([_STAR] * sum(self.held)))


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


def _paths(spec: TreeSpec, start: str) -> list[str]:
    if spec.kind is None:
        return [start]
    if hasattr(spec.kind, "_fields"):
        steps = [f".{name}" for name in spec.kind._fields]
    elif issubclass(spec.kind, dict):
        keys = spec.context[1] if issubclass(spec.kind, defaultdict) else spec.context
        steps = [f"[{key!r}]" for key in keys]
    else:
        steps = [f"[{number}]" for number in range(len(spec.children))]
    return [path for step, child in zip(steps, spec.children, strict=True) for path in _paths(child, start + step)]


def taken_apart(tree: Any, name: str, what: str) -> tuple[Form, list[Tensor]]:
    """The containers of a tree and the tensors in it; numbers become tensors."""
    leaves, spec = tree_flatten(tree)
    held = tuple(x is not None for x in leaves)
    found = []
    for x in leaves:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, (bool, int, float, complex, np.ndarray, np.generic)):
            found.append(tensor(x))
        elif x is not None:
            raise ArgumentError(
                f"{name}: {what} holds a {type(x).__name__}; only tensors, numbers and None can be there"
            )
    return Form(spec, held), found


def _kind(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('weft.')} of shape {tuple(x.shape)}"


def _check_carry(
    name: str, form: Form, before: Sequence[Tensor], after_form: Form, after: Sequence[Tensor], when: str
) -> None:
    if after_form != form:
        raise ShapeError(
            f"{name}: the carry went in as {form} and came back as {after_form}{when}; the containers must stay the same"
        )
    for path, x, y in zip(form.paths("carry"), before, after, strict=True):
        if x.shape != y.shape or x.dtype is not y.dtype:
            error, remedy = (
                (ShapeError, "it must keep its sizes: reshape it, or start with the sizes it ends up with")
                if x.shape != y.shape
                else (DtypeError, f"it must keep its type: start with {y.dtype}, or return .to({x.dtype})")
            )
            raise error(f"{name}: {path} went in as {_kind(x)} and came back as {_kind(y)}{when}; {remedy}")


def _check_branches(form: Form, leaves: Sequence[Tensor], other_form: Form, others: Sequence[Tensor]) -> None:
    if form != other_form:
        raise ShapeError(
            f"cond: true_fn returns {form}, false_fn {other_form}; both branches must return the same containers"
        )
    for path, x, y in zip(form.paths("result"), leaves, others, strict=True):
        if x.shape != y.shape or x.dtype is not y.dtype:
            raise (ShapeError if x.shape != y.shape else DtypeError)(
                f"cond: {path} is {_kind(x)} from true_fn and {_kind(y)} from false_fn; both branches must return the "
                "same sizes and types"
            )


def _check_truth(pred: Tensor, name: str) -> None:
    if pred.numel() != 1:
        raise ShapeError(
            f"{name}: the condition must have one element, got shape {tuple(pred.shape)}; take .all() or .any() of it, or "
            "choose element by element with weft.where"
        )
    if pred.dtype is not bool_:
        raise DtypeError(f"{name}: the condition must be a bool, got {pred.dtype}; compare it, for example x != 0")


def _truth(pred: Any, name: str) -> bool:
    if isinstance(pred, (bool, np.bool_)):
        return bool(pred)
    if not isinstance(pred, Tensor):
        raise DtypeError(
            f"{name}: the condition must be a bool or a one-element bool tensor, got {type(pred).__name__}"
        )
    _check_truth(pred, name)
    return bool(pred)
