"""gradcheck and gradgradcheck: right gradients pass, wrong ones are shown."""

import warnings

import numpy as np
import pytest
import torch

import weft
from weft.autograd import Function, GradcheckError, gradcheck, gradgradcheck

rng = np.random.default_rng(3)


def double(*shape, complex=False):
    values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if complex else 0)
    return weft.tensor(values, requires_grad=True)


class WrongSlope(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class WrongCurvature(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0].detach()  # right value, but no second derivative


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda a, b: (a @ b).tanh(), (double(2, 3), double(3, 2))),
        (lambda a: (a.sin(), a.sum(0), a.argmax()), (double(2, 3),)),
        (lambda a, k: a**k, (weft.tensor([0.5, 1.5], dtype=weft.float64, requires_grad=True), 3)),
        (lambda a: a.T.exp(), (weft.tensor(rng.normal(size=(3, 2))).T.requires_grad_(),)),
        (lambda a: a.sum(), (weft.tensor(rng.normal(size=(4, 6)))[::2, 1::3].requires_grad_(),)),
        (lambda a: a.round(), (double(3),)),
        (lambda a: a.detach() * 0 + 1, (double(3),)),
        (lambda a: a * 2, (double(0, 3),)),
        (lambda a: a.exp(), (double(),)),
        (lambda a: (a * a).abs(), (double(3, complex=True),)),
        (lambda a: (a * a.conj() * a, a.real, a.imag.sin()), (double(3, complex=True),)),
        (lambda a: weft.complex(a, a * 2).exp(), (double(3),)),
    ],
)
def test_right_gradients_pass(function, inputs):
    assert gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True, check_grad_dtypes=True)
    assert gradgradcheck(function, inputs, check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)


def test_wrong_slope_is_shown():
    x = weft.tensor([1.0, 2.0], dtype=weft.float64, requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(WrongSlope.apply, (x,))
    text = str(caught.value)
    assert "numerical" in text and "analytical" in text and "output 0 with respect to input 0" in text
    assert "4.0000" in text and "2.0000" in text
    assert not gradcheck(WrongSlope.apply, (x,), raise_exception=False)


def test_wrong_curvature_is_found():
    x = double(3)
    assert gradcheck(WrongCurvature.apply, (x,))
    assert not gradgradcheck(WrongCurvature.apply, (x,), raise_exception=False)


def test_same_verdicts_as_torch():
    class Wrong(torch.autograd.Function):
        forward = staticmethod(WrongSlope.forward)
        backward = staticmethod(WrongSlope.backward)

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False) is False
    with pytest.raises(RuntimeError):
        gradcheck(WrongSlope.apply, (weft.tensor([1.0, 2.0], dtype=weft.float64, requires_grad=True),))


def test_nondeterminism_is_found():
    calls = []

    def f(x):
        calls.append(1)
        noise = 1e-7 * len(calls)
        return x * (1 + noise)

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(f, (weft.tensor([1.0], dtype=weft.float64, requires_grad=True),), atol=1.0)
    assert gradcheck(f, (weft.tensor([1.0], dtype=weft.float64, requires_grad=True),), atol=1.0, nondet_tol=1e-4)


def test_single_precision_warns():
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda a: a * 2, (weft.ones(2, requires_grad=True),), eps=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradcheck(lambda a: a * 2, (double(2),))


def test_bad_inputs():
    with pytest.raises(ValueError, match="requires_grad=True"):
        gradcheck(lambda a: a, (weft.ones(2),))
    with pytest.raises(RuntimeError, match="share memory"):
        gradcheck(lambda a: a * 2, (weft.ones(1, dtype=weft.float64).expand(3).requires_grad_(),))


def test_inputs_are_put_back():
    x = double(3)
    before = x.detach().clone()
    gradcheck(lambda a: a.exp(), (x,))
    assert weft.equal(before, x.detach()) and x.grad is None
