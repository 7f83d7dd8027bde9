"""Sparse matrices against SciPy and PyTorch: products, gradients of first and second order, layouts, errors."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
import torch

import weft
from weft.autograd import gradcheck, gradgradcheck
from weft.sparse import SparseTensor

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # PyTorch's notes about its own
LAYOUTS = ["coo", "csr"]


def random_matrix(rows: int, columns: int, density: float = 0.4, dtype: str = "float64", seed: int = 0):
    return scipy.sparse.random_array((rows, columns), density=density, rng=seed, dtype=dtype).tocsr()


def made(matrix, layout: str, values: weft.Tensor | None = None) -> SparseTensor:
    """The same matrix in Weft, entries in CSR order, over the given values."""
    matrix = matrix.tocsr()
    matrix.sort_indices()
    values = weft.tensor(matrix.data) if values is None else values
    if layout == "csr":
        return weft.sparse_csr_tensor(matrix.indptr, matrix.indices, values, matrix.shape)
    coo = matrix.tocoo()
    return weft.sparse_coo_tensor(np.stack([coo.row, coo.col]), values, matrix.shape)


def dense(*shape: int, dtype: str = "float64", seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# -------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex128"])
def test_products_are_scipys(layout, dtype):
    matrix = (random_matrix(5, 7) * 10).astype(dtype)
    a, x, v = made(matrix, layout), (dense(7, 3) * 5).astype(dtype), (dense(7) * 5).astype(dtype)
    left, w = (dense(2, 5) * 5).astype(dtype), (dense(5) * 5).astype(dtype)
    cases = [
        (a @ weft.tensor(x), matrix @ x),
        (a @ weft.tensor(v), matrix @ v),
        (weft.tensor(left) @ a, left @ matrix),
        (weft.tensor(w) @ a, w @ matrix),
        (weft.mm(a, weft.tensor(x)), matrix @ x),
        (weft.sparse.mm(a, weft.tensor(x)), matrix @ x),
        (weft.spmm(a, weft.tensor(x)), matrix @ x),
        (weft.dsmm(weft.tensor(left), a), left @ matrix),
        (weft.spmm(weft.tensor(left), weft.tensor(left.T.copy())), left @ left.T),
        (weft.mv(a, weft.tensor(v)), matrix @ v),
        (weft.matmul(a, weft.tensor(x)), matrix @ x),
        (weft.matmul(weft.tensor(left), a), left @ matrix),
        (a.t() @ weft.tensor(w), matrix.T @ w),
        (a @ weft.tensor(np.asfortranarray(x)), matrix @ x),
        (a @ weft.tensor(x)[:, ::2], matrix @ x[:, ::2]),
    ]
    for got, wanted in cases:
        assert got.dtype.name == dtype
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_is_accumulated_in_float32(dtype):
    matrix, x = random_matrix(6, 200, 0.5), dense(200, 2)
    a, b = made(matrix, "csr").to(getattr(weft, dtype)), weft.tensor(x).to(getattr(weft, dtype))
    exact = a.to_dense().float().numpy() @ b.float().numpy()
    wanted = weft.tensor(exact).to(getattr(weft, dtype)).float().numpy()
    np.testing.assert_array_equal((a @ b).float().numpy(), wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_pytorchs(layout):
    matrix, x = random_matrix(5, 7), dense(7, 3)
    a = made(matrix, "csr")
    values = weft.tensor(matrix.data, requires_grad=True)
    b = weft.tensor(x, requires_grad=True)
    (made(matrix, layout, values) @ b).sin().sum().backward()

    theirs = torch.tensor(a.to_dense().numpy()).to_sparse_coo().requires_grad_()
    other = torch.tensor(x, requires_grad=True)
    torch.sparse.mm(theirs, other).sin().sum().backward()
    np.testing.assert_allclose(values.grad.numpy(), theirs.grad.coalesce().values().numpy())
    np.testing.assert_allclose(b.grad.numpy(), other.grad.numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck_and_second_derivatives(layout):
    matrix = random_matrix(4, 5, 0.5)
    values, x = weft.tensor(matrix.data, requires_grad=True), weft.tensor(dense(5, 2), requires_grad=True)
    functions = [
        lambda values, x: made(matrix, layout, values) @ x,
        lambda values, x: (made(matrix, layout, values) @ x[:, 0]).square(),
        lambda values, x: x.T @ made(matrix, layout, values).t(),
        lambda values, x: made(matrix, layout, values).to_dense().sin() @ x,
        lambda values, x: (made(matrix, layout, values) * x.sum()).sum(1),
        lambda values, x: (made(matrix, layout, values) @ made(matrix, layout, values).t()).to_dense() @ x[:4],
    ]
    for function in functions:
        assert gradcheck(function, (values, x))
        assert gradgradcheck(function, (values, x))


def test_complex_gradients():
    matrix = random_matrix(3, 4, 0.6).astype("complex128")
    values = weft.tensor(matrix.data + 0.5j, requires_grad=True)
    x = weft.tensor(dense(4, 2) + 1j * dense(4, 2, seed=2), requires_grad=True)
    assert gradcheck(lambda values, x: made(matrix, "csr", values) @ x, (values, x))


def test_only_what_is_needed_is_differentiated():
    matrix = random_matrix(5, 7)
    values, x = weft.tensor(matrix.data, requires_grad=True), weft.tensor(dense(7, 3))
    (made(matrix, "csr", values) @ x).sum().backward()
    rows = np.repeat(np.arange(5), np.diff(matrix.indptr))
    np.testing.assert_allclose(values.grad.numpy(), x.numpy().sum(1)[matrix.indices])
    assert x.grad is None and len(rows) == matrix.nnz


def test_vmap_over_the_dense_factor():
    matrix = random_matrix(5, 7)
    values, x = weft.tensor(matrix.data), weft.tensor(dense(6, 7, 3))
    got = weft.vmap(lambda one: made(matrix, "csr", values) @ one)(x)
    np.testing.assert_allclose(got.numpy(), np.stack([matrix @ one for one in x.numpy()]))
    scaled = weft.vmap(lambda v: made(matrix, "csr", v) @ x[0])(weft.stack([values, 2 * values]))
    np.testing.assert_allclose(scaled.numpy(), np.stack([matrix @ x[0].numpy(), 2 * matrix @ x[0].numpy()]))


def test_the_gradient_of_the_values_needs_little_memory():
    rng = np.random.default_rng(0)
    places = weft.tensor(np.stack([np.repeat(np.arange(500), 400), rng.integers(0, 500, 200_000)]))
    values = weft.ones(200_000, requires_grad=True)
    x = weft.ones(500, 64)
    y = weft.sparse_coo_tensor(places, values, (500, 500)) @ x
    tracemalloc.start()
    y.sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values.grad.shape == (200_000,)
    assert peak < 200_000 * 64 * 4 / 2  # all gathered rows at once would take twice that for each factor


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_sparse_matrices(layout):
    one, two = random_matrix(4, 6, seed=3), random_matrix(6, 5, seed=4)
    product = made(one, layout) @ made(two, layout)
    assert isinstance(product, SparseTensor) and product.layout == f"sparse_{layout}"
    np.testing.assert_allclose(product.to_dense().numpy(), (one @ two).toarray())
    assert product.nnz == (one @ two).nnz


# --------------------------------------------------------------------------------------- the matrix itself


def test_coo_matrices_behave_as_pytorchs():
    indices, values = [[1, 0, 1, 1], [2, 0, 2, 0]], [3.0, 1.0, 4.0, 5.0]
    ours, theirs = weft.sparse_coo_tensor(indices, values, (2, 3)), torch.sparse_coo_tensor(indices, values, (2, 3))
    assert ours.is_sparse and ours.layout == "sparse_coo" and ours.shape == (2, 3) and ours.dtype is weft.float32
    assert not ours.is_coalesced() and ours.nnz == ours._nnz() == theirs._nnz() == 4
    for name in ("values", "indices"):
        with pytest.raises(RuntimeError, match="uncoalesced"):
            getattr(ours, name)()
    ours, theirs = ours.coalesce(), theirs.coalesce()
    assert ours.is_coalesced() and ours.nnz == 3
    np.testing.assert_array_equal(ours.indices().numpy(), theirs.indices().numpy())
    np.testing.assert_array_equal(ours.values().numpy(), theirs.values().numpy())
    np.testing.assert_array_equal(ours.to_dense().numpy(), theirs.to_dense().numpy())
    np.testing.assert_array_equal(ours.t().to_dense().numpy(), theirs.t().to_dense().numpy())
    assert ours.transpose(0, 1).shape == (3, 2) and ours.transpose(1, 1) is ours and ours.T.layout == "sparse_coo"


def test_csr_matrices_behave_as_pytorchs():
    crow, columns, values = [0, 2, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0]
    ours = weft.sparse_csr_tensor(crow, columns, values, (3, 4), dtype=weft.float64)
    theirs = torch.sparse_csr_tensor(crow, columns, values, (3, 4), dtype=torch.float64)
    assert ours.is_sparse_csr and not ours.is_sparse and ours.dtype is weft.float64
    np.testing.assert_array_equal(ours.to_dense().numpy(), theirs.to_dense().numpy())
    for name in ("crow_indices", "col_indices", "values"):
        np.testing.assert_array_equal(getattr(ours, name)().numpy(), getattr(theirs, name)().numpy())
    assert weft.sparse_csr_tensor(crow, columns, values).shape == torch.sparse_csr_tensor(crow, columns, values).shape
    coo = ours.to_sparse_coo()
    assert coo.indices().tolist() == theirs.to_sparse_coo().indices().tolist()
    assert coo.to_sparse_csr().crow_indices().tolist() == crow and ours.to_sparse().is_sparse
    with pytest.raises(RuntimeError, match="layout"):
        ours.indices()
    with pytest.raises(RuntimeError, match="layout"):
        coo.crow_indices()


def test_dense_to_sparse_and_back():
    x = weft.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]], requires_grad=True)
    for made_from in (x.to_sparse(), x.to_sparse_csr(), x.to_sparse_coo(), x.to_sparse(layout="sparse_csr")):
        np.testing.assert_array_equal(made_from.to_dense().detach().numpy(), x.detach().numpy())
        assert made_from.nnz == 3
    (x.to_sparse_csr().to_dense() * weft.arange(6.0).reshape(2, 3)).sum().backward()
    assert x.grad.tolist() == [[0, 1, 0], [3, 0, 5]]  # entries that are zero are not stored, so have no slope


def test_scipy_and_back():
    matrix = random_matrix(5, 7)
    csr, coo = weft.sparse.from_scipy(matrix), weft.sparse.from_scipy(matrix.tocoo())
    assert csr.layout == "sparse_csr" and coo.layout == "sparse_coo"
    for mine in (csr, coo, weft.sparse.from_scipy(matrix.tocsc())):
        assert scipy.sparse.issparse(mine.scipy()) and (mine.scipy() != matrix).nnz == 0
    with pytest.raises(TypeError, match="SciPy"):
        weft.sparse.from_scipy(matrix.toarray())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic(layout):
    one, two = random_matrix(4, 5, seed=1), random_matrix(4, 5, seed=2)
    a, b, x = made(one, layout), made(two, layout), weft.tensor(dense(4, 5))
    plain, other = one.toarray(), two.toarray()
    cases = [
        (a * 3, plain * 3),
        (2.0 * a, plain * 2),
        (a / 4, plain / 4),
        (-a, -plain),
        (a * weft.tensor(2.0), plain * 2),
        (a + a, plain + plain),
        (a - 2 * a, -plain),
        (a + b, plain + other),
        (a - b, plain - other),
        (a + x, plain + x.numpy()),
        (x + a, plain + x.numpy()),
        (x - a, x.numpy() - plain),
        (a * x, plain * x.numpy()),
        (x * a, plain * x.numpy()),
        (a * a, plain * plain),
        (a.float().double(), plain.astype("float32")),
        (a.clone().detach(), plain),
    ]
    for got, wanted in cases:
        got = got.to_dense() if isinstance(got, SparseTensor) else got
        np.testing.assert_allclose(got.numpy(), wanted, atol=1e-12)
    assert isinstance(a + b, SparseTensor) and (a + a).nnz == a.nnz
    for dim, wanted in (
        (None, plain.sum()),
        (0, plain.sum(0)),
        (1, plain.sum(1)),
        (-1, plain.sum(1)),
        ((0, 1), plain.sum()),
    ):
        np.testing.assert_allclose(weft.sparse.sum(a, dim).numpy(), wanted)
        np.testing.assert_allclose(a.sum(dim).numpy(), wanted)
    got = weft.sparse.addmm(weft.ones(4, 2, dtype=weft.float64), a, x.T[:, :2], beta=2.0, alpha=0.5)
    np.testing.assert_allclose(got.numpy(), 2 + 0.5 * plain @ x.numpy().T[:, :2])


def test_values_that_require_gradients():
    a = weft.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), requires_grad=True)
    assert a.requires_grad and not a.detach().requires_grad and a.grad is None
    (a @ weft.tensor([[1.0], [3.0]])).sum().backward()
    assert a.grad.to_dense().tolist() == [[0, 3], [1, 0]]
    assert weft.sparse_csr_tensor([0, 1], [0], [1.0]).requires_grad_().requires_grad
    repeated = weft.tensor([1.0, 2.0, 4.0], requires_grad=True)
    b = weft.sparse_coo_tensor([[0, 0, 0], [1, 1, 0]], repeated, (1, 2))
    (b @ weft.tensor([10.0, 100.0])).backward(weft.ones(1))
    assert repeated.grad.tolist() == [100, 100, 10]


@pytest.mark.parametrize("size", [(0, 0), (0, 3), (3, 0), (3, 4)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matrices_without_entries(size, layout):
    values = weft.zeros(0, requires_grad=True)
    if layout == "coo":
        a = weft.sparse_coo_tensor(weft.zeros(2, 0, dtype=weft.int64), values, size)
    else:
        a = weft.sparse_csr_tensor([0] * (size[0] + 1), [], values, size)
    x = weft.ones(size[1], 2, requires_grad=True)
    y = a @ x
    assert y.shape == (size[0], 2) and not y.any() and a.to_dense().shape == size and a.t().shape == size[::-1]
    y.sum().backward()
    assert values.grad.shape == (0,) and x.grad.shape == x.shape and not x.grad.any()
    assert (a + a).nnz == 0 and a.coalesce().sum(0).shape == (size[1],)


def test_representation():
    a = weft.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2), requires_grad=True)
    assert repr(a).startswith("tensor(indices=tensor([[0, 1]") and "size=(2, 2), nnz=2, layout=weft.sparse_coo" in repr(
        a
    )
    assert "requires_grad=True" in repr(a)
    assert "crow_indices=tensor([0, 1, 2])" in repr(a.to_sparse_csr())


# ----------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: weft.sparse_coo_tensor([[0], [5]], [1.0], (2, 2)), IndexError, "size"),
        (lambda: weft.sparse_coo_tensor([[-1], [0]], [1.0], (2, 2)), RuntimeError, "-1"),
        (lambda: weft.sparse_coo_tensor([[0, 1], [0, 1]], [1.0], (2, 2)), RuntimeError, "shape"),
        (lambda: weft.sparse_coo_tensor([[0.5], [0.5]], [1.0], (2, 2)), TypeError, "integers"),
        (lambda: weft.sparse_coo_tensor([[0], [0]], [[1.0]], (2, 2)), RuntimeError, "one dimension"),
        (lambda: weft.sparse_coo_tensor([[0], [0]], [1.0], (2, 2, 2)), RuntimeError, "matrices"),
        (lambda: weft.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)), RuntimeError, "crow_indices"),
        (lambda: weft.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2.0], (2, 2)), RuntimeError, "crow_indices"),
        (lambda: weft.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2)), RuntimeError, "sorted"),
        (lambda: weft.sparse_csr_tensor([0, 1, 1], [4], [1.0], (2, 2)), IndexError, "col_indices"),
        (lambda: EYE @ weft.ones(3, 2), RuntimeError, "inner sizes"),
        (lambda: weft.ones(2, 3) @ EYE, RuntimeError, "inner sizes"),
        (lambda: EYE @ weft.ones(2, 2, 2), RuntimeError, "vector or a matrix"),
        (lambda: EYE @ weft.ones(2, 2, dtype=weft.float64), TypeError, "float64"),
        (lambda: EYE @ EYE.double(), TypeError, "float64"),
        (lambda: weft.mm(EYE, weft.ones(3, 3)), RuntimeError, "inner sizes"),
        (lambda: weft.sparse.mm(weft.ones(2, 2), weft.ones(2, 2)), TypeError, "sparse"),
        (lambda: weft.sparse.mm(EYE, weft.ones(2)), RuntimeError, "matrices"),
        (lambda: weft.spmm(EYE, weft.ones(3, 2)), RuntimeError, "inner sizes"),
        (lambda: weft.sparse.sum(weft.ones(2, 2)), TypeError, "sparse"),
        (lambda: EYE.sum(2), IndexError, "dim"),
        (lambda: EYE + weft.ones(2, 3), RuntimeError, "shapes differ"),
        (lambda: EYE * weft.tensor([[0.0, 1.0], [0.0, 0.0]]).to_sparse(), RuntimeError, "patterns"),
        (lambda: EYE.transpose(0, 2), IndexError, "dim"),
        (lambda: EYE + 1, TypeError, None),
        (lambda: EYE @ [1, 2], TypeError, None),
        (lambda: weft.ones(3).to_sparse(), RuntimeError, "matrices"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


EYE = weft.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 1.0], (2, 2))
