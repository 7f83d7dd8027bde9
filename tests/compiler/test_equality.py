"""Every operation of the register compiled: values and gradients equal those of eager code.

The calls are those of `tests/ops/samples`, with several element types and memory layouts, half of them with captured
tensors instead of arguments. Many calls run in one compiled function.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.ops.harness import ROWS, WITHOUT, calls_of, draw, resolve, to_weft
from tests.ops.samples.base import S, T
from weft.errors import TraceError
from weft.ops.core.primitive import OPERATIONS
from weft.utils.pytree import tree_flatten

from .comparing import difference

TOGETHER = 40
LARGER = 17  # how many times longer the dimensions of large samples are; 7 with more than two of them

# The sizes of their results depend on the values of tensors: compiling is refused where these are many.
NEEDS_VALUES = {
    "repeat_interleave": lambda x: weft.repeat_interleave(x, x),
    "unique": lambda x: x.unique(),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "histogram": lambda x: weft.histogram(x.float(), 3),
    "histogramdd": lambda x: weft.histogramdd(x.float().reshape(-1, 2), 3),
}

# (operation, layout) that are left out: most are results that rounding alone decides.
DEPARTURES: dict[tuple[str, str], str] = {
    **{(name, "expanded"): "the slope of a standard deviation that is 0" for name in ("std", "std_mean", "corrcoef")},
    **{(name, "large"): "the difference of two large terms near 0" for name in ("sinc", "special.sinc")},
    **{(name, "expanded"): "slopes of singular vectors of equal values" for name in ("pca_lowrank", "svd_lowrank")},
    ("kron", "large"): "takes seconds in NumPy",
}

# Operations without samples in tests/ops: calls for them, or why there are none.
SPD, TALL = T((2, 3, 3), kind="spd"), T((2, 4, 2))
MORE: dict[str, list[S]] = {
    **{name: [S(SPD)] for name in ("linalg.eigh", "linalg.eig", "linalg.eigvals", "linalg.eigvalsh")},
    **{name: [S(SPD)] for name in ("linalg.cholesky", "linalg.cholesky_ex", "cholesky", "cholesky_inverse")},
    "linalg.svd": [S(SPD), S(TALL, full_matrices=False)],
    "svd": [S(SPD)],
    "cholesky_solve": [S(T((2, 3, 2)), SPD)],
    "linalg.ldl_solve": [S(SPD, T((2, 3), 1, 0, "int32"), T((2, 3, 2)))],
    "special.softmax": [S(T((3, 4)), 1)],
    "special.log_softmax": [S(T((3, 4)), 0)],
    "as_strided_scatter": [S(T((3, 4)), T((2, 2)), (2, 2), (4, 1))],
    "svd_lowrank": [S(T((6, 4)), 2)],
    "pca_lowrank": [S(T((6, 4)), 2)],
    "tensor": [S([[1.0, 2.0], [3.0, 4.0]])],
    "as_tensor": [S([1, 2]), S(T((3,)))],
    "asarray": [S(T((3,)))],
}
UNCOMPARED = {
    **dict.fromkeys(("empty", "empty_like", "empty_permuted", "empty_strided"), "what they hold is not defined"),
    **dict.fromkeys(("from_dlpack", "from_numpy", "frombuffer", "to_dlpack"), "take or give memory of other libraries"),
    **dict.fromkeys(
        (
            *("sparse.addmm", "sparse.from_scipy", "sparse.mm", "sparse.sum", "sparse_coo_tensor", "sparse_csr_tensor"),
            *("spmm", "dsmm", "sparse.softmax", "sparse.log_softmax"),
            *(f"sparse.{kind}Tensor" for kind in ("Double", "Float", "Half", "Int", "Long")),
        ),
        "sparse tensors are no arrays: tests/compiler/test_special_plans.py",
    ),
}


# ------------------------------------------------------------------------------------------------- calls


@dataclasses.dataclass
class Call:
    """One sample of an operation in one element type and layout."""

    name: str
    sample: S
    dtype: str
    layout: str

    def __post_init__(self) -> None:
        row = OPERATIONS[self.name]
        sample = grown(self.sample) if self.layout == "large" else self.sample
        grad = self.dtype in ("float32", "float64", "complex64") and row.differentiable
        args, kwargs = draw(sample, self.dtype, "contiguous" if self.layout == "large" else self.layout)
        self.args, self.kwargs = [to_weft(a, grad) for a in args], {k: to_weft(v, grad) for k, v in kwargs.items()}
        self.function = resolve(weft, self.name)

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The result, and the gradients of a weighted sum of it."""
        result = self.function(*args, **kwargs)
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, weft.Tensor) and x.requires_grad]
        made = [y for y in tree_flatten(result)[0] if isinstance(y, weft.Tensor) and y.requires_grad]
        if not tensors or not made:
            return result, ()
        return result, weft.autograd.grad(made, tensors, [weights(y) for y in made], allow_unused=True)

    def works(self) -> bool:
        """Whether eager code takes the call in this type and layout."""
        try:
            self(self.args, self.kwargs)
        except Exception:
            return False
        return True


def grown(sample: S) -> S:
    """The call with larger tensors."""

    def one(value: Any) -> Any:
        if isinstance(value, T):
            times = LARGER if len(value.shape) < 3 else 7
            return dataclasses.replace(value, shape=tuple(n * times if n > 1 else n for n in value.shape))
        return type(value)(map(one, value)) if isinstance(value, (list, tuple)) else value

    return S(*map(one, sample.args), **{k: one(v) for k, v in sample.kwargs.items()})


def weights(y: weft.Tensor) -> weft.Tensor:
    angles = np.arange(y.numel()).reshape(tuple(y.shape))
    array = np.cos(angles) + 0.5 + (1j * np.sin(angles) if y.is_complex() else 0)
    return weft.from_numpy(np.asarray(array)).to(y.dtype)


def calls(names: Sequence[str], dtype: str, layout: str) -> Iterator[Call]:
    for name in names:
        for sample in MORE.get(name) or calls_of(OPERATIONS[name]):
            if (name, layout) not in DEPARTURES:
                call = Call(name, sample, dtype, layout)
                if call.works() and not (name in NEEDS_VALUES and refused(call, call.args, call.kwargs)):
                    yield call


def refused(call: Callable[..., Any], *given: Any) -> bool:
    """Whether tracing refuses the call, in words that name the line and the remedy."""
    try:
        weft.compile(call).graph(*given)
    except TraceError as error:
        assert "test_equality.py:" in str(error) and "where" in str(error) and "fallback='eager'" in str(error)
        return True
    return False


def compare(some: Sequence[Call], captured: bool) -> None:
    """One function of all calls, run and compiled."""

    def run(packs: Any) -> list[Any]:
        return [call(*(pack or (call.args, call.kwargs))) for call, pack in zip(some, packs, strict=True)]

    packs = [None if captured else (call.args, call.kwargs) for call in some]
    weft.manual_seed(0)
    expected = run(packs)
    weft.manual_seed(0)
    found = weft.compile(run)(packs)
    for call, x, y in zip(some, expected, found, strict=True):
        assert not (reason := difference(x, y)), f"{call}: {reason}"


# ------------------------------------------------------------------------------------------------- tests

NAMES = sorted({*ROWS, *MORE})
PARTS = 6
FORMS = [
    *itertools.product(("float32",), ("contiguous", "transposed", "expanded", "empty", "0-d", "large")),
    *itertools.product(("float64",), ("contiguous", "stepped")),
    *itertools.product(("int64", "int32", "uint8", "bool", "complex64", "float16", "bfloat16"), ("contiguous",)),
    ("int64", "large"),
]


def test_every_operation_is_compared() -> None:
    missing = sorted(set(OPERATIONS) - set(NAMES) - set(UNCOMPARED) - set(RANDOM))
    assert not missing
    assert set(UNCOMPARED) <= set(WITHOUT)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "layout"), FORMS, ids=["-".join(f) for f in FORMS])
@pytest.mark.parametrize("part", range(PARTS))
def test_operations_compiled_are_eager(part: int, dtype: str, layout: str, record_property: Any) -> None:
    found = list(calls(NAMES[part::PARTS], dtype, layout))
    for n, start in enumerate(range(0, len(found), TOGETHER)):
        compare(found[start : start + TOGETHER], captured=n % 2 == 1)
    record_property("operations", sorted({call.name for call in found}))
    record_property("cases", len(found))


@pytest.mark.parametrize("name", sorted(NEEDS_VALUES))
def test_what_needs_the_values_of_many_elements_is_refused(name: str) -> None:
    """Sizes of results that depend on values hold as long as these do, which is compared at every call."""
    call = NEEDS_VALUES[name]
    assert refused(call, weft.arange(70_000) % 5) and not refused(call, weft.arange(70) % 5)


# ---------------------------------------------------------------------------------------- random numbers

P = weft.linspace(0.1, 0.9, 5000)
RANDOM: dict[str, Callable[[], Any]] = {
    "uniform": lambda: [
        weft.uniform(-1.0, 3.0, (n,), dtype=t) for n in (1, 5000) for t in (weft.float32, weft.float64)
    ],
    "rand": lambda: [weft.rand(n, dtype=t) for n in (1, 7, 5000) for t in (weft.float32, weft.float64)],
    "randn": lambda: [weft.randn(n, dtype=t) for n in (1, 7, 5000) for t in (weft.float32, weft.float64)],
    "randint": lambda: [weft.randint(a, b, (5000,)) for a, b in ((0, 10), (-5, 6), (0, 2**40))],
    "randperm": lambda: [weft.randperm(100), weft.randperm(1)],
    "rand_like": lambda: weft.rand_like(P),
    "randn_like": lambda: weft.randn_like(P),
    "randint_like": lambda: weft.randint_like(P, 3, 9),
    "bernoulli": lambda: [weft.bernoulli(P), weft.bernoulli(P, 0.3), weft.bernoulli(P[:7].double())],
    "normal": lambda: [weft.normal(P, P + 1), weft.normal(2.0, 3.0, (5000,)), weft.normal(P, 0.5)],
    "poisson": lambda: weft.poisson(P * 9),
    "binomial": lambda: weft.binomial(weft.full((5000,), 9.0), P),
    "multinomial": lambda: [weft.multinomial(P, 20), weft.multinomial(P[:8], 20, replacement=True)],
    "in place": lambda: [
        weft.zeros(5000).uniform_(-1, 3),
        weft.zeros(5000).normal_(1, 2),
        weft.zeros(5000, dtype=weft.float64).exponential_(0.5),
        weft.zeros(5000).bernoulli_(0.2),
        weft.zeros(5000).cauchy_(),
        weft.zeros(5000).log_normal_(),
        weft.zeros(5000).geometric_(0.3),
        weft.zeros(5000, dtype=weft.int64).random_(0, 100),
        weft.zeros(60, 80).t().uniform_(),
    ],
    "dropout": lambda: [
        F.dropout(P, 0.3),
        F.dropout1d(P.reshape(5, 10, 100)),
        F.dropout2d(P.reshape(5, 10, 10, 10)),
        F.dropout3d(P.reshape(5, 10, 10, 5, 2)),
        F.alpha_dropout(P, 0.3, True),
        F.feature_alpha_dropout(P.reshape(5, 10, 100), 0.3, True),
        F.rrelu(-P, training=True),
        F.gumbel_softmax(P.reshape(50, 100)),
        F.gumbel_softmax(P.reshape(50, 100), hard=True),
    ],
}
ROUNDED = {"dropout": 1e-6, "in place": 1e-6, "normal": 1e-6}  # numbers computed from those drawn


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", RANDOM)
def test_random_streams_are_those_of_eager_code(name: str, threads: int, record_property: Any) -> None:
    """Bit by bit, over three calls and after them."""
    weft.manual_seed(3)
    expected = [weft.rand(3), *(RANDOM[name]() for _ in range(3)), weft.rand(3)]
    weft.manual_seed(3)
    run = weft.compile(RANDOM[name], threads=threads)
    found = [weft.rand(3), *(run() for _ in range(3)), weft.rand(3)]
    for x, y in zip(tree_flatten(expected)[0], tree_flatten(found)[0], strict=True):
        assert x.dtype is y.dtype
        far = np.abs(np.float64(x.numpy()) - np.float64(y.numpy())).max()
        assert far <= ROUNDED.get(name, 0) * float(x.abs().max()), f"differ by {far}"
    record_property("cases", len(tree_flatten(expected)[0]))
