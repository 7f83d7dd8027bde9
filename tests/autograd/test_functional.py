"""weft.autograd.functional against torch.autograd.functional."""

import numpy as np
import pytest

from .oracle import same, same_error

rng = np.random.default_rng(4)
X, Y, A = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(2, 3))


def F(m):
    return m.autograd.functional


def cubes(a):
    return (a**3).sum()


def mixed(a, b):
    return (a * a * b).sum() + b.prod()


CASES = {
    "jacobian": (lambda m, x: F(m).jacobian(lambda a: a.sin() * a.sum(), x), X),
    "jacobian vectorized": (lambda m, x: F(m).jacobian(lambda a: a.sin() * a.sum(), x, vectorize=True), X),
    "jacobian forward": (
        lambda m, x: F(m).jacobian(lambda a: a.sin() * a.sum(), x, vectorize=True, strategy="forward-mode"),
        X,
    ),
    "jacobian of a matrix": (lambda m, a: F(m).jacobian(lambda a: (a * a).sum(1), a), A),
    "jacobian of several": (lambda m, x, y: F(m).jacobian(lambda a, b: (a * b, a.sum()), (x, y)), X, Y),
    "jacobian of a constant": (lambda m, x: F(m).jacobian(lambda a: m.ones(2), x), X),
    "jacobian with graph": (lambda m, x: F(m).jacobian(lambda a: a**2, x, create_graph=True), X),
    "jacobian of linear with graph": (
        lambda m, x: F(m).jacobian(lambda a: a * 2, x.requires_grad_(), create_graph=True),
        X,
    ),
    "hessian": (lambda m, x: F(m).hessian(cubes, x), X),
    "hessian vectorized": (lambda m, x: F(m).hessian(cubes, x, vectorize=True), X),
    "hessian forward": (
        lambda m, x: F(m).hessian(cubes, x, vectorize=True, outer_jacobian_strategy="forward-mode").detach(),
        X,
    ),
    "hessian of two": (lambda m, x, y: F(m).hessian(mixed, (x, y)), X, Y),
    "vjp": (lambda m, x, y: F(m).vjp(lambda a: a.exp(), x, y), X, Y),
    "vjp of a scalar": (lambda m, x: F(m).vjp(lambda a: a.sum(), (x,)), X),
    "vjp of several": (lambda m, x, y: F(m).vjp(lambda a, b: (a * b, a), (x, y), (y, x)), X, Y),
    "jvp": (lambda m, x, y: F(m).jvp(lambda a: a.exp() * a.sum(), x, y), X, Y),
    "jvp of several": (lambda m, x, y: F(m).jvp(lambda a, b: (a * b, b), (x, y), (y, x)), X, Y),
    "hvp": (lambda m, x, y: F(m).hvp(cubes, x, y), X, Y),
    "hvp of two": (lambda m, x, y: F(m).hvp(mixed, (x, y), (y, x)), X, Y),
    "vhp": (lambda m, x, y: F(m).vhp(cubes, x, y), X, Y),
    "vhp of two": (lambda m, x, y: F(m).vhp(mixed, (x, y), (y, x)), X, Y),
    "vhp with graph": (lambda m, x, y: F(m).vhp(cubes, x, y, create_graph=True)[1], X, Y),
}


@pytest.mark.parametrize("name", CASES)
def test_like_torch(name):
    function, *arrays = CASES[name]
    same(function, *arrays)


ERRORS = {
    "strict constant": lambda m, x: F(m).jacobian(lambda a: m.ones(2), x, strict=True),
    "strict unused": lambda m, x: F(m).jacobian(lambda a, b: a * 2, (x, x), strict=True),
    "strict linear": lambda m, x: F(m).jacobian(lambda a: a * 2, x, strict=True, create_graph=True),
    "hessian of a vector": lambda m, x: F(m).hessian(lambda a: a, x),
    "strict hessian": lambda m, x: F(m).hessian(lambda a: a.sum(), x, strict=True),
    "vjp without v": lambda m, x: F(m).vjp(lambda a: a * 2, x),
    "jvp without v": lambda m, x: F(m).jvp(lambda a: a * 2, x),
    "strict jvp": lambda m, x: F(m).jvp(lambda a: m.ones(2), x, x, strict=True),
    "length of v": lambda m, x: F(m).vhp(lambda a, b: (a * b).sum(), (x, x), (x,)),
    "size of v": lambda m, x: F(m).vjp(lambda a: a * 2, x, m.ones(5)),
    "forward without vectorize": lambda m, x: F(m).jacobian(lambda a: a * 2, x, strategy="forward-mode"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_like_torch(name):
    assert len(same_error(ERRORS[name], X)) > 20


@pytest.mark.parametrize(
    "call", [lambda m, x: F(m).jacobian(lambda a: 3.0, x), lambda m, x: F(m).jacobian(lambda a: a, 3.0)]
)
def test_type_errors(call):
    import weft

    with pytest.raises(TypeError, match="tensor"):
        call(weft, weft.tensor(X))
