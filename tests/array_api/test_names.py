"""What must be there: the names of the standard 2024.12, their signatures, element types and the inspection functions."""

import inspect
import math
import warnings

import array_api_strict as strict
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.array_api import make_strategies_namespace

import weft
import weft.array_api as xp

from .oracle import KINDS

NAMES = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast
ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like
equal exp expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot
iinfo imag inf isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and
logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply nan
negative newaxis nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod real reciprocal
remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std
subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts unique_inverse
unique_values unstack var vecdot where zeros zeros_like __array_api_version__ __array_namespace_info__
""".split()
LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv
qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()
FFT = "fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn".split()
ATTRIBUTES = "T device dtype mT ndim shape size".split()
METHODS = """
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__
__floordiv__ __ge__ __getitem__ __gt__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__
__index__ __int__ __invert__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ __le__ __lshift__ __lt__
__matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rand__ __rfloordiv__ __rlshift__
__rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __setitem__
__sub__ __truediv__ __xor__ to_device
""".split()


def test_all_names_are_there():
    assert xp.__array_api_version__ == "2024.12"
    assert not [name for name in (*NAMES, *KINDS["all"]) if not hasattr(xp, name)]
    assert not [name for name in LINALG if not hasattr(xp.linalg, name)]
    assert not [name for name in FFT if not hasattr(xp.fft, name)]
    array = xp.ones((1, 1))
    assert not [name for name in (*ATTRIBUTES, *METHODS) if not hasattr(array, name)]
    assert sorted(xp.__all__) == sorted({*NAMES, *KINDS["all"], "Array", "linalg", "fft"})
    assert (xp.pi, xp.e, xp.inf, xp.newaxis) == (math.pi, math.e, math.inf, None) and math.isnan(xp.nan)


def parameters(function):
    return [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]


def defaults(function):
    found = {p.name: p.default for p in inspect.signature(function).parameters.values()}
    unset = (inspect.Parameter.empty,)
    return {n: None if type(d).__name__ == "Undef" else d for n, d in found.items() if d not in unset}


@pytest.mark.parametrize(
    ("space", "name"),
    [("", n) for n in NAMES if callable(getattr(xp, n))] + [("linalg", n) for n in LINALG] + [("fft", n) for n in FFT],
)
def test_signatures(space, name):
    ours, theirs = (getattr(getattr(s, space) if space else s, name) for s in (xp, strict))
    assert parameters(ours) == parameters(theirs)
    if name != "expand_dims":  # takes an axis of 0 by default, as older versions of the standard
        assert defaults(ours) == defaults(theirs)


@pytest.mark.parametrize(
    "name", [n for n in METHODS if n.startswith("__") and (n[:3] != "__i" or n in ("__int__", "__index__"))]
)
def test_method_signatures(name):
    ours, theirs = getattr(xp.Array, name), getattr(type(strict.ones(1)), name)
    mine = [(n, k) for n, k in parameters(ours) if n != "self"]
    wanted = [(n, k) for n, k in parameters(theirs) if n != "self"]
    assert mine == wanted


def test_positional_arguments_are_positional_only():
    x = xp.ones(3)
    with pytest.raises(TypeError):
        xp.sin(x=x)
    with pytest.raises(TypeError):
        xp.add(x1=x, x2=x)
    with pytest.raises(TypeError):
        xp.sum(x, 0)


def test_element_types():
    types = [getattr(xp, name) for name in KINDS["all"]]
    for i, one in enumerate(types):
        for j, other in enumerate(types):
            assert (one == other) is (i == j)
    assert len({*types}) == len(types)
    for kind in (
        "bool",
        "signed integer",
        "unsigned integer",
        "integral",
        "real floating",
        "complex floating",
        "numeric",
    ):
        for name in KINDS["all"]:
            assert xp.isdtype(getattr(xp, name), kind) == strict.isdtype(getattr(strict, name), kind)
    assert xp.isdtype(xp.float32, (xp.int8, "real floating")) and not xp.isdtype(xp.float32, xp.float64)
    with pytest.raises(ValueError, match="kind"):
        xp.isdtype(xp.int8, "small")


def test_casting_and_promotion_tables():
    for first in KINDS["all"]:
        for second in KINDS["all"]:
            ours, theirs = ([getattr(s, n) for n in (first, second)] for s in (xp, strict))
            if strict.can_cast(*theirs):
                assert xp.can_cast(*ours) and xp.can_cast(xp.zeros(2, dtype=ours[0]), ours[1])
            try:
                wanted = str(strict.result_type(*theirs)).rpartition(".")[2]
            except TypeError:
                continue  # mixed kinds are left open
            assert xp.result_type(*ours).name == wanted
            assert xp.result_type(xp.asarray(1, dtype=ours[0]), ours[1]).name == wanted
    assert not xp.can_cast(xp.int64, xp.int32) and not xp.can_cast(xp.uint64, xp.int64)


def test_promotion_with_numbers():
    assert xp.result_type(xp.float32, 1, 2.0) is xp.float32
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.result_type(xp.float64, 1j) is xp.complex128
    assert xp.result_type(xp.uint8, 3, True) is xp.uint8
    with pytest.raises(TypeError):
        xp.result_type(1, 2.0)
    with pytest.raises(TypeError):
        xp.result_type()


@pytest.mark.parametrize("name", KINDS["integer"] + KINDS["floating"])
def test_limits(name):
    question = "iinfo" if name in KINDS["integer"] else "finfo"
    ours, theirs = getattr(xp, question)(getattr(xp, name)), getattr(strict, question)(getattr(strict, name))
    for attribute in ("bits", "max", "min", *(("eps", "smallest_normal") if question == "finfo" else ())):
        found = getattr(ours, attribute)
        assert found == getattr(theirs, attribute)
        assert type(found) is (int if question == "iinfo" or attribute == "bits" else float)
    assert ours.dtype.name == str(theirs.dtype).rpartition(".")[2]
    assert getattr(xp, question)(xp.ones(1, dtype=getattr(xp, name))) == ours


def test_inspection():
    info = xp.__array_namespace_info__()
    capabilities = info.capabilities()
    assert capabilities["boolean indexing"] is True and capabilities["data-dependent shapes"] is True
    assert xp.zeros((1,) * capabilities["max dimensions"]).ndim == capabilities["max dimensions"]
    assert info.default_device() in info.devices()
    assert info.default_dtypes(device=info.default_device()) == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert set(info.dtypes()) == set(strict.__array_namespace_info__().dtypes())
    for kind in ("bool", "integral", "numeric", ("bool", "real floating")):
        assert set(info.dtypes(kind=kind)) == set(strict.__array_namespace_info__().dtypes(kind=kind))
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="small")


def test_the_default_type_follows_weft():
    weft.set_default_dtype(weft.float64)
    try:
        assert xp.asarray(1.0).dtype is xp.zeros(2).dtype is xp.float64
        assert xp.__array_namespace_info__().default_dtypes()["complex floating"] is xp.complex128
    finally:
        weft.set_default_dtype(weft.float32)


with warnings.catch_warnings():
    warnings.simplefilter("error")
    xps = make_strategies_namespace(xp)


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(xps.arrays(xps.scalar_dtypes(), xps.array_shapes(min_dims=0, min_side=0)))
def test_hypothesis_draws_arrays(x):
    assert isinstance(x, xp.Array) and x.dtype.name in KINDS["all"] and x.size == math.prod(x.shape)
