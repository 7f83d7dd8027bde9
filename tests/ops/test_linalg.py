"""Linear algebra beyond the tables: factors with a gauge, Hermitian gradients, errors, empty and singular matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.errors import AutogradError, DtypeError, LinAlgError, OptionError, ShapeError

RNG = np.random.default_rng(0)
KINDS = ("float64", "complex128")


def draw(kind: str, *shape: int) -> np.ndarray:
    values = RNG.standard_normal(shape)
    return values + 1j * RNG.standard_normal(shape) if kind.startswith("complex") else values


def hermitian(kind: str, *shape: int) -> np.ndarray:
    """Positive definite with well separated eigenvalues."""
    a = draw(kind, *shape)
    return a @ a.conj().swapaxes(-1, -2) + np.diag(np.arange(1.0, shape[-1] + 1))


def derivatives(library, function, arrays):
    """The value of a real function of tensors, its gradients, and the gradients of a sum of squares of those."""
    tensors = [library.tensor(a).requires_grad_() for a in arrays]
    value = function(library, *tensors)
    first = library.autograd.grad(value, tensors, create_graph=True)
    squares = sum((g * g.conj()).real.sum() if g.is_complex() else (g * g).sum() for g in first)
    second = library.autograd.grad(squares, tensors)
    return [
        t.detach().resolve_conj().numpy() if library is torch else t.detach().numpy() for t in (value, *first, *second)
    ]


def agree(function, *arrays, hermitian_part=False):
    """Value, first and second derivatives equal PyTorch's (their Hermitian part where only that is defined)."""
    for ours, theirs in zip(derivatives(weft, function, arrays), derivatives(torch, function, arrays), strict=True):
        if hermitian_part and ours.ndim:
            ours, theirs = (x + x.conj().swapaxes(-1, -2) for x in (ours, theirs))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8 * max(1, np.abs(theirs).max()))


def symmetrised(x):
    return 0.5 * (x + x.mH)


def real_sum(x):
    """A real number that depends on every entry, with different weights."""
    flat = x.reshape(-1)
    flat = flat.real * 0.7 + flat.imag if x.is_complex() else flat
    return (flat * flat).sum() + flat.sum()


# ------------------------------------------------------------------------------- factors with a gauge


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(kind, uplo):
    a = hermitian(kind, 2, 4, 4)
    values, vectors = weft.linalg.eigh(weft.tensor(a), UPLO=uplo)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(a), rtol=1e-10)
    np.testing.assert_allclose(a @ vectors.numpy(), vectors.numpy() * values.numpy()[:, None, :], atol=1e-10)

    def projected(library, x):  # Σ log λᵢ vᵢ vᵢᴴ does not depend on the phases of the vectors
        values, vectors = library.linalg.eigh(symmetrised(x), UPLO=uplo)
        return real_sum((vectors * values.log().unsqueeze(-2)) @ vectors.mH)

    agree(projected, a, hermitian_part=True)


@pytest.mark.parametrize("kind", KINDS)
def test_eigvalsh_and_its_gradient(kind):
    agree(lambda library, x: (library.linalg.eigvalsh(symmetrised(x)) ** 3).sum(), hermitian(kind, 2, 3, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_eig(kind):
    a = draw(kind, 2, 4, 4)
    values, vectors = weft.linalg.eig(weft.tensor(a))
    assert values.dtype is weft.complex128
    np.testing.assert_allclose(a @ vectors.numpy(), vectors.numpy() * values.numpy()[:, None, :], atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(vectors.numpy(), axis=-2), 1, rtol=1e-12)

    def invariant(library, x):
        values, vectors = library.linalg.eig(x)
        return real_sum(library.linalg.inv(vectors) @ (x * x).to(vectors.dtype) @ vectors * 0) + real_sum(
            (vectors * (values**2).unsqueeze(-2)) @ library.linalg.inv(vectors)
        )

    agree(invariant, a)
    agree(lambda library, x: (library.linalg.eigvals(x).abs() ** 2).sum(), a)
    agree(lambda library, x: (library.linalg.eig(x)[1].abs() ** 3).sum(), a)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 3, 4), (3, 3)])
def test_svd(kind, shape):
    a = draw(kind, *shape)
    u, s, vh = weft.linalg.svd(weft.tensor(a), full_matrices=False)
    np.testing.assert_allclose((u * s.unsqueeze(-2).to(u.dtype) @ vh).numpy(), a, atol=1e-12)
    full = weft.linalg.svd(weft.tensor(a))
    assert full.U.shape[-1] == shape[-2] and full.Vh.shape[-2] == shape[-1]

    def polar(library, x):  # U Vᴴ and U S³ Vᴴ do not depend on the phases
        u, s, vh = library.linalg.svd(x, full_matrices=False)
        return real_sum(u @ vh) + real_sum((u * (s**3).unsqueeze(-2)) @ vh) + real_sum(s)

    agree(polar, a)
    agree(lambda library, x: real_sum(library.svd(x)[2].abs()) + library.svd(x)[1].sum(), a)


def test_svd_without_vectors():
    a = draw("float64", 4, 3)
    u, s, v = weft.svd(weft.tensor(a), compute_uv=False)
    assert not u.any() and not v.any() and u.shape == (4, 4) and v.shape == (3, 3)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(a)[1])


def test_equal_eigenvalues_have_the_gradient_of_their_sum():
    x = weft.eye(3, dtype=weft.float64).requires_grad_()
    weft.linalg.eigh(x)[0].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3))
    x.grad = None
    weft.linalg.svd(x)[1].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-15)


# ------------------------------------------------------------------- arguments of which a triangle is read


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(kind, upper):
    a = hermitian(kind, 2, 3, 3)
    factor = weft.linalg.cholesky(weft.tensor(a), upper=upper).numpy()
    expected = torch.linalg.cholesky(torch.tensor(a), upper=upper).numpy()
    np.testing.assert_allclose(factor, expected, atol=1e-12)
    agree(lambda library, x: real_sum(library.linalg.cholesky(symmetrised(x), upper=upper)), a)
    noise = np.triu(np.ones((3, 3)), 1) if not upper else np.tril(np.ones((3, 3)), -1)
    np.testing.assert_array_equal(weft.linalg.cholesky(weft.tensor(a + noise), upper=upper).numpy(), factor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_solve_and_inverse(kind, upper):
    factor = np.linalg.cholesky(hermitian(kind, 2, 3, 3))
    factor = factor.conj().swapaxes(-1, -2).copy() if upper else factor
    b = draw(kind, 2, 3, 2)
    agree(lambda library, b, f: real_sum(library.cholesky_solve(b, f, upper=upper)), b, factor)
    agree(lambda library, f: real_sum(library.cholesky_inverse(f, upper=upper)), factor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hermitian_too", [False, True])
def test_ldl_solve_solves(kind, hermitian_too):
    a = draw(kind, 3, 5, 5)
    a = a + (a.conj() if hermitian_too else a).swapaxes(-1, -2)  # indefinite: some blocks of size 2
    b = draw(kind, 3, 5, 2)
    packed, pivots = weft.linalg.ldl_factor(weft.tensor(a), hermitian=hermitian_too)
    assert (pivots < 0).any() and (pivots > 0).any()
    x = weft.linalg.ldl_solve(packed, pivots, weft.tensor(b), hermitian=hermitian_too)
    np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-10)


# -------------------------------------------------------------------------------- singular and empty


def test_det_of_singular_matrices_has_cofactors_as_gradient():
    a = np.array([[1.0, 2, 3], [2, 4, 6], [0, 1, 5]])  # rank 2
    x = weft.tensor(a).requires_grad_()
    y = weft.linalg.det(x)
    y.backward()
    minors = [
        [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(3)] for i in range(3)
    ]
    assert abs(y.item()) < 1e-14
    np.testing.assert_allclose(x.grad.numpy(), minors, atol=1e-12)


def test_logdet_of_singular_and_negative():
    singular, negative = np.ones((2, 2)), np.array([[0.0, 1], [1, 0]])
    got = weft.logdet(weft.tensor(np.stack([singular, negative, np.eye(2)]))).tolist()
    assert got[0] == -np.inf and np.isnan(got[1]) and got[2] == 0


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
@pytest.mark.parametrize(
    "name", ["inv", "det", "slogdet", "eigh", "svd", "qr", "cholesky", "lu", "matrix_exp", "pinv", "eig"]
)
def test_empty_matrices(name, shape):
    x = np.zeros(shape, np.float32)
    ours, theirs = getattr(weft.linalg, name)(weft.tensor(x)), getattr(torch.linalg, name)(torch.tensor(x))
    many = isinstance(ours, tuple)
    for o, t in zip(ours if many else [ours], theirs if many else [theirs], strict=True):
        assert tuple(o.shape) == tuple(t.shape)
        assert o.dtype.name == str(t.dtype).split(".")[1]
        np.testing.assert_array_equal(o.numpy(), t.numpy())


def test_pinv_keeps_the_rank_when_differentiated():
    low = draw("float64", 5, 2)

    def inverse(library, x, y):
        return real_sum(library.linalg.pinv(x @ y.mT, rtol=1e-10))

    agree(inverse, low, draw("float64", 4, 2))


# ----------------------------------------------------------------------------------------- low rank


def test_low_rank_finds_an_exact_factorisation():
    weft.manual_seed(0)
    a = draw("float64", 30, 4) @ draw("float64", 4, 20)
    u, s, v = weft.svd_lowrank(weft.tensor(a), q=4)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(a)[1][:4], rtol=1e-9)
    np.testing.assert_allclose(((u * s) @ v.mT).numpy(), a, atol=1e-9)
    u, s, v = weft.pca_lowrank(weft.tensor(a), q=4)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(a - a.mean(0))[1][:4], rtol=1e-9)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 5, 3)])
def test_lstsq(driver, shape):
    a, b = draw("float64", *shape), draw("float64", *shape[:-1], 2)
    ours = weft.linalg.lstsq(weft.tensor(a), weft.tensor(b), driver=driver)
    theirs = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver=driver)
    for name in ("solution", "residuals", "rank", "singular_values"):
        o, t = getattr(ours, name), getattr(theirs, name)
        assert tuple(o.shape) == tuple(t.shape), name
        np.testing.assert_allclose(o.numpy(), t.numpy(), rtol=1e-9, atol=1e-11)


# ------------------------------------------------------------------------------------------- products


def test_beta_zero_does_not_read_the_input():
    nan = weft.full((2, 2), float("nan"))
    assert weft.addmm(nan, weft.eye(2), weft.eye(2), beta=0).tolist() == [[1, 0], [0, 1]]


def test_addmm_in_place_writes_through_views():
    x = weft.zeros(3, 2, 2)
    x[1].addmm_(weft.eye(2), weft.eye(2), alpha=3)
    assert x.sum().item() == 6 and x[1].tolist() == [[3, 0], [0, 3]]


def test_products_of_numpy_arrays_and_tensors():
    a = np.eye(2, dtype=np.float32)
    assert isinstance(a @ weft.ones(2, 2), weft.Tensor) and isinstance(weft.ones(2, 2) @ a, weft.Tensor)
    with pytest.raises(TypeError):
        weft.ones(2, 2) @ [[1, 2], [3, 4]]


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_cdist_at_distance_zero_has_gradient_zero(p):
    x = np.array([[1.0, 2, 3], [0, 0, 1.5], [1, 2, 4.7]])  # no two differences of a pair are equal
    grads = []
    for library in (weft, torch):
        a, b = library.tensor(x).requires_grad_(), library.tensor(x)
        library.cdist(a, b, p=p).sum().backward()
        grads.append(a.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda library, x, y: library.einsum(x, [0, 1], y, [1, 2], [0, 2]),
        lambda library, x, y: library.einsum(x, [..., 1], y, [1, 2]),
        lambda library, x, y: library.einsum("ij,jk->ki", [x, y]),
        lambda library, x, y: library.einsum("aB,Bc", x, y),
        lambda library, x, y: library.einsum(" i j , j k -> k ", x, y),
    ],
)
def test_einsum_call_forms(call):
    x, y = draw("float64", 3, 4), draw("float64", 4, 2)
    ours, theirs = (call(library, library.tensor(x), library.tensor(y)) for library in (weft, torch))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


def test_random_einsums_equal_numpy():
    sizes = dict(zip("abcdef", (2, 3, 4, 2, 3, 1), strict=True))
    for _ in range(60):
        terms = ["".join(RNG.choice(list(sizes), RNG.integers(1, 5))) for _ in range(RNG.integers(1, 4))]
        known = sorted(set("".join(terms)))
        output = "".join(RNG.permutation(known)[: RNG.integers(0, len(known) + 1)])
        equation = f"{','.join(terms)}->{output}"
        arrays = [RNG.standard_normal([sizes[c] for c in term]) for term in terms]
        found = weft.einsum(equation, *(weft.tensor(a) for a in arrays))
        np.testing.assert_allclose(found.numpy(), np.einsum(equation, *arrays), atol=1e-10, err_msg=equation)


def test_chains_are_multiplied_in_the_cheapest_order():
    from weft.ops.linalg.einsum import _best_splits

    # the textbook chain: (A₁ (A₂ A₃)) ((A₄ A₅) A₆)
    splits = _best_splits([30, 35, 15, 5, 10, 20, 25])
    assert splits[0, 5] == 2 and splits[0, 2] == 0 and splits[3, 5] == 4


# --------------------------------------------------------------------------------------------- errors

EYE, ONES, WIDE, VECTOR = weft.eye(3), weft.ones(3, 3), weft.ones(3, 4), weft.ones(3)
BAD_CALLS = [
    (
        lambda: weft.linalg.inv(weft.stack([EYE, ONES])),
        LinAlgError,
        ("linalg.inv", "Batch element 1", "singular", "pinv"),
    ),
    (lambda: weft.linalg.solve(ONES, VECTOR), LinAlgError, ("linalg.solve", "singular", "lstsq")),
    (lambda: weft.linalg.cholesky(-EYE), LinAlgError, ("linalg.cholesky", "positive-definite", "order 1", "identity")),
    (lambda: weft.linalg.lu_factor(ONES), LinAlgError, ("linalg.lu_factor", "U[2,2]", "lu_factor_ex")),
    (lambda: weft.linalg.svd(EYE * float("nan")), LinAlgError, ("linalg.svd", "converge", "isfinite")),
    (lambda: weft.linalg.eigh(EYE * float("nan")), LinAlgError, ("linalg.eigh", "converge")),
    (lambda: weft.linalg.eig(EYE * float("inf")), LinAlgError, ("linalg.eig", "infs or NaNs")),
    (lambda: weft.linalg.inv(WIDE), ShapeError, ("linalg.inv", "3 by 4", "pinv")),
    (lambda: weft.linalg.inv(VECTOR), ShapeError, ("linalg.inv", "(3,)", "2 dimensions")),
    (lambda: weft.linalg.inv(ONES.long()), DtypeError, ("linalg.inv", "int64", ".float()")),
    (lambda: weft.linalg.inv(EYE.half()), DtypeError, ("linalg.inv", "float16", "low precision")),
    (lambda: weft.linalg.solve(EYE, VECTOR.double()), DtypeError, ("linalg.solve", "float32", "float64", ".to(")),
    (lambda: weft.linalg.solve(EYE, weft.ones(4)), ShapeError, ("linalg.solve", "(3, 3)", "(4, 1)")),
    (lambda: weft.linalg.matrix_norm(EYE, 3), OptionError, ("linalg.matrix_norm", "3", "'fro'")),
    (lambda: weft.linalg.qr(EYE, mode="full"), OptionError, ("linalg.qr", "'full'", "'reduced'")),
    (lambda: weft.linalg.lu(EYE, pivot=False), OptionError, ("linalg.lu", "pivot")),
    (lambda: EYE @ WIDE.mT, ShapeError, ("matmul", "(3, 3) @ (4, 3)", "a @ b.mT")),
    (lambda: EYE @ EYE.double(), DtypeError, ("matmul", "float32", "float64")),
    (lambda: weft.tensor(1.0) @ EYE, ShapeError, ("matmul", "0D", "use *")),
    (lambda: weft.mm(EYE, VECTOR), ShapeError, ("mm", "2D", "(3,)")),
    (lambda: weft.bmm(weft.ones(2, 3, 3), weft.ones(3, 3, 3)), ShapeError, ("bmm", "(2, 3, 3)", "(3, 3, 3)")),
    (lambda: weft.dot(VECTOR, weft.ones(4)), ShapeError, ("dot", "3", "4")),
    (lambda: weft.addmm(weft.ones(5, 5), EYE[:1], weft.ones(3, 5)), ShapeError, ("addmm", "(5, 5)", "(1, 5)")),
    (lambda: weft.einsum("ij,jk->il", EYE, EYE), OptionError, ("einsum", "l", "ij,jk->il")),
    (lambda: weft.einsum("ij,jk", EYE, weft.ones(4, 2)), ShapeError, ("einsum", "(4, 2)", "size 4", "subscript j")),
    (lambda: weft.tensordot(EYE, WIDE.mT, dims=1), ShapeError, ("tensordot", "3", "4")),
    (lambda: weft.linalg.multi_dot([EYE, WIDE.mT]), ShapeError, ("linalg.multi_dot", "(4, 3)")),
    (lambda: weft.cross(weft.ones(4), weft.ones(4)), ShapeError, ("cross", "3", "(4,)")),
    (lambda: weft.kron(EYE, 2), TypeError, ("kron", "Tensor", "int")),
]


@pytest.mark.parametrize("number", range(len(BAD_CALLS)))
def test_errors_name_operation_values_and_remedy(number):
    call, kind, parts = BAD_CALLS[number]
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(parts[0]), text
    for part in parts[1:]:
        assert part in text, text


def test_factors_that_cannot_be_differentiated_say_so():
    x = weft.ones(4, 2).requires_grad_()
    with pytest.raises(AutogradError, match="mode='reduced'"):
        weft.linalg.qr(x, mode="r").R.sum().backward()
    with pytest.raises(AutogradError, match="more rows than columns"):
        weft.linalg.qr(x, mode="complete").R.sum().backward()


def test_info_instead_of_errors():
    batch = weft.stack([EYE, ONES])
    inverse, info = weft.linalg.inv_ex(batch)
    assert info.tolist() == [0, 2] and info.dtype is weft.int32
    np.testing.assert_array_equal(inverse[0].numpy(), np.eye(3))
    assert weft.linalg.solve_ex(batch, VECTOR.expand(2, 3)).info.tolist() == [0, 2]
    assert weft.linalg.cholesky_ex(weft.stack([EYE, -EYE])).info.tolist() == [0, 1]
    assert weft.linalg.lu_factor_ex(batch).info.tolist() == [0, 2]
