"""Functions that make functions: derivatives as transforms, free to be nested in any order.

Each transform gives its arguments a place of their own on the tape, runs the function, and sweeps.
A result stays attached to the graph only if it depends on something beyond the transform's own
variables: an outer transform's variable, or a leaf of the user's.

Forward mode runs the function once, the tangents beside it (forward.py). `linearize`, whose result is called with
many tangents later, is reverse mode twice: u ↦ Jᵀu is linear, and its own adjoint is v ↦ Jv.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import AutogradError, InvalidValueError, ShapeError
from ..ops.core.batching import basis, basis_of, from_front, joined, piece, pieces, reshaped, same_memory, variable
from ..random import get_rng_state, set_rng_state
from ..tape import tape
from ..tape.modes import enable_grad, mode
from ..tape.tape import edge_of, leaves
from ..tensor import Tensor
from ..utils.pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten
from .batched import Level, entered, live_levels, varied, vmap
from .forward import Pass, have_tangents

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
    "vmap",
]


ALWAYS = (True,)


class Variables:
    """The arguments that one transform differentiates by, each with its own place on the tape."""

    def __init__(self, tree: Any, name: str, forward: bool = False) -> None:
        self.name, self.recording, self.forward = name, mode.grad, forward
        given, self.spec = tree_flatten(tree)
        self.own: set[int] = set()
        self.running = [True]  # for other transforms its variables are leaves only while the function runs
        with enable_grad():
            self.tensors = [self._variable(x) for x in given]

    def _variable(self, x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise InvalidValueError(f"{self.name}: can differentiate only by tensors, got {type(x).__name__}")
        x = varied(x)
        if self.recording and x.requires_grad:
            return same_memory(x) if self.forward else variable(x)
        return self.leaf(x.detach())

    def leaf(self, x: Tensor) -> Tensor:
        """x, made here, as a new leaf that is this transform's own."""
        x.requires_grad_()
        leaf = edge_of(x)
        leaf._running = self.running
        self.own |= {id(leaf)}
        return x

    @property
    def tree(self) -> Any:
        return tree_unflatten(self.tensors, self.spec)

    def attached(self, tensors: Sequence[Any]) -> bool:
        """Whether any of the tensors depends on leaves that are not this transform's own."""
        roots = [edge_of(x) for x in tensors if isinstance(x, Tensor) and x.requires_grad]
        if mode.forward and have_tangents(roots):
            return True
        return any(key not in self.own and getattr(x, "_running", ALWAYS)[0] for key, x in leaves(roots).items())

    def released(self, tree: Any) -> Any:
        """Results without their ties to this transform's variables, if those are their only ties."""
        return tree_map(self._released, tree)

    def _released(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.requires_grad:
            return x
        return x if self.recording and self.attached([x]) else x.detach()

    def pulled(self, outputs: Sequence[Tensor], seeds: Sequence[Tensor], retain: bool = False) -> list[Tensor]:
        """Σ Jᵀ seed for each variable; zeros where the outputs do not depend on it."""
        found = pull(self, outputs, self.tensors, seeds, retain)
        return [x._filled(0) if g is None else g for g, x in zip(found, self.tensors, strict=True)]


def pull(
    scope: Variables, outputs: Sequence[Tensor], inputs: Sequence[Tensor], seeds: Sequence[Tensor], retain: bool
) -> Sequence[Tensor | None]:
    """The sweep from `outputs` to `inputs`, recorded only where someone may differentiate it again."""
    pairs = [(y, seed) for y, seed in zip(outputs, seeds, strict=True) if y.requires_grad]
    if not pairs:
        return [None] * len(inputs)
    outputs, seeds = zip(*pairs, strict=True)
    create = mode.grad is True and scope.attached([*outputs, *seeds])
    found = tape.grad(outputs, inputs, seeds, retain or create, create, allow_unused=True)
    return [None if g is None else scope._released(g) for g in found] if create else found


# --------------------------------------------------------------------------------- arguments, results


def _chosen(args: tuple[Any, ...], argnums: Any, name: str) -> tuple[Any, tuple[int, ...]]:
    """The arguments to differentiate by, and their numbers from 0."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for number in numbers:
        if not isinstance(number, int) or not -len(args) <= number < len(args):
            raise AutogradError(
                f"{name}: got argnum={number}, but only {len(args)} positional inputs; argnums must be an integer "
                "or a tuple of integers that number them"
            )
    positions = tuple(n % len(args) for n in numbers)
    if len(set(positions)) != len(positions):
        raise AutogradError(f"{name}: argnums {argnums} names an argument twice")
    picked = tuple(args[n] for n in positions)
    return (picked if isinstance(argnums, tuple) else picked[0]), positions


def _replaced(args: tuple[Any, ...], positions: tuple[int, ...], values: Any) -> list[Any]:
    """`args` with the values at the positions."""
    whole = list(args)
    for number, value in zip(positions, values, strict=True):
        whole[number] = value
    return whole


def _apart(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """(output, aux) from what the function returned."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise AutogradError(
            f"{name}: with has_aux=True the function must return a tuple (output, aux), got {type(result).__name__}"
        )
    return result


def _only_tensors(tree: Any, name: str) -> tuple[list[Tensor], TreeSpec]:
    flat, spec = tree_flatten(tree)
    for x in flat:
        if not isinstance(x, Tensor):
            raise AutogradError(f"{name}: expected the function to return tensors, got {type(x).__name__}")
    return flat, spec


def _run(func: Callable, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, has_aux: bool, name: str) -> Any:
    """Run `func` with variables in the place of the chosen arguments: (variables, output, aux)."""
    chosen, positions = _chosen(args, argnums, name)
    variables = Variables(chosen, name)
    values = variables.tree if isinstance(argnums, tuple) else (variables.tree,)
    with enable_grad():
        result = func(*_replaced(args, positions, values), **kwargs)
    variables.running[0] = False
    output, aux = _apart(result, has_aux, name)
    return variables, output, aux


# ------------------------------------------------------------------------------------- first order


def grad_and_value(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """x ↦ (∇f(x), f(x)) for a function with one real scalar result; with aux: (∇f, (f, aux))."""

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        variables, y, aux = _run(func, args, kwargs, argnums, has_aux, "grad")
        if not isinstance(y, Tensor):
            raise AutogradError(f"grad: expected the function to return a tensor, got {type(y).__name__}")
        if y.ndim:
            raise AutogradError(
                f"grad: expected the function to return a scalar tensor, got shape {tuple(y.shape)}; reduce it, or "
                "use vjp or jacrev"
            )
        if y.is_complex():
            raise AutogradError(f"grad: expected a real scalar result, got {y.dtype}; take .real or .abs() of it")
        gradients = tree_unflatten(variables.pulled([y], [y._filled(1)]), variables.spec)
        y, aux = variables.released((y, aux))
        return gradients, ((y, aux) if has_aux else y)

    return differentiated


def value_and_grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """x ↦ (f(x), ∇f(x)): `grad_and_value` in the order that JAX uses; with aux: ((f, aux), ∇f)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return value, gradients

    return differentiated


def grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """x ↦ ∇f(x) for a function with one real scalar result; with aux: (∇f, aux).

    >>> import weft
    >>> weft.func.grad(weft.func.grad(weft.sin))(weft.tensor(0.5)) == -weft.sin(weft.tensor(0.5))
    tensor(True)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """(f(x), v ↦ Jᵀv): the result, and the function that pulls cotangents back; with aux a third.

    The function takes one cotangent for each result, in the structure of the results, and returns
    a tuple with one gradient for each primal. It can be called any number of times.
    """
    variables, output, aux = _run(func, primals, {}, tuple(range(len(primals))), has_aux, "vjp")
    flat, spec = _only_tensors(output, "vjp")

    def pull_back(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        seeds, given_spec = tree_flatten(given)
        if given_spec != spec:
            raise AutogradError(f"vjp: expected cotangents with the structure of the results, {spec}, got {given_spec}")
        for seed, y in zip(seeds, flat, strict=True):
            _check_alike(seed, y, "vjp", "cotangent", "result")
        return tree_unflatten(variables.pulled(flat, seeds, retain_graph), variables.spec)

    result = variables.released(output)
    return (result, pull_back, variables.released(aux)) if has_aux else (result, pull_back)


def _check_alike(given: Any, expected: Tensor, name: str, role: str, of: str) -> None:
    if not isinstance(given, Tensor):
        raise InvalidValueError(f"{name}: each {role} must be a tensor, got {type(given).__name__}")
    if given.shape != expected.shape:
        raise ShapeError(
            f"{name}: a {role} has shape {tuple(given.shape)}, its {of} {tuple(expected.shape)}; they must be equal"
        )


# ------------------------------------------------------------------------------------ forward mode


def linearize(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """(f(x), v ↦ Jv): the result, and its derivative as a linear function that can be called often.

    The linear function takes one tangent for each primal.
    """
    variables, output, aux = _run(func, primals, {}, tuple(range(len(primals))), has_aux, "linearize")
    flat, spec = _only_tensors(output, "linearize")
    with enable_grad():
        dummies = [variables.leaf(y._filled(0)) if y.requires_grad else None for y in flat]
        used = [(y, u) for y, u in zip(flat, dummies, strict=True) if u is not None]
        ys, us = [y for y, _ in used], [u for _, u in used]
        # u ↦ Jᵀu at u = 0: only its dependence on u matters
        pulled = tape.grad(ys, variables.tensors, us, True, True, allow_unused=True) if used else []

    def push(*tangents: Any) -> Any:
        seeds, given_spec = tree_flatten(tangents)
        if given_spec != variables.spec:
            raise AutogradError(
                f"jvp: expected tangents with the structure of the primals, {variables.spec}, got {given_spec}"
            )
        for v, x in zip(seeds, variables.tensors, strict=True):
            _check_alike(v, x, "jvp", "tangent", "primal")
        pairs = [(g, v) for g, v in zip(pulled, seeds, strict=bool(used)) if g is not None]
        found = pull(variables, [g for g, _ in pairs], us, [v for _, v in pairs], retain=True)
        by_result = iter(found)
        pushed = [None if u is None else next(by_result) for u in dummies]
        return tree_unflatten([y._filled(0) if v is None else v for v, y in zip(pushed, flat, strict=True)], spec)

    result = variables.released(output)
    return (result, push, variables.released(aux)) if has_aux else (result, push)


def jvp(func: Callable, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """(f(x), Jv) for primals x and tangents v, both tuples; with aux a third.

    Forward mode: the tangents are computed beside the values, and no more is kept than the function itself keeps.

    >>> import weft
    >>> weft.func.jvp(weft.sin, (weft.zeros(2),), (weft.tensor([1.0, 3.0]),))
    (tensor([0., 0.]), tensor([1., 3.]))
    """
    if not isinstance(primals, tuple):
        raise AutogradError(f"jvp: expected primals to be a tuple, so that f(*primals) works, got {type(primals)}")
    if tree_flatten(tangents)[1] != tree_flatten(primals)[1]:
        raise AutogradError(
            f"jvp: expected primals and tangents to have the same structure, got {tree_flatten(primals)[1]} and "
            f"{tree_flatten(tangents)[1]}"
        )
    flat, pushed, spec, aux = _pushed(func, primals, tree_flatten(tangents)[0], has_aux, "jvp")
    pushed = [y._filled(0) if v is None else v for y, v in zip(flat, pushed, strict=True)]
    result = tree_unflatten(flat, spec), tree_unflatten(pushed, spec)
    return (*result, aux) if has_aux else result


def _pushed(
    func: Callable, primals: tuple[Any, ...], seeds: Sequence[Any], has_aux: bool, name: str, batch: Level | None = None
) -> tuple[list[Tensor], list[Tensor | None], TreeSpec, Any]:
    """Run `func` in forward mode: its results flat, their tangents (None: zero), their containers, aux."""
    variables = Variables(primals, name, forward=True)
    for v, x in zip(seeds, variables.tensors, strict=True):
        _check_alike(v, x, name, "tangent", "primal")
    running = Pass(batch)
    try:
        with running:
            running.start(variables.tensors, seeds)
            result = func(*variables.tree)
        variables.running[0] = False
        output, aux = _apart(result, has_aux, name)
        flat, spec = _only_tensors(output, name)
        pushed = [running.of(y) for y in flat]
        return *variables.released((flat, pushed)), spec, variables.released(aux)
    finally:
        running.close()


# ------------------------------------------------------------------------------- Jacobians, Hessians


def jacrev(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable:
    """x ↦ ∂f/∂x, shape (*result, *argument), one row at a time for all rows together (reverse mode)."""

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        variables, output, aux = _run(func, args, kwargs, argnums, has_aux, "jacrev")
        flat, spec = _only_tensors(output, "jacrev")
        _refuse_complex(flat, "jacrev", "results")
        blocks = []
        for y in flat:
            pull_one = lambda seed, y=y: variables.pulled([y], [seed], retain=True)
            rows = vmap(pull_one, chunk_size=chunk_size)(basis(y))  # each (n, *argument)
            blocks.append(tree_unflatten([reshaped(r, (*y.shape, *r.shape[1:])) for r in rows], variables.spec))
        jacobian = tree_unflatten(blocks, spec)
        return (jacobian, variables.released(aux)) if has_aux else jacobian

    return differentiated


def jacfwd(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable:
    """x ↦ ∂f/∂x, shape (*result, *argument), one column at a time for all columns together (forward mode)."""

    @functools.wraps(func, updated=())
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        chosen, positions = _chosen(args, argnums, "jacfwd")
        flat, arg_spec = tree_flatten(chosen)
        _refuse_complex(flat, "jacfwd", "inputs")

        def of_chosen(*leaves: Tensor) -> Any:
            tree = tree_unflatten(leaves, arg_spec)
            return func(*_replaced(args, positions, tree if isinstance(argnums, tuple) else (tree,)), **kwargs)

        columns, spec, aux = _columns(of_chosen, tuple(flat), has_aux, chunk_size)
        sizes = [x.numel() for x in flat]
        blocks = []
        for c in columns:  # (*result, all columns) → (*result, *argument) for each
            parts = [reshaped(p, (*c.shape[:-1], *x.shape)) for p, x in zip(pieces(c, sizes), flat, strict=True)]
            blocks.append(tree_unflatten(parts, arg_spec))
        jacobian = tree_unflatten(blocks, spec)
        return (jacobian, aux) if has_aux else jacobian

    return differentiated


def _columns(
    func: Callable, primals: tuple[Any, ...], has_aux: bool, chunk_size: int | None
) -> tuple[list[Tensor], TreeSpec, Any]:
    """The derivative of every result by all elements of all primals, as its last dimension; containers; aux."""
    seeds = basis_of(primals)
    count = seeds[0].shape[0]
    if chunk_size is None or chunk_size >= count:
        return _pushed_rows(func, primals, seeds, has_aux)
    start, found = get_rng_state(), []
    for begin in range(0, count, chunk_size):
        set_rng_state(start)  # every run draws the same numbers
        rows = [piece(v, 0, begin, min(begin + chunk_size, count)) for v in seeds]
        columns, spec, aux = _pushed_rows(func, primals, rows, has_aux)
        found.append(columns)
    return [joined(parts, parts[0].ndim - 1) for parts in zip(*found, strict=True)], spec, aux


def _pushed_rows(
    func: Callable, primals: tuple[Any, ...], rows: list[Tensor], has_aux: bool
) -> tuple[list[Tensor], TreeSpec, Any]:
    """Jv of every result for each v along the first dimension of `rows`, as its last dimension: one run of `func`."""
    level = Level(rows[0].shape[0])
    with entered((*live_levels(), level)):
        seeds = [level.wrapped(v) for v in rows]
    flat, pushed, spec, aux = _pushed(func, primals, seeds, has_aux, "jacfwd", level)
    with entered((*live_levels(), level)):
        pushed = [level.exposed(y._filled(0) if v is None else v) for y, v in zip(flat, pushed, strict=True)]
        return [from_front(v, y.ndim) for y, v in zip(flat, pushed, strict=True)], spec, aux


def _refuse_complex(tensors: Sequence[Any], name: str, role: str) -> None:
    for x in tensors:
        if isinstance(x, Tensor) and x.is_complex():
            raise AutogradError(
                f"{name}: expected all {role} to be real, got {x.dtype}; use weft.view_as_real, or vjp and jvp"
            )


def hessian(func: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """x ↦ ∂²f/∂x∂x, shape (*result, *argument, *argument): forward over reverse."""
    return jacfwd(jacrev(func, argnums), argnums)


def hvp(func: Callable, primals: Any, vectors: Any) -> Any:
    """H v of a scalar function at `primals` without forming H: the derivative of ∇f along v.

    Tuples of primals and vectors give a tuple; single tensors a single one.
    """
    if not isinstance(primals, tuple):
        return hvp(func, (primals,), (vectors,))[0]
    return jvp(grad(func, argnums=tuple(range(len(primals)))), primals, vectors)[1]
