"""Transforms: values against PyTorch, log-determinants against the Jacobian by automatic differentiation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch.distributions as TD

import weft
import weft.distributions as WD

from .cases import array, of_torch, of_weft

VECTOR = [[0.3, -1.2, 0.7], [1.1, 0.2, -0.4]]
POSITIVE = [[0.3, 1.2, 0.7], [1.1, 0.2, 2.4]]
MATRIX = [[0.3, -1.2], [1.1, 0.2]]

# name: (build, input)
TRANSFORMS = {
    "Exp": (lambda D, t: D.ExpTransform(), VECTOR),
    "Power": (lambda D, t: D.PowerTransform(t([2.0, -0.5, 3.0])), POSITIVE),
    "Sigmoid": (lambda D, t: D.SigmoidTransform(), VECTOR),
    "Tanh": (lambda D, t: D.TanhTransform(), VECTOR),
    "Softplus": (lambda D, t: D.SoftplusTransform(), VECTOR),
    "Affine": (lambda D, t: D.AffineTransform(t([0.5, 1.0, 2.0]), t([-2.0, 0.5, 3.0])), VECTOR),
    "Affine numbers": (lambda D, t: D.AffineTransform(1.0, -2.0), VECTOR),
    "Affine event": (lambda D, t: D.AffineTransform(1.0, t([-2.0, 0.5, 3.0]), event_dim=1), VECTOR),
    "Cumulative": (lambda D, t: D.CumulativeDistributionTransform(D.Normal(t(0.5), t(2.0))), VECTOR),
    "StickBreaking": (lambda D, t: D.StickBreakingTransform(), VECTOR),
    "CorrCholesky": (lambda D, t: D.CorrCholeskyTransform(), VECTOR),
    "Compose": (lambda D, t: D.ComposeTransform([D.TanhTransform(), D.AffineTransform(t(1.0), t(2.0))]), VECTOR),
    "Compose events": (lambda D, t: D.ComposeTransform([D.TanhTransform(), D.StickBreakingTransform()]), VECTOR),
    "identity": (lambda D, t: D.identity_transform, VECTOR),
    "Independent": (lambda D, t: D.IndependentTransform(D.ExpTransform(), 1), VECTOR),
    "Reshape": (lambda D, t: D.ReshapeTransform((2, 3), (3, 2)), VECTOR),
    "Cat": (lambda D, t: D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [2, 1]), VECTOR),
    "Cat rows": (lambda D, t: D.CatTransform([D.ExpTransform(), D.identity_transform], 0), VECTOR),
    "Stack": (lambda D, t: D.StackTransform([D.ExpTransform(), D.TanhTransform(), D.SoftplusTransform()], -1), VECTOR),
    "inverse": (lambda D, t: D.ExpTransform().inv, POSITIVE),
    "inverse of Compose": (
        lambda D, t: D.ComposeTransform([D.ExpTransform(), D.AffineTransform(t(0.0), t(2.0))]).inv,
        POSITIVE,
    ),
    "Abs": (lambda D, t: D.AbsTransform(), POSITIVE),
    "Softmax": (lambda D, t: D.SoftmaxTransform(), VECTOR),
    "LowerCholesky": (lambda D, t: D.LowerCholeskyTransform(), MATRIX),
    "PositiveDefinite": (lambda D, t: D.PositiveDefiniteTransform(), MATRIX),
}
BIJECTIVE = [n for n in TRANSFORMS if n not in ("Abs", "Softmax", "LowerCholesky", "PositiveDefinite")]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_against_pytorch(name):
    build, data = TRANSFORMS[name]
    ours, theirs, x, z = build(WD, of_weft), build(TD, of_torch), of_weft(data), of_torch(data)
    y, expected = ours(x), theirs(z)
    np.testing.assert_allclose(array(y), array(expected), rtol=1e-9)
    np.testing.assert_allclose(array(ours.inv(y)), array(theirs.inv(expected)), rtol=1e-7, atol=1e-9)
    assert ours.bijective == theirs.bijective
    assert repr(ours) == repr(theirs)
    assert repr(ours.inv) == repr(theirs.inv)
    assert repr(ours.domain).replace("weft", "torch") == repr(theirs.domain)
    assert repr(ours.codomain).replace("weft", "torch") == repr(theirs.codomain)
    assert (ours.domain.event_dim, ours.codomain.event_dim) == (theirs.domain.event_dim, theirs.codomain.event_dim)
    assert ours.codomain.check(y).all()
    assert tuple(ours.forward_shape(x.shape)) == tuple(theirs.forward_shape(z.shape)) == tuple(y.shape)
    assert tuple(ours.inverse_shape(y.shape)) == tuple(theirs.inverse_shape(expected.shape)) == tuple(x.shape)
    if ours.bijective:
        np.testing.assert_allclose(
            array(ours.log_abs_det_jacobian(x, y)),
            array(theirs.log_abs_det_jacobian(z, expected)),
            rtol=1e-7,
            atol=1e-9,
        )
    try:
        np.testing.assert_array_equal(array(ours.sign), array(theirs.sign))
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            _ = theirs.sign


def free(y, name):
    """The coordinates of a result that are free: all but the last piece, or those below the diagonal."""
    if "Stick" in name or name == "Compose events":
        return y[:-1]
    if name == "CorrCholesky":
        return WD.utils.tril_matrix_to_vec(y, -1)
    return y.reshape(-1)


@pytest.mark.parametrize("name", BIJECTIVE)
def test_log_determinant_is_that_of_the_jacobian(name):
    build, data = TRANSFORMS[name]
    ours, x = build(WD, of_weft), of_weft(data)
    batch = () if name in ("Reshape", "Cat rows") else (0, 1)
    for row in batch or (None,):
        point = x if row is None else x[row]
        jacobian = weft.autograd.functional.jacobian(lambda v: free(ours(v), name), point)
        size = point.numel()
        expected = weft.linalg.slogdet(jacobian.reshape(size, size)).logabsdet
        found = ours.log_abs_det_jacobian(point, ours(point)).sum()
        np.testing.assert_allclose(array(found), array(expected), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_inverse_and_cache(name):
    build, data = TRANSFORMS[name]
    ours, x = build(WD, of_weft), of_weft(data)
    y = ours(x)
    back = ours.inv(y)
    if ours.bijective or name == "Abs":
        np.testing.assert_allclose(array(back), array(x), rtol=1e-8)
        np.testing.assert_allclose(
            array(ours.inv.log_abs_det_jacobian(y, x)) if ours.bijective else 0.0,
            -array(ours.log_abs_det_jacobian(x, y)) if ours.bijective else 0.0,
        )
    else:
        np.testing.assert_allclose(array(ours(back)), array(y), rtol=1e-8)
    assert ours.inv.inv == ours
    if not name.startswith(("identity", "inverse of Compose")):
        cached = ours.with_cache()
        assert cached.with_cache(1) is cached
        y = cached(x)
        assert cached(x) is y or name.startswith(("Compose",))
        assert cached.inv(y) is x


def test_extremes_keep_log_determinants_finite():
    x = weft.tensor([-500.0, -40.0, 0.0, 40.0, 500.0], dtype=weft.float64)
    for transform in (WD.SigmoidTransform(), WD.TanhTransform(), WD.SoftplusTransform()):
        assert transform.log_abs_det_jacobian(x, transform(x)).isfinite().all()
    np.testing.assert_allclose(array(WD.TanhTransform().log_abs_det_jacobian(x, x))[-1], 2 * (math.log(2) - 500))


def test_equality():
    def t(x):
        return of_weft(x)

    assert WD.ExpTransform() == WD.ExpTransform()
    assert WD.ExpTransform() != WD.TanhTransform()
    assert WD.ExpTransform().inv == WD.ExpTransform().inv
    assert WD.AffineTransform(0, 1) == WD.AffineTransform(t(0.0), t(1.0))
    assert WD.AffineTransform(0, 1) != WD.AffineTransform(0, 2)
    assert WD.PowerTransform(t(2.0)) == WD.PowerTransform(t(2.0))
    assert WD.ComposeTransform([WD.ExpTransform()]) == WD.ComposeTransform([WD.ExpTransform()])
    assert len({WD.ExpTransform(), WD.ExpTransform(), WD.TanhTransform()}) == 2


C, TC = WD.constraints, TD.constraints
REGIONS = {
    "real": lambda c: c.real,
    "positive": lambda c: c.positive,
    "nonnegative": lambda c: c.nonnegative,
    "greater": lambda c: c.greater_than(2.0),
    "less": lambda c: c.less_than(-1.0),
    "unit": lambda c: c.unit_interval,
    "interval": lambda c: c.interval(-2.0, 3.0),
    "half open": lambda c: c.half_open_interval(-2.0, 3.0),
    "vector": lambda c: c.real_vector,
    "positive vector": lambda c: c.independent(c.positive, 1),
    "simplex": lambda c: c.simplex,
    "correlation": lambda c: c.corr_cholesky,
    "cat": lambda c: c.cat([c.positive, c.real], -1, [1, 2]),
    "stack": lambda c: c.stack([c.positive, c.real, c.unit_interval], -1),
    "cholesky": lambda c: c.lower_cholesky,
    "definite": lambda c: c.positive_definite,
    "semidefinite": lambda c: c.positive_semidefinite,
}


@pytest.mark.parametrize("name", REGIONS)
def test_registries(name):
    data = MATRIX if name in ("cholesky", "definite", "semidefinite") else VECTOR
    for ours, theirs in ((WD.transform_to, TD.transform_to), (WD.biject_to, TD.biject_to)):
        region = REGIONS[name](C)
        if ours is WD.biject_to and data is MATRIX:
            with pytest.raises(NotImplementedError, match="Cannot transform"):
                ours(region)
            continue
        transform, expected = ours(region), theirs(REGIONS[name](TC))
        assert repr(transform) == repr(expected)
        y = transform(of_weft(data))
        np.testing.assert_allclose(array(y), array(expected(of_torch(data))), rtol=1e-9)
        assert region.check(y).all()


VALUES = [0.0, 0.5, 1.0, -1.0, 2.0, math.nan, math.inf]
CHECKS = {
    "boolean": (lambda c: c.boolean, VALUES),
    "nonnegative": (lambda c: c.nonnegative, VALUES),
    "nonnegative_integer": (lambda c: c.nonnegative_integer, VALUES),
    "positive": (lambda c: c.positive, VALUES),
    "positive_integer": (lambda c: c.positive_integer, VALUES),
    "real": (lambda c: c.real, VALUES),
    "unit_interval": (lambda c: c.unit_interval, VALUES),
    "half_open_interval": (lambda c: c.half_open_interval(0.0, 1.0), VALUES),
    "integer_interval": (lambda c: c.integer_interval(0, 1), VALUES),
    "less_than": (lambda c: c.less_than(1.0), VALUES),
    "greater_than": (lambda c: c.greater_than(0.5), VALUES),
    "simplex": (lambda c: c.simplex, [[0.5, 0.5], [0.5, 0.5000005], [0.5, 0.50002], [-0.1, 1.1]]),
    "one_hot": (lambda c: c.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]),
    "multinomial": (lambda c: c.multinomial(3), [[1.0, 2.0], [1.0, 3.0], [-1.0, 3.0]]),
    "lower_triangular": (lambda c: c.lower_triangular, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]]),
    "lower_cholesky": (lambda c: c.lower_cholesky, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 0.0], [2.0, 1.0]]]),
    "corr_cholesky": (lambda c: c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.7]]]),
    "square": (lambda c: c.square, [[[1.0, 0.0]]]),
    "symmetric": (lambda c: c.symmetric, [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.5], [0.4, 1.0]]]),
    "positive_semidefinite": (
        lambda c: c.positive_semidefinite,
        [[[1.0, 0.5], [0.5, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]],
    ),
    "positive_definite": (
        lambda c: c.positive_definite,
        [[[1.0, 0.5], [0.5, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]],
    ),
    "independent": (lambda c: c.independent(c.positive, 1), [[1.0, 2.0], [1.0, -1.0]]),
    "cat": (lambda c: c.cat([c.positive, c.real], 0, [1, 2]), [-1.0, 1.0, 1.0]),
    "stack": (lambda c: c.stack([c.positive, c.real], 0), [-1.0, 1.0]),
}


@pytest.mark.parametrize("name", CHECKS)
def test_constraints(name):
    make, data = CHECKS[name]
    ours, theirs = make(C), make(TC)
    np.testing.assert_array_equal(array(ours.check(of_weft(data))), array(theirs.check(of_torch(data))))
    assert (repr(ours), ours.is_discrete, ours.event_dim) == (repr(theirs), theirs.is_discrete, theirs.event_dim)


def test_every_name_of_pytorch_is_there():
    assert set(TC.__all__) <= set(dir(C))
    assert set(TD.transforms.__all__) <= set(dir(WD.transforms))
    assert C.is_dependent(WD.Uniform.support)
    assert C.is_dependent(C.dependent(is_discrete=True, event_dim=1))
    with pytest.raises(ValueError, match="dependent"):
        C.dependent.check(of_weft(1.0))
    with pytest.raises(NotImplementedError, match="statically"):
        _ = C.dependent.event_dim
