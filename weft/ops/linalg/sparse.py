"""What can be computed with sparse matrices: products, sums, arithmetic, and how they are made.

The product with a dense matrix is one primitive on SciPy; its gradients are itself on the transposed pattern and
the sampled product (g · xᵀ at the entries only), whose gradients in turn are products: derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import ArgumentError, DtypeError, IndexRangeError, ShapeError
from ...runtime.lazy import LazyModule
from ...sparse import COO, CSR, Pattern, Places, SparseTensor, ordered
from ...tensor import Tensor, wrap
from ..core.operands import is_number, known_array
from ..core.primitive import Contraction, Primitive, operation
from ..create.create import tensor, zeros
from ..index.edges import Edges, settled
from ..index.segments import EXTREME_EDGES, READ_EDGES, SOFTMAX_EDGES, SUM_EDGES, dot_in_lanes
from ..math.elementwise import conj
from ..shape.join import cat

sparse = LazyModule("scipy.sparse")

CHUNK = 1 << 20  # numbers gathered at a time by the sampled product


class SparseProduct(Contraction):
    """y = A x for the sparse A with the given entries: (n, k) @ (k, m) → (n, m)."""

    def reference(self, values, x, pattern):
        return np.ascontiguousarray(pattern.matrix(values) @ x)

    def shapes(self, values, x, pattern):
        return (pattern.shape[0], x.shape[1]), x.dtype

    def vjp(self, g, y, values, x, pattern):
        return lambda: SAMPLED_PRODUCT(g, conj(x), pattern=pattern), lambda: PRODUCT(conj(values), g, pattern=pattern.T)

    def native(self, node):
        from ...kernels.memory.anchors import sparse_product

        pattern = node.params["pattern"]
        return sparse_product(node, *node.inputs, pattern, len(pattern.columns))

    def batch(self, inputs, batched, size, params):
        values, x = inputs
        if batched[0]:
            return Primitive.batch(self, inputs, batched, size, params)
        columns = x.permute(1, 0, 2).reshape(x.shape[1], size * x.shape[2])  # (B, k, m) → (k, B·m)
        y = PRODUCT(values, columns, **params)
        return y.reshape(y.shape[0], size, x.shape[2]).permute(1, 0, 2)


class SampledProduct(Contraction):
    """The entries of a bᵀ at the places of a pattern: yₑ = Σⱼ a[rowₑ, j] · b[columnₑ, j]; (n, m), (k, m) → (entries)."""

    def reference(self, a, b, pattern):
        rows, columns = pattern.places()
        result = np.empty(len(rows), a.dtype)
        step = max(1, CHUNK // max(1, a.shape[1]))
        for start in range(0, len(rows), step):  # gathering all rows at once could need far more memory than a and b
            part = slice(start, start + step)
            result[part] = dot_in_lanes(a[rows[part]], b[columns[part]])
        return result

    def vjp(self, g, y, a, b, pattern):
        return lambda: PRODUCT(g, conj(b), pattern=pattern), lambda: PRODUCT(g, conj(a), pattern=pattern.T)

    def native(self, node):
        from ...kernels.memory.anchors import sampled_product

        return sampled_product(node, *node.inputs, **node.params)


PRODUCT, SAMPLED_PRODUCT = SparseProduct(), SampledProduct()


# ------------------------------------------------------------------------------------------- arithmetic


def _is_scalar(value: Any) -> bool:
    return is_number(value) or (isinstance(value, Tensor) and value.ndim == 0)


def _multiplied(self: SparseTensor, other: Any) -> Any:
    """Times a number, or element by element with a dense or sparse matrix of the same shape."""
    if _is_scalar(other):
        return self._with(self._entries * other)
    if not isinstance(other, (SparseTensor, Tensor)):
        return NotImplemented
    _same_shape("mul", self, other)
    found = self.coalesce()
    if isinstance(other, Tensor):
        rows, columns = (wrap(places.astype(np.int64)) for places in found._pattern.places())
        return found._with(found._entries * other[rows, columns])
    other = other.coalesce()
    if not found._pattern.same_places(other._pattern):
        raise ShapeError("mul: sparse matrices with different patterns; multiply by other.to_dense()")
    return found._with(found._entries * other._entries)


def _divided(self: SparseTensor, other: Any) -> Any:
    """Divided by a number."""
    return self._with(self._entries / other) if _is_scalar(other) else NotImplemented


def _added(self: SparseTensor, other: Any) -> Any:
    """A sparse matrix with the entries of both, or a dense matrix."""
    if not isinstance(other, (SparseTensor, Tensor)):
        return NotImplemented
    _same_shape("add", self, other)
    if isinstance(other, Tensor):
        return self.to_dense() + other
    one, two = self.coalesce(), other.coalesce()
    if one._pattern.same_places(two._pattern):
        return one._with(one._entries + two._entries)
    pairs = zip(one._pattern.places(), two._pattern.places(), strict=True)
    rows, columns = (np.concatenate(pair) for pair in pairs)
    return ordered(rows, columns, cat([one._entries, two._entries]), one.shape, self.layout)


def _negated(self: SparseTensor) -> SparseTensor:
    """−A."""
    return self._with(-self._entries)


def _subtracted(self: SparseTensor, other: Any) -> Any:
    """A − B: a sparse matrix with the entries of both, or a dense matrix."""
    return self + -other if isinstance(other, (SparseTensor, Tensor)) else NotImplemented


def _subtracted_from(self: SparseTensor, other: Any) -> Any:
    return -self + other if isinstance(other, Tensor) else NotImplemented


def _same_shape(name: str, one: SparseTensor, two: Any) -> None:
    if tuple(one.shape) != tuple(two.shape):
        raise ShapeError(
            f"{name}: shapes differ, {tuple(one.shape)} and {tuple(two.shape)}; sparse matrices do not broadcast"
        )


# --------------------------------------------------------------------------------------------- products


def _check_factor(x: Tensor, matrix: SparseTensor, inner: tuple[Any, int]) -> None:
    if x.ndim not in (1, 2):
        raise ShapeError(f"matmul: a sparse matrix takes a vector or a matrix, got shape {tuple(x.shape)}")
    if inner[0] != inner[1]:
        raise ShapeError(f"matmul: inner sizes differ, sparse {tuple(matrix.shape)} and dense {tuple(x.shape)}")
    if x.dtype is not matrix.dtype:
        raise DtypeError(f"matmul: sparse {matrix.dtype} and dense {x.dtype}; convert one with .to(...)")


def _product(matrix: SparseTensor, x: Tensor) -> Tensor:
    """A x for a vector or a matrix x."""
    _check_factor(x, matrix, inner=(x.shape[0] if x.ndim else None, matrix.shape[1]))
    found = matrix.coalesce()
    if x.ndim == 2:
        return PRODUCT(found._entries, x, pattern=found._pattern)
    return PRODUCT(found._entries, x.unsqueeze(1), pattern=found._pattern).squeeze(1)


def _product_of_sparse(one: SparseTensor, two: SparseTensor) -> SparseTensor:
    """A B of two sparse matrices: every pair of entries (i, j), (j, k) adds its product to the entry (i, k)."""
    if one.shape[1] != two.shape[0]:
        raise ShapeError(f"matmul: inner sizes differ, sparse {tuple(one.shape)} and sparse {tuple(two.shape)}")
    if one.dtype is not two.dtype:
        raise DtypeError(f"matmul: sparse {one.dtype} and sparse {two.dtype}; convert one with .to(...)")
    one, two = one.coalesce(), two.coalesce()
    rows, columns = (places.astype(np.int64) for places in one._pattern.places())
    starts = two._pattern.starts.astype(np.int64)
    counts = np.diff(starts)[columns]  # partners of each entry of A
    left = np.repeat(np.arange(len(rows)), counts)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    right = starts[columns[left]] + np.arange(len(left)) - before
    terms = one._entries[wrap(left)] * two._entries[wrap(right)]
    return ordered(rows[left], two._pattern.columns[right], terms, (one.shape[0], two.shape[1]), one.layout)


def _times(self: SparseTensor, other: Any) -> Any:
    """The product with a vector, a matrix or another sparse matrix."""
    if isinstance(other, SparseTensor):
        return _product_of_sparse(self, other)
    return _product(self, other) if isinstance(other, Tensor) else NotImplemented


def _reflected_times(self: SparseTensor, other: Any) -> Any:
    """x A = (Aᵀ xᵀ)ᵀ."""
    if not isinstance(other, Tensor):
        return NotImplemented
    _check_factor(other, self, inner=(other.shape[-1] if other.ndim else None, self.shape[0]))
    found = self.coalesce()
    x = other.unsqueeze(0) if other.ndim == 1 else other
    y = PRODUCT(found._entries, x.transpose(0, 1), pattern=found._pattern.T).transpose(0, 1)
    return y.squeeze(0) if other.ndim == 1 else y


@operation("sparse.mm", method=False)
def sparse_mm(mat1: Any, mat2: Any) -> Any:
    """The product of two matrices of which at least one is sparse."""
    if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
        raise ArgumentError("sparse.mm: one of the matrices must be sparse; use weft.mm for dense ones")
    for x in (mat1, mat2):
        if not isinstance(x, (SparseTensor, Tensor)):
            raise ArgumentError(f"sparse.mm: expected matrices, got {type(x).__name__}")
        if x.ndim != 2:
            raise ShapeError(f"sparse.mm: expected matrices, got shape {tuple(x.shape)}; use @ for vectors")
    return mat1 @ mat2


@operation(method=False, aliases=("dsmm",))
def spmm(input: Any, mat2: Any) -> Any:
    """`input @ mat2` of two matrices, one or both of them sparse; `mm` by its older name."""
    both_dense = isinstance(input, Tensor) and isinstance(mat2, Tensor)
    return input.mm(mat2) if both_dense else sparse_mm(input, mat2)


@operation("sparse.addmm", method=False)
def sparse_addmm(mat: Tensor, mat1: SparseTensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """β · mat + α · (mat1 @ mat2) with a sparse mat1."""
    return beta * mat + alpha * sparse_mm(mat1, mat2)


def _normalised(input: Any, dim: Any, name: str, dtype: Any) -> tuple[SparseTensor, Edges, Tensor]:
    """The matrix, its entries as rows that go to their row (dim 1) or column (dim 0), and their values."""
    if not isinstance(input, SparseTensor):
        raise ArgumentError(f"{name}: expected a sparse matrix, got {type(input).__name__}; use weft.softmax")
    if not -2 <= dim < 2:
        raise IndexRangeError(f"{name}: dim {dim} is out of range for a matrix; use 0 or 1")
    found = input.coalesce()
    places, along = found._pattern.places(), 1 - dim % 2
    values = found._entries if dtype is None else found._entries.to(dtypes.as_dtype(dtype))
    if not values.is_floating_point():
        raise DtypeError(f"{name}: floating-point values are needed, got {values.dtype}; convert with .float()")
    return found, Edges.to(places[along], found.shape[along]), values


@operation("sparse.softmax", method=False)
def sparse_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """exp x / Σ exp x over the entries of each row (dim 1) or column (dim 0): places without an entry count as −∞."""
    found, groups, values = _normalised(input, dim, "sparse.softmax", dtype)
    return found._with(SOFTMAX_EDGES(values.unsqueeze(1), edges=groups).squeeze(1))


@operation("sparse.log_softmax", method=False)
def sparse_log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of `sparse.softmax`."""
    found, groups, values = _normalised(input, dim, "sparse.log_softmax", dtype)
    column = values.unsqueeze(1)
    shifted = column - READ_EDGES(EXTREME_EDGES(column.detach(), edges=groups, largest=True), edges=groups.T)
    total = SUM_EDGES(shifted.exp(), edges=groups)
    return found._with((shifted - READ_EDGES(total, edges=groups.T).log()).squeeze(1))


@operation("sparse.sum", method=False)
def sparse_sum(input: SparseTensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all entries, of each column (dim 0) or of each row (dim 1), as an ordinary tensor.

    PyTorch returns the sums over one dimension as a sparse vector; here they are dense.
    """
    if not isinstance(input, SparseTensor):
        raise ArgumentError(f"sparse.sum: expected a sparse matrix, got {type(input).__name__}; use weft.sum")
    found = input.coalesce()
    values = found._entries if dtype is None else found._entries.to(dtype)
    if isinstance(dim, (tuple, list)):
        dim = None if len({d % 2 for d in dim}) == 2 else dim[0]
    if dim is None:
        return values.sum()
    if not -2 <= dim < 2:
        raise IndexRangeError(f"sparse.sum: dim {dim} is out of range for a matrix; use 0 or 1")
    places = found._pattern.places()[1 - dim % 2]
    return values.new_zeros(found.shape[1 - dim % 2]).index_add(0, wrap(places.astype(np.int64)), values)


# ------------------------------------------------------------------------------------------ making them


def _integers(name: str, role: str, given: Any) -> np.ndarray:
    if isinstance(given, Tensor):
        found = settled(given)
        array = known_array(given, name) if found is None else found
    else:
        array = np.asarray(given)
    if array.size == 0 and not isinstance(given, Tensor):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{name}: {role} must be integers, got {array.dtype}")
    return array.astype(np.int64)


def _entries(name: str, values: Any, dtype: Any, requires_grad: bool) -> Tensor:
    found = values if isinstance(values, Tensor) else tensor(values)
    if dtype is not None:
        found = found.to(dtypes.as_dtype(dtype))
    if found.ndim != 1:
        raise ShapeError(f"{name}: values must have one dimension, got shape {tuple(found.shape)}")
    return found.detach().clone().requires_grad_() if requires_grad else found


def _matrix_size(name: str, size: Any) -> tuple[int, int]:
    sizes = tuple(int(s) for s in size)
    if len(sizes) != 2 or min(sizes) < 0:
        raise ShapeError(f"{name}: only matrices are supported, got size {sizes}")
    return sizes


@operation(method=False)
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> SparseTensor:
    """A sparse matrix from (2, nnz) row and column numbers and (nnz) values; values of equal places are added.

    With nothing but a size there are no entries.
    """
    if indices is None and values is None and size is not None:
        indices, values = np.zeros((2, 0), np.int64), zeros(0, dtype=dtype)
    if indices is None or values is None:
        raise ArgumentError("sparse_coo_tensor: indices and values are needed, or a size alone")
    places = _integers("sparse_coo_tensor", "indices", indices)
    entries = _entries("sparse_coo_tensor", values, dtype, requires_grad)
    if places.ndim != 2 or places.shape[0] != 2 or places.shape[1] != entries.shape[0]:
        raise ShapeError(
            f"sparse_coo_tensor: indices must have shape (2, {entries.shape[0]}) for so many values, got {places.shape}"
        )
    if size is None:
        size = places.max(axis=1) + 1 if places.size else (0, 0)
    size = _matrix_size("sparse_coo_tensor", size)
    for axis in (0, 1):
        if places.shape[1] and not 0 <= places[axis].min() <= places[axis].max() < size[axis]:
            raise IndexRangeError(
                f"sparse_coo_tensor: indices of dimension {axis} run from {places[axis].min()} to "
                f"{places[axis].max()}, but size {size} allows 0 to {size[axis] - 1}"
            )
    return SparseTensor(entries, None, COO, Places(places[0], places[1], size))


@operation(method=False)
def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> SparseTensor:
    """A sparse matrix from the (rows + 1) beginnings of its rows, the (nnz) columns and the (nnz) values."""
    starts = _integers("sparse_csr_tensor", "crow_indices", crow_indices)
    columns = _integers("sparse_csr_tensor", "col_indices", col_indices)
    entries = _entries("sparse_csr_tensor", values, dtype, requires_grad)
    if size is None:
        size = (len(starts) - 1, columns.max() + 1 if columns.size else 0)
    size = _matrix_size("sparse_csr_tensor", size)
    _check_compressed(starts, columns, entries.shape[0], size)
    return SparseTensor(entries, Pattern(starts, columns, size), CSR)


def _check_compressed(starts: np.ndarray, columns: np.ndarray, count: int, size: tuple[int, int]) -> None:
    name = "sparse_csr_tensor"
    if starts.shape != (size[0] + 1,) or columns.shape != (count,):
        raise ShapeError(
            f"{name}: expected {size[0] + 1} crow_indices and {count} col_indices for size {size} and {count} values, "
            f"got shapes {starts.shape} and {columns.shape}"
        )
    if starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise ShapeError(f"{name}: crow_indices must rise from 0 to the number of values, {count}")
    if count and not 0 <= columns.min() <= columns.max() < size[1]:
        raise IndexRangeError(f"{name}: col_indices must lie between 0 and {size[1] - 1}")
    falls = np.flatnonzero(np.diff(columns) <= 0) + 1
    if not np.isin(falls, starts).all():
        raise ShapeError(f"{name}: col_indices must be sorted and distinct within each row; or use sparse_coo_tensor")


_LEGACY = ("sparse.DoubleTensor", "sparse.HalfTensor", "sparse.LongTensor", "sparse.IntTensor")


@operation("sparse.FloatTensor", method=False, aliases=_LEGACY)
def legacy_sparse_tensor(indices: Tensor, values: Tensor, size: Any = None) -> SparseTensor:
    """`sparse_coo_tensor` by the names of old scripts; values keep their type whichever it is, as in PyTorch."""
    for role, given in (("indices", indices), ("values", values)):
        if not isinstance(given, Tensor):
            raise ArgumentError(f"sparse.FloatTensor: {role} must be a Tensor, got {type(given).__name__}")
    return sparse_coo_tensor(indices, values, size)


@operation("sparse.from_scipy", method=False)
def from_scipy(matrix: Any) -> SparseTensor:
    """A sparse matrix from one of SciPy's: CSR stays CSR, every other format becomes COO."""
    if not sparse.issparse(matrix):
        raise ArgumentError(f"sparse.from_scipy: expected a SciPy sparse matrix, got {type(matrix).__name__}")
    layout, found = (CSR, matrix) if matrix.format == "csr" else (COO, matrix.tocoo())
    found = found.tocoo()
    return ordered(found.row, found.col, wrap(np.array(found.data)), found.shape, layout)


@operation(function=False)
def to_sparse(self: Tensor, *, layout: str | None = None) -> SparseTensor:
    """The entries of a matrix that are not zero, as a COO (or, by `layout`, CSR) matrix; differentiable."""
    if self.ndim != 2:
        raise ShapeError(f"to_sparse: only matrices are supported, got shape {tuple(self.shape)}")
    rows, columns = np.nonzero(self.detach().array)
    values = self[wrap(rows), wrap(columns)]
    return ordered(rows, columns, values, self.shape, CSR if layout in (CSR, "csr") else COO)


@operation(function=False)
def to_sparse_csr(self: Tensor) -> SparseTensor:
    """The entries of a matrix that are not zero, as a CSR matrix; differentiable."""
    return to_sparse(self, layout=CSR)


@operation(function=False)
def to_sparse_coo(self: Tensor) -> SparseTensor:
    """The entries of a matrix that are not zero, as a COO matrix; differentiable."""
    return to_sparse(self)


def _entrywise(name: str) -> Callable[..., SparseTensor]:
    def applied(self: SparseTensor, *args: Any) -> SparseTensor:
        found = self.coalesce()
        return found._with(getattr(found._entries, name)(*args))

    applied.__name__, applied.__doc__ = name, f"`{name}` of every entry."
    return applied


def _add_operators() -> None:
    """Give SparseTensor its operators and their names as methods."""
    SparseTensor.__neg__ = SparseTensor.neg = _negated
    SparseTensor.__mul__ = SparseTensor.__rmul__ = SparseTensor.mul = _multiplied
    SparseTensor.__truediv__ = SparseTensor.div = _divided
    SparseTensor.__add__ = SparseTensor.__radd__ = SparseTensor.add = _added
    SparseTensor.__sub__, SparseTensor.__rsub__, SparseTensor.sub = _subtracted, _subtracted_from, _subtracted
    SparseTensor.__matmul__ = SparseTensor.matmul = SparseTensor.mm = SparseTensor.mv = _times
    SparseTensor.__rmatmul__ = _reflected_times
    SparseTensor.sum = sparse_sum
    for name in ("abs", "sqrt", "square", "pow"):  # of functions that are 0 at 0
        setattr(SparseTensor, name, _entrywise(name))


_add_operators()
