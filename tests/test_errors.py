"""Bad calls: each raises the right class, and the message names the operation, what came, and a remedy."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import weft
from weft import errors

NAN = float("nan")


def t(*shape, **options):
    return weft.ones(*shape, **options)


def leaf(*shape):
    return weft.ones(*shape).requires_grad_()


def ints(*values):
    return weft.tensor(list(values))


def _backward_twice():
    x = leaf(3)
    y = (x * x).sum()
    y.backward()
    y.backward()


def _modified():
    x = leaf(3)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def _in_place_leaf():
    leaf(3).add_(1)


def _in_place_view_of_leaf():
    leaf(3)[0].add_(1)


def _nan_index():
    return t(3)[weft.tensor([NAN])]


def _nan_gradient():
    x = weft.tensor([-1.0], requires_grad=True)
    with warnings.catch_warnings(), weft.autograd.detect_anomaly():
        warnings.simplefilter("ignore")
        (x.sqrt() * 0).sum().backward()


def _wrong_generator():
    return weft.rand(3, generator=np.random.default_rng(0))


def _bad_rng_state():
    weft.set_rng_state(weft.zeros(3, dtype=weft.uint8))


# (name, call, class, words that the message must hold)
CALLS = [
    # shapes
    ("add", lambda: t(3) + t(4), errors.ShapeError, ["add", "3", "4"]),
    ("add broadcast", lambda: t(2, 3) + t(2, 4), errors.ShapeError, ["add", "(2, 3)", "(2, 4)", "reshape"]),
    ("mul", lambda: t(2, 3) * t(3, 2), errors.ShapeError, ["mul", "(2, 3)", "(3, 2)"]),
    ("where", lambda: weft.where(t(2) > 0, t(3), t(3)), errors.ShapeError, ["where", "2", "3"]),
    ("matmul inner", lambda: t(2, 3) @ t(2, 3), errors.ShapeError, ["matmul", "(2, 3)", "mT"]),
    ("matmul 0-d", lambda: weft.tensor(1.0) @ t(2), errors.ShapeError, ["matmul", "0D", "1D"]),
    ("mm", lambda: weft.mm(t(2), t(2, 2)), errors.ShapeError, ["mm", "2"]),
    ("bmm", lambda: weft.bmm(t(2, 2), t(2, 2, 2)), errors.ShapeError, ["bmm", "3"]),
    ("dot", lambda: weft.dot(t(2), t(3)), errors.ShapeError, ["dot", "2", "3"]),
    ("reshape", lambda: t(2, 3).reshape(4), errors.ShapeError, ["reshape", "[4]", "6"]),
    ("reshape two -1", lambda: t(2, 3).reshape(-1, -1), errors.ShapeError, ["reshape", "one dimension"]),
    ("view", lambda: t(2, 3).mT.view(6), errors.ShapeError, ["view", "reshape"]),
    ("expand", lambda: t(3).expand(4), errors.ShapeError, ["expand", "4", "3"]),
    ("cat", lambda: weft.cat([t(2, 3), t(2, 4)]), errors.ShapeError, ["cat", "(2, 3)", "(2, 4)"]),
    ("cat empty", lambda: weft.cat([]), errors.ShapeError, ["cat", "non-empty"]),
    ("stack", lambda: weft.stack([t(2), t(3)]), errors.ShapeError, ["stack", "[2]", "[3]"]),
    ("split", lambda: t(5).split([2, 2]), errors.ShapeError, ["split", "5"]),
    ("unfold", lambda: t(3).unfold(0, 5, 1), errors.ShapeError, ["unfold", "5", "3"]),
    ("as_strided", lambda: t(3).as_strided((4,), (1,)), errors.ShapeError, ["as_strided", "bounds"]),
    ("gather", lambda: t(2, 3).gather(1, ints(0)), errors.ShapeError, ["gather", "dimensions"]),
    ("masked_fill", lambda: t(3).masked_fill(t(4) > 0, 0), errors.ShapeError, ["masked_fill", "3", "4"]),
    ("einsum", lambda: weft.einsum("ij,jk->ik", t(2, 3), t(2, 3)), errors.ShapeError, ["einsum", "j"]),
    ("copy_", lambda: t(3).copy_(t(4)), errors.ShapeError, ["copy_", "3", "4"]),
    ("in-place growth", lambda: t(3).add_(t(2, 3)), errors.ShapeError, ["add_", "3"]),
    ("expanded write", lambda: t(1).expand(3).add_(1), errors.ShapeError, ["add_", "memory", "clone"]),
    ("ragged", lambda: weft.tensor([[1, 2], [3]]), errors.ShapeError, ["tensor", "equal"]),
    ("negative size", lambda: weft.zeros(-1), errors.ShapeError, ["zeros", "-1"]),
    ("item", lambda: t(2).item(), errors.ShapeError, ["item", "2 elements"]),
    ("bool", lambda: bool(t(2)), errors.ShapeError, ["bool", "ambiguous", "any"]),
    # dimensions and indices
    ("sum dim", lambda: t(2, 3).sum(2), errors.IndexRangeError, ["sum", "[-2, 1]", "2"]),
    ("softmax dim", lambda: t(2).softmax(3), errors.IndexRangeError, ["softmax", "[-1, 0]", "3"]),
    ("transpose", lambda: t(2, 3).transpose(0, 5), errors.IndexRangeError, ["transpose", "5"]),
    ("permute twice", lambda: t(2, 3).permute(0, 0), errors.ShapeError, ["permute", "multiple"]),
    ("permute short", lambda: t(2, 3).permute(0), errors.ShapeError, ["permute", "2"]),
    ("repeated dim", lambda: t(2, 3).sum((0, 0)), errors.ShapeError, ["sum", "dim 0", "multiple"]),
    ("index", lambda: t(3)[5], errors.IndexRangeError, ["index", "5", "3"]),
    ("index array", lambda: t(3)[ints(0, 7)], errors.IndexRangeError, ["index", "7", "3"]),
    ("too many", lambda: t(3)[0, 0], errors.IndexRangeError, ["too many", "1"]),
    ("mask", lambda: t(3)[weft.tensor([True, False])], errors.IndexRangeError, ["mask", "2", "3"]),
    ("nan index", _nan_index, errors.IndexRangeError, ["index", "float32"]),
    ("index_select", lambda: t(3).index_select(0, ints(4)), errors.IndexRangeError, ["index_select", "4", "3"]),
    ("scatter", lambda: t(3).scatter(0, ints(9), 1.0), errors.IndexRangeError, ["scatter", "9", "3"]),
    ("take", lambda: t(3).take(ints(3)), errors.IndexRangeError, ["take", "3"]),
    ("select", lambda: t(3).select(0, 4), errors.IndexRangeError, ["select", "4"]),
    ("narrow", lambda: t(3).narrow(0, 1, 5), errors.ShapeError, ["narrow", "5", "3"]),
    ("argmax empty", lambda: t(0).argmax(), errors.IndexRangeError, ["argmax", "empty"]),
    ("max empty", lambda: t(0, 3).max(0), errors.IndexRangeError, ["max", "0"]),
    ("kthvalue", lambda: t(3).kthvalue(4), errors.IndexRangeError, ["kthvalue", "4"]),
    ("topk", lambda: t(3).topk(4), errors.IndexRangeError, ["topk", "4", "3"]),
    ("len 0-d", lambda: len(weft.tensor(1.0)), TypeError, ["len", "0-d"]),
    ("unbind 0-d", lambda: weft.tensor(1.0).unbind(), errors.ShapeError, ["unbind"]),
    # element types
    ("bitwise", lambda: t(2) & t(2), errors.DtypeError, ["bitwise_and", "float32"]),
    ("bool minus", lambda: (t(2) > 0) - (t(2) > 0), errors.DtypeError, ["sub", "logical_xor"]),
    (
        "matmul types",
        lambda: t(2, 2) @ t(2, 2, dtype=weft.float64),
        errors.DtypeError,
        ["matmul", "float32", "float64"],
    ),
    ("mean of ints", lambda: ints(1, 2).mean(), errors.DtypeError, ["mean", "int64", "float"]),
    ("int in-place", lambda: ints(1, 2).div_(2), errors.DtypeError, ["div_", "float32", "int64"]),
    ("negative power", lambda: ints(1, 2) ** -1, errors.DtypeError, ["pow", "negative", "float"]),
    ("complex order", lambda: t(2).to(weft.complex64) < 1, errors.DtypeError, ["lt", "complex64"]),
    ("index type", lambda: t(3).gather(0, t(1)), errors.DtypeError, ["gather", "int64", "float32"]),
    ("text", lambda: weft.tensor(["a"]), TypeError, ["tensor", "numbers"]),
    ("object array", lambda: weft.from_numpy(np.array([None])), errors.DtypeError, ["object", "float32"]),
    ("grad of ints", lambda: ints(1).requires_grad_(), errors.AutogradError, ["requires_grad", "int64", "float"]),
    ("unknown type", lambda: weft.zeros(2, dtype="float17"), errors.DtypeError, ["float17", "float32"]),
    ("set_default_dtype", lambda: weft.set_default_dtype(weft.int64), TypeError, ["set_default_dtype", "int64"]),
    ("finfo of ints", lambda: weft.finfo(weft.int64), TypeError, ["finfo", "iinfo"]),
    ("where mask", lambda: weft.where(t(2), 1.0, 0.0), errors.DtypeError, ["where", "boolean", "float32"]),
    ("device", lambda: weft.zeros(2, device="cuda"), errors.DeviceError, ["cuda", "cpu"]),
    ("division", lambda: ints(1) // ints(0), ZeroDivisionError, ["floor_divide", "zero"]),
    # differentiation
    ("in-place leaf", _in_place_leaf, errors.AutogradError, ["add_", "leaf", "no_grad"]),
    ("in-place view", _in_place_view_of_leaf, errors.AutogradError, ["add_", "view", "no_grad"]),
    ("backward twice", _backward_twice, errors.AutogradError, ["backward", "second time", "retain_graph"]),
    ("non-scalar", lambda: (leaf(3) * 2).backward(), errors.AutogradError, ["backward", "scalar", "(3,)"]),
    ("no graph", lambda: t(1).sum().backward(), errors.AutogradError, ["backward", "does not require grad"]),
    ("gradient shape", lambda: (leaf(3) * 2).backward(t(4)), errors.ShapeError, ["backward", "(4,)", "(3,)"]),
    ("modified", _modified, errors.AutogradError, ["inplace", "ExpBackward0", "[3]", "clone"]),
    ("numpy", lambda: leaf(3).numpy(), errors.AutogradError, ["numpy", "detach"]),
    ("unused", lambda: weft.autograd.grad(leaf(1).sum(), leaf(1)), errors.AutogradError, ["grad", "allow_unused"]),
    ("not required", lambda: weft.autograd.grad(leaf(1).sum(), t(1)), errors.AutogradError, ["requires_grad_"]),
    ("hook", lambda: t(1).register_hook(print), errors.AutogradError, ["register_hook", "require"]),
    ("grad shape", lambda: setattr(leaf(3), "grad", t(4)), errors.ShapeError, ["grad", "(4,)", "(3,)"]),
    ("out with grad", lambda: weft.exp(leaf(3), out=t(3)), errors.AutogradError, ["exp", "out="]),
    ("requires_grad off", lambda: (leaf(3) * 2).requires_grad_(False), errors.AutogradError, ["leaf", "detach"]),
    ("nan gradient", _nan_gradient, errors.AutogradError, ["detect_anomaly", "SqrtBackward0", "test_errors.py"]),
    ("deepcopy", lambda: __import__("copy").deepcopy(leaf(3) * 2), errors.AutogradError, ["deepcopy", "detach"]),
    # linear algebra
    ("singular", lambda: weft.linalg.inv(t(2, 2)), errors.LinAlgError, ["inv", "singular"]),
    ("not definite", lambda: weft.linalg.cholesky(-weft.eye(2)), errors.LinAlgError, ["cholesky", "positive"]),
    ("not square", lambda: weft.linalg.det(t(2, 3)), errors.ShapeError, ["det", "square", "(2, 3)"]),
    ("solve", lambda: weft.linalg.solve(t(2, 2), t(2)), errors.LinAlgError, ["solve", "singular"]),
    ("integer matrix", lambda: weft.linalg.inv(weft.eye(2, dtype=weft.int64)), errors.DtypeError, ["inv", "int64"]),
    # random numbers
    ("generator", _wrong_generator, (TypeError, errors.GeneratorError), ["enerator"]),
    ("rng state", _bad_rng_state, (ValueError, errors.GeneratorError), ["state"]),
    ("randint", lambda: weft.randint(5, 5, (2,)), (ValueError, RuntimeError), ["randint", "5"]),
    ("multinomial", lambda: weft.multinomial(weft.tensor([-1.0, 2.0]), 1), (ValueError, RuntimeError), ["multinomial"]),
    ("normal std", lambda: weft.normal(0.0, -1.0, (2,)), (ValueError, RuntimeError), ["normal", "-1"]),
    ("bernoulli", lambda: weft.bernoulli(weft.tensor([2.0])), (ValueError, RuntimeError), ["bernoulli"]),
    # transforms
    ("vmap sizes", lambda: weft.vmap(weft.add)(t(2), t(3)), (ValueError, RuntimeError), ["vmap", "2", "3"]),
    ("vmap item", lambda: weft.vmap(lambda x: x.item())(t(3)), errors.TransformError, ["vmap", "item"]),
    # other options
    ("clamp", lambda: t(2).clamp(), ValueError, ["clamp", "min"]),
    ("rounding", lambda: weft.div(t(2), 2, rounding_mode="up"), ValueError, ["div", "'floor'", "'up'"]),
    ("arange", lambda: weft.arange(0, 5, 0), (ValueError, RuntimeError), ["arange", "step"]),
    ("quantile", lambda: t(3).quantile(2.0), (ValueError, RuntimeError), ["quantile", "0"]),
    ("broken pickle", lambda: pickle.loads(pickle.dumps(t(2))[:-4]), (pickle.UnpicklingError, EOFError), []),
]


def test_the_table_is_long_enough():
    assert len(CALLS) >= 60


@pytest.mark.parametrize(("call", "kind", "words"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_bad_call(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    missing = [word for word in words if word not in message]
    assert not missing, f"{missing} not in: {message}"
