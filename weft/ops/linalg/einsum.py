"""Products of many tensors: einsum, tensordot and chains of matrices.

All come down to permute, reshape and matrix products, so their gradients follow. An einsum label is
a letter, or a negative number for a dimension behind an ellipsis (counted from the right).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from ...errors import ArgumentError, OptionError, ShapeError
from ...sizes import wrap_dims
from ...tensor import Tensor
from ..core.primitive import operation, write_out
from .contract import need_rank, need_tensors, product, same_dtype

Labels = tuple[Any, ...]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


# ------------------------------------------------------------------------------------- reading the call


@operation(method=False)
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products by Einstein's convention: einsum('bij,bjk->bik', x, y).

    Labels that the output lacks are summed over; a label repeated within one operand takes its
    diagonal; `...` stands for broadcast dimensions. Also einsum(x, [0, 1], y, [1, 2], [0, 2]).
    """
    if not isinstance(equation, str):
        equation, operands = _from_sublists(equation, *operands)
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise OptionError(f"einsum: must specify the equation string and at least one operand; got only {equation!r}")
    need_tensors("einsum", *operands)
    inputs, output, sizes, plain = _read(equation, tuple(tuple(x.shape) for x in operands))
    if plain:
        terms = list(zip(operands, inputs, strict=True))
    else:
        terms = [_without_repeats(x, labels, sizes) for x, labels in zip(operands, inputs, strict=True)]
    while len(terms) > 1:
        i, j = _cheapest_pair(terms, output, sizes) if len(terms) > 2 else (0, 1)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        needed = frozenset(output).union(*(labels for _, labels in rest))
        terms = [_contracted(*terms[i], *terms[j], needed, sizes), *rest]
    x, labels = _summed_away(*terms[0], frozenset(output))
    return x if labels == output and len(operands) > 1 else x.permute([labels.index(label) for label in output])


def _from_sublists(*args: Any) -> tuple[str, tuple[Any, ...]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) as an equation with operands."""

    def letters(sublist: Any) -> str:
        parts = []
        for item in sublist:
            if item is not Ellipsis and not (isinstance(item, int) and 0 <= item < len(LETTERS)):
                raise OptionError(
                    f"einsum: expected subscripts in range [0, {len(LETTERS)}) or Ellipsis, but got {item!r}"
                )
            parts.append("..." if item is Ellipsis else LETTERS[item])
        return "".join(parts)

    pairs, last = (args[:-1], args[-1:]) if len(args) % 2 else (args, ())
    if len(args) < 2:
        raise ArgumentError("einsum: expected an equation string with operands, or operands each followed by a sublist")
    equation = ",".join(letters(sublist) for sublist in pairs[1::2])
    return equation + ("->" + letters(last[0]) if last else ""), pairs[::2]


@functools.lru_cache(maxsize=1024)
def _read(
    equation: str, shapes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[Labels, ...], Labels, dict[Any, int], bool]:
    """The labels of operands and output, the size of each, and whether no label is repeated or broadcast."""
    inputs, output = _parsed(equation, tuple(len(shape) for shape in shapes))
    sizes = _sizes(equation, inputs, shapes)
    plain = all(
        len(set(labels)) == len(labels) and all(sizes[label] == n for label, n in zip(labels, shape, strict=True))
        for labels, shape in zip(inputs, shapes, strict=True)
    )
    return inputs, output, sizes, plain


def _parsed(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of every operand and of the output, the ellipses filled in."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        more = "more" if len(terms) < len(ranks) else "fewer"
        raise OptionError(
            f"einsum: {more} operands were provided ({len(ranks)}) than specified in the equation '{equation}'"
        )
    inputs = tuple(
        _term_labels(equation, term, rank, n) for n, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    )
    hidden = tuple(range(min((label for t in inputs for label in t if isinstance(label, int)), default=0), 0))
    if not arrow:
        seen = [label for t in inputs for label in t if isinstance(label, str)]
        return inputs, hidden + tuple(sorted(label for label in seen if seen.count(label) == 1))
    output = _split_labels(equation, right, hidden)
    for label in output:
        if output.count(label) > 1:
            raise OptionError(f"einsum: output subscript {label} appears more than once in the output of '{equation}'")
        if not any(label in t for t in inputs):
            raise OptionError(f"einsum: output subscript {label} does not appear in any operand of '{equation}'")
    return inputs, output


def _term_labels(equation: str, term: str, rank: int, number: int) -> Labels:
    named = len(term.replace("...", "", 1))
    hidden = rank - named
    if hidden < 0 or (hidden and "..." not in term):
        raise OptionError(
            f"einsum: the number of subscripts in the equation ('{term}' in '{equation}') does not match the number of "
            f"dimensions ({rank}) for operand {number}; use '...' for the rest"
        )
    return _split_labels(equation, term, tuple(range(-hidden, 0)))


def _split_labels(equation: str, term: str, hidden: Labels) -> Labels:
    before, dots, after = term.partition("...")
    for character in before + after:
        if character not in LETTERS:
            raise OptionError(
                f"einsum: invalid subscript {character!r} in '{equation}'; subscripts must be letters, '...', ',' or "
                "'->'"
            )
    return (*before, *(hidden if dots else ()), *after)


def _sizes(equation: str, inputs: Sequence[Labels], shapes: Sequence[tuple[int, ...]]) -> dict[Any, int]:
    """The size of each label; a 1 gives way to any other size."""
    sizes: dict[Any, int] = {}
    for number, (shape, labels) in enumerate(zip(shapes, inputs, strict=True)):
        for d, (label, size) in enumerate(zip(labels, shape, strict=True)):
            if labels.count(label) > 1 and size != shape[labels.index(label)]:
                raise ShapeError(
                    f"einsum: subscript {label} is repeated for operand {number} but the sizes don't match, "
                    f"{shape[labels.index(label)]} != {size} in shape {shape}"
                )
            known = sizes.get(label, 1)
            if size != known and size != 1 and known != 1:
                raise ShapeError(
                    f"einsum: operand {number} of shape {shape} has size {size} at dimension {d} for "
                    f"subscript {label} of '{equation}', which does not broadcast with previously seen size {known}"
                )
            sizes[label] = known if size == 1 else size
    return sizes


# ---------------------------------------------------------------------------------------- contracting


def _without_repeats(x: Tensor, labels: Labels, sizes: dict[Any, int]) -> tuple[Tensor, Labels]:
    """Diagonals of repeated labels, and no dimensions of size 1 that stand for broadcasting."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = x.diagonal(0, first, second)
            labels = (*(m for d, m in enumerate(labels) if d not in (first, second)), label)
    stretched = tuple(d for d, label in enumerate(labels) if x.shape[d] == 1 and sizes[label] != 1)
    if stretched:
        x = x.squeeze(stretched)
        labels = tuple(label for d, label in enumerate(labels) if d not in stretched)
    return x, labels


def _cheapest_pair(terms: list[tuple[Tensor, Labels]], output: Labels, sizes: dict[Any, int]) -> tuple[int, int]:
    """The two terms whose product adds least to what must be kept."""

    def volume(labels: Any) -> int:
        count = 1
        for label in labels:
            count *= sizes[label]
        return count

    def growth(pair: tuple[int, int]) -> int:
        i, j = pair
        a, b = set(terms[i][1]), set(terms[j][1])
        needed = set(output).union(*(t[1] for k, t in enumerate(terms) if k not in pair))
        return volume((a | b) & needed) - volume(a) - volume(b)

    return min(itertools.combinations(range(len(terms)), 2), key=growth)


def _summed_away(x: Tensor, labels: Labels, needed: frozenset[Any]) -> tuple[Tensor, Labels]:
    gone = tuple(d for d, label in enumerate(labels) if label not in needed)
    return (x.sum(gone), tuple(label for label in labels if label in needed)) if gone else (x, labels)


@functools.lru_cache(maxsize=1024)
def _groups(a_labels: Labels, b_labels: Labels, needed: frozenset[Any]) -> tuple[Labels, ...]:
    """The labels of a product of two terms: kept by both, of the left alone, of the right alone, summed over."""
    shared = tuple(label for label in a_labels if label in b_labels)
    return (
        tuple(label for label in shared if label in needed),
        tuple(label for label in a_labels if label not in b_labels),
        tuple(label for label in b_labels if label not in a_labels),
        tuple(label for label in shared if label not in needed),
    )


def _contracted(
    a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, needed: frozenset[Any], sizes: dict[Any, int]
) -> tuple[Tensor, Labels]:
    """The product of two terms, summed over the labels they share that nobody needs any more."""
    a, a_labels = _summed_away(a, a_labels, needed.union(b_labels))
    b, b_labels = _summed_away(b, b_labels, needed.union(a_labels))
    batch, left, right, summed = _groups(a_labels, b_labels, needed)
    a = _ordered(a, a_labels, batch + left + summed)
    b = _ordered(b, b_labels, batch + summed + right)
    batch_sizes, left_sizes, right_sizes = ([sizes[label] for label in group] for group in (batch, left, right))
    if not summed:
        a = a.reshape(*batch_sizes, *left_sizes, *(1,) * len(right)) if right else a
        b = b.reshape(*batch_sizes, *(1,) * len(left), *right_sizes) if left else b
        return a * b, batch + left + right
    same_dtype("einsum", a, b)
    rows, columns, depth = _volume(left_sizes), _volume(right_sizes), _volume([sizes[label] for label in summed])
    a = a.reshape(*batch_sizes, rows, depth) if len(left) != 1 or len(summed) != 1 else a
    b = b.reshape(*batch_sizes, depth, columns) if len(right) != 1 or len(summed) != 1 else b
    result = product(a, b, "einsum")  # (*batch, rows, columns)
    if len(left) != 1 or len(right) != 1:
        result = result.reshape(*batch_sizes, *left_sizes, *right_sizes)
    return result, batch + left + right


def _ordered(x: Tensor, labels: Labels, wanted: Labels) -> Tensor:
    return x if labels == wanted else x.permute([labels.index(label) for label in wanted])


def _volume(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


# ----------------------------------------------------------------------------------- tensordot, chains


@operation(method=False, out=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over the last `dims` dimensions of a and the first of b, or over listed pairs."""
    need_tensors("tensordot", a, b)
    a_dims, b_dims = _dot_dims(a, b, dims)
    for i, j in zip(a_dims, b_dims, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(
                f"tensordot: contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and "
                f"second has size {b.shape[j]} in dim {j}; shapes {tuple(a.shape)} and {tuple(b.shape)}"
            )
        if a.shape[i] != b.shape[j]:  # a size of 1 is broadcast: sum the other one first
            a = a if a.shape[i] == 1 else a.sum(i, keepdim=True, dtype=a.dtype)
            b = b if b.shape[j] == 1 else b.sum(j, keepdim=True, dtype=b.dtype)
    a_kept = [d for d in range(a.ndim) if d not in a_dims]
    b_kept = [d for d in range(b.ndim) if d not in b_dims]
    rows, columns = [a.shape[d] for d in a_kept], [b.shape[d] for d in b_kept]
    depth = _volume([a.shape[d] for d in a_dims])
    left = a.permute([*a_kept, *a_dims]).reshape(_volume(rows), depth)
    right = b.permute([*b_dims, *b_kept]).reshape(depth, _volume(columns))
    return product(left, right, "tensordot").reshape([*rows, *columns])


def _dot_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0 or dims > min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: expects dims >= 0 and at most the number of dimensions, got {dims} for shapes "
                f"{tuple(a.shape)} and {tuple(b.shape)}"
            )
        return tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    first, second = dims
    a_dims, b_dims = wrap_dims(first, a.ndim, "tensordot"), wrap_dims(second, b.ndim, "tensordot")
    if len(a_dims) != len(b_dims):
        raise ShapeError(
            f"tensordot: both dimension lists should have same length, got {list(first)} and {list(second)}"
        )
    return a_dims, b_dims


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each stretch of a matrix chain for the fewest multiplications.

    cost[i, j] = minₖ cost[i, k] + cost[k+1, j] + sizeᵢ · sizeₖ₊₁ · sizeⱼ₊₁
    """
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(options, key=options.get)
            cost[i, j] = options[split[i, j]]
    return split


def _chain(matrices: Sequence[Tensor], name: str) -> Tensor:
    sizes = [*(m.shape[0] for m in matrices), matrices[-1].shape[1]]
    split = _best_splits(sizes)

    def multiply(i: int, j: int) -> Tensor:
        if i == j:
            return matrices[i]
        k = split[i, j]
        return product(multiply(i, k), multiply(k + 1, j), name)

    return multiply(0, len(matrices) - 1)


@operation("linalg.multi_dot", method=False, out=True)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices in the cheapest order; the first and last may be vectors."""
    name, tensors = "linalg.multi_dot", list(tensors)
    if len(tensors) < 2:
        raise ShapeError(f"{name}: expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0], tensors[-1]
    for role, x in (("the first tensor", first), ("the last tensor", last)):
        if x.ndim not in (1, 2):
            raise ShapeError(f"{name}: {role} must be 1D or 2D but got {x.ndim}D, shape {tuple(x.shape)}")
    for number, x in enumerate(tensors[1:-1], 1):
        need_rank(name, x, 2, f"tensor {number}")
    same_dtype(name, *tensors)
    chain = [first.unsqueeze(0) if first.ndim == 1 else first, *tensors[1:-1]]
    chain.append(last.unsqueeze(1) if last.ndim == 1 else last)
    _check_chain(name, chain)
    result = _chain(chain, name)
    if first.ndim == 1:
        result = result.squeeze(0)
    return result.squeeze(-1) if last.ndim == 1 else result


def _check_chain(name: str, matrices: Sequence[Tensor]) -> None:
    for number, (x, y) in enumerate(itertools.pairwise(matrices)):
        if x.shape[1] != y.shape[0]:
            raise ShapeError(
                f"{name}: tensors {number} and {number + 1} with shapes {tuple(x.shape)} and {tuple(y.shape)} cannot "
                f"be multiplied: {x.shape[1]} ≠ {y.shape[0]}"
            )


@operation(method=False)
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """The product of a chain of matrices in the cheapest order (older name of linalg.multi_dot)."""
    given = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)) else list(matrices)
    if not given:
        raise ShapeError("chain_matmul: expected one or more matrices")
    for number, x in enumerate(given):
        need_rank("chain_matmul", x, 2, f"matrix {number}")
    _check_chain("chain_matmul", given)
    result = _chain(given, "chain_matmul")
    return result if out is None else write_out(out, result, "chain_matmul")
