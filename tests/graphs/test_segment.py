"""Reductions over groups and edges against PyTorch's scatter_reduce, softmax and closed forms; bits, threads, traps."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
import torch

import weft
from weft.autograd import gradcheck, gradgradcheck
from weft.graphs import segment
from weft.ops.index import edges as edges_module
from weft.ops.index import segments

REDUCES = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "mul": "prod"}
FORMS = ["sorted", "shuffled", "one target", "isolated", "repeated"]


def drawn(form: str, count: int = 60, vertices: int = 13, seed: int = 0) -> np.ndarray:
    """(2, E) edges."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, vertices, (2, count))
    if form == "sorted":
        ends[1].sort()
    elif form == "one target":
        ends[1] = 4
    elif form == "isolated":
        ends %= 5
    elif form == "repeated":
        ends = np.repeat(ends[:, : count // 4], 4, axis=1)
    return ends


def numbers(*shape: int, dtype: str = "float32", seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def reduced(messages: torch.Tensor, target: np.ndarray, size: int, reduce: str) -> torch.Tensor:
    """PyTorch's scatter_reduce from a start that never takes part; 0 (1 for a product) where nothing comes."""
    index = torch.tensor(target)[:, None].expand(messages.shape)
    start = torch.full((size, messages.shape[1]), 1.0 if reduce == "prod" else 0.0, dtype=messages.dtype)
    return start.scatter_reduce(0, index, messages, reduce, include_self=reduce == "prod")


# ---------------------------------------------------------------------------------------------- values and slopes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scatter_is_pytorchs_scatter_reduce(form, reduce, dtype):
    target, x = drawn(form)[1], numbers(60, 5, dtype=dtype)
    ours, theirs = weft.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y = segment.scatter(ours, weft.tensor(target), 0, 13, reduce)
    wanted = reduced(theirs, target, 13, REDUCES[reduce])
    np.testing.assert_allclose(y.detach().numpy(), wanted.detach().numpy(), rtol=1e-6, atol=1e-6)
    slopes = numbers(13, 5, dtype=dtype, seed=3)
    (y * weft.tensor(slopes)).sum().backward()
    (wanted * torch.tensor(slopes)).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_aggregate_is_gather_then_scatter(form, reduce):
    edges, x = drawn(form), numbers(13, 4)
    ours, theirs = weft.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y = segment.aggregate(ours, weft.tensor(edges), reduce=reduce)
    wanted = reduced(theirs[torch.tensor(edges[0])], edges[1], 13, REDUCES[reduce])
    np.testing.assert_allclose(y.detach().numpy(), wanted.detach().numpy(), rtol=1e-6, atol=1e-6)
    y.sin().sum().backward()
    wanted.sin().sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_softmax_of_a_group_is_softmax_of_its_rows(form):
    target, x = drawn(form)[1], numbers(60, 3, dtype="float64") * 30
    ours = weft.tensor(x, requires_grad=True)
    y = segment.softmax(ours, weft.tensor(target), num_nodes=13)
    slopes = numbers(60, 3, dtype="float64", seed=3)
    (y * weft.tensor(slopes)).sum().backward()
    for group in np.unique(target):
        rows = np.flatnonzero(target == group)
        theirs = torch.tensor(x[rows], requires_grad=True)
        wanted = theirs.softmax(0)
        (wanted * torch.tensor(slopes[rows])).sum().backward()
        np.testing.assert_allclose(y.detach().numpy()[rows], wanted.detach().numpy(), rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(ours.grad.numpy()[rows], theirs.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_edge_attention_on_a_full_graph_is_attention(form):
    """Where every vertex hears all, each once, in whatever order the edges come, it is softmax(s) v."""
    n, heads = 6, 2
    order = np.random.default_rng(4).permutation(n * n) if form == "shuffled" else np.arange(n * n)
    source, target = order % n, order // n
    score, value = numbers(n, n, heads, dtype="float64"), numbers(n, heads, 3, dtype="float64")
    y = segment.edge_attention(
        weft.tensor(score[target, source]), weft.tensor(value), weft.tensor(np.stack([source, target]))
    )
    weights = torch.tensor(score).softmax(1)  # (target, source, head)
    np.testing.assert_allclose(
        y.numpy(), torch.einsum("ijh,jhf->ihf", weights, torch.tensor(value)).numpy(), rtol=1e-12
    )


def test_a_pair_of_scores_is_their_sum_along_each_edge():
    edges = weft.tensor(drawn("shuffled"))
    left, right, value = (weft.tensor(numbers(13, *s, seed=n)) for n, s in enumerate(((2,), (2,), (2, 4))))
    leaky = lambda s: weft.nn.functional.leaky_relu(s, 0.2)
    score = leaky(segment.sources(left, edges) + segment.targets(right, edges))
    whole = segment.edge_attention((left, right), value, edges, activation=leaky)
    np.testing.assert_array_equal(whole.numpy(), segment.edge_attention(score, value, edges).numpy())
    np.testing.assert_array_equal(score.numpy(), leaky(left[edges[0]] + right[edges[1]]).numpy())


def test_derivatives_of_first_and_second_order():
    edges = weft.tensor(drawn("shuffled", 9, 4))
    given = lambda *shape, seed: weft.tensor(numbers(*shape, dtype="float64", seed=seed), requires_grad=True)
    x, w, heads = given(4, 2, 2, seed=1), given(9, 2, seed=2), given(4, 2, seed=3)
    functions = [
        (lambda x, w: segment.aggregate(x, edges, w).sin(), (x, w)),
        (lambda x: segment.aggregate(x, edges, reduce="mean").sin(), (x,)),
        (lambda x: segment.aggregate(x, edges, reduce="max").sin(), (x,)),
        (lambda x: segment.edge_dot(x, x.sin(), edges), (x,)),
        (lambda w: segment.softmax(w, edges[1], num_nodes=4).sin(), (w,)),
        (lambda w, x: segment.edge_attention(w, x, edges), (w, x)),
        (lambda h, x: segment.edge_attention((h, h.sin()), x, edges), (heads, x)),
    ]
    for function, inputs in functions:
        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs)


def test_equal_extremes_share_the_gradient():
    """Also where the extreme is 0, which PyTorch's own scatter_reduce shares with the start that takes no part."""
    x = weft.tensor([[0.0], [0.0], [-1.0], [7.0]], requires_grad=True)
    segment.scatter(x, weft.tensor([0, 0, 0, 1]), reduce="max").sum().backward()
    assert x.grad.tolist() == [[0.5], [0.5], [0.0], [1.0]]


def test_mean_divides_by_the_number_of_edges_not_by_the_weights():
    y = segment.aggregate(weft.ones(2, 1), weft.tensor([[0, 1], [0, 0]]), weft.tensor([3.0, 5.0]), reduce="mean")
    assert y.tolist() == [[4.0], [0.0]]


# -------------------------------------------------------------------------------------- the same bits everywhere


def functions_of(edges: weft.Tensor, count: int) -> dict:
    target = edges[1]
    return {
        "sum": lambda x, w, m: segment.aggregate(x, edges),
        "weighted": lambda x, w, m: segment.aggregate(x, edges, w[:, 0]),
        "heads": lambda x, w, m: segment.aggregate(x.reshape(x.shape[0], 2, -1), edges, w),
        "mean": lambda x, w, m: segment.aggregate(x, edges, reduce="mean"),
        "max": lambda x, w, m: segment.aggregate(x, edges, reduce="max"),
        "scatter": lambda x, w, m: segment.scatter(m, target, 0, count),
        "scatter min": lambda x, w, m: segment.scatter(m, target, 0, count, "min"),
        "dot": lambda x, w, m: segment.edge_dot(x.reshape(x.shape[0], 2, -1), x.reshape(x.shape[0], 2, -1) * 2, edges),
        "spmm": lambda x, w, m: weft.sparse_coo_tensor(edges.flip(0), w[:, 0], (count, count)) @ x,
        "index_add": lambda x, w, m: weft.zeros(count, m.shape[1]).index_add(0, target, m),
        "scatter_add": lambda x, w, m: weft.zeros(count, m.shape[1]).scatter_add(
            0, target.unsqueeze(1).expand(-1, m.shape[1]), m
        ),
        "index_reduce": lambda x, w, m: weft.zeros(count, m.shape[1]).index_reduce(0, target, m, "amax"),
    }


CASES = list(functions_of(weft.zeros(2, 0, dtype=weft.int64), 1))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [1, 8, 38])
def test_compiled_on_1_2_and_3_threads_is_eager_bit_for_bit(name, width, monkeypatch):
    """Values, and gradients of all inputs; eager by NumPy, then by plans of single operations."""
    count = 50
    edges = weft.tensor(drawn("shuffled", 700, count))
    if name in ("heads", "dot"):
        width *= 2
    if name == "spmm":  # a matrix that is made outside, as scripts do
        matrix = weft.sparse_coo_tensor(edges.flip(0), weft.tensor(numbers(700, seed=2)), (count, count)).coalesce()
        function = lambda x, w, m: matrix @ x
    else:
        function = functions_of(edges, count)[name]
    given = [weft.tensor(a) for a in (numbers(count, width), numbers(700, 2, seed=2), numbers(700, width, seed=3))]

    def both(*inputs):
        inputs = [x.detach().requires_grad_() for x in inputs]
        y = function(*inputs)
        found = weft.autograd.grad(y, inputs, y.detach() * 3, allow_unused=True)
        return [y.detach(), *(g for g in found if g is not None)]

    wanted = [x.numpy().copy() for x in both(*given)]
    for threads in (1, 2, 3):
        got = weft.compile(both, threads=threads)(*given)
        assert all(np.array_equal(a.numpy(), b) for a, b in zip(got, wanted, strict=True)), threads
    monkeypatch.setattr(segments, "FEW", 0)
    monkeypatch.setattr(weft.ops.core.base, "LARGE", 0)
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(both(*given), wanted, strict=True))


def test_an_index_that_is_an_argument_gives_the_same_bits():
    edges, x, w = weft.tensor(drawn("shuffled")), weft.tensor(numbers(13, 4)), weft.tensor(numbers(60))
    for reduce in ("sum", "mean", "max", "min"):
        weights = w if reduce in ("sum", "mean") else None
        function = weft.compile(lambda x, e, r=reduce, w=weights: segment.aggregate(x, e, w, reduce=r))
        assert np.array_equal(function(x, edges).numpy(), segment.aggregate(x, edges, weights, reduce=reduce).numpy())
        other = weft.tensor(drawn("sorted"))
        assert np.array_equal(function(x, other).numpy(), segment.aggregate(x, other, weights, reduce=reduce).numpy())


def test_attention_compiled_is_eager_up_to_the_exponential():
    edges = weft.tensor(drawn("shuffled", 300, 20))
    for shape in ((300,), (300, 3), (300, 8)):
        score, value = weft.tensor(numbers(*shape)), weft.tensor(numbers(20, *shape[1:], 5, seed=2))
        compiled = weft.compile(lambda s, v: segment.edge_attention(s, v, edges))
        wanted = segment.edge_attention(score, value, edges).numpy()
        np.testing.assert_allclose(compiled(score, value).numpy(), wanted, rtol=1e-5, atol=1e-6)
        by_argument = weft.compile(lambda s, v, e: segment.edge_attention(s, v, e))(score, value, edges)
        np.testing.assert_allclose(by_argument.numpy(), wanted, rtol=1e-5, atol=1e-6)


# -------------------------------------------------------------------------------------- what is remembered


def test_edges_are_put_in_order_once_and_anew_after_a_write():
    edges, x = weft.tensor([[0, 1, 2], [2, 1, 0]]), weft.tensor([[1.0], [2.0], [4.0]])
    known = lambda: edges_module.known_edges(edges, ("edges", (3, 3)), lambda a: pytest.fail("sorted again"))
    assert segment.aggregate(x, edges).tolist() == [[4.0], [2.0], [1.0]]
    assert known() is known()
    assert segment.scatter(x, edges[1]).tolist() == segment.scatter(x, edges[1]).tolist()
    edges[1, 0] = 1
    assert segment.aggregate(x, edges).tolist() == [[4.0], [3.0], [0.0]]


def test_a_compiled_step_sees_edges_that_were_written_to_or_replaced():
    edges, x = weft.tensor([[0, 1], [1, 0]]), weft.tensor([[1.0], [2.0]])
    held = {"edges": edges}
    function = weft.compile(lambda x: segment.aggregate(x, held["edges"]))
    assert function(x).tolist() == function(x).tolist() == [[2.0], [1.0]]
    edges[1, 0] = 0
    assert function(x).tolist() == [[3.0], [0.0]]
    held["edges"] = weft.tensor([[0, 1], [1, 1]])
    assert function(x).tolist() == [[0.0], [3.0]]


def test_what_is_computed_from_captured_edges_alone_is_known_when_a_step_is_traced():
    edges, loops = weft.tensor(drawn("shuffled")), weft.arange(13)

    @weft.compile
    def step(x):
        whole = weft.cat([edges, weft.stack([loops, loops])], 1)
        return segment.aggregate(x, whole)

    x = weft.tensor(numbers(13, 4))
    whole = np.concatenate([edges.numpy(), np.stack([np.arange(13)] * 2)], 1)
    np.testing.assert_array_equal(step(x).numpy(), segment.aggregate(x, weft.tensor(whole)).numpy())
    assert "SparseProduct" in str(step.profile(x)) and "Scatter" not in str(step.profile(x))


def test_an_index_that_training_moves_is_not_taken_for_given(monkeypatch):
    """The order of the weights is another after a step; a plan that had kept it would be traced again and again."""
    weight, rows, traced = weft.nn.Parameter(weft.tensor([1.0, 0.9, 0.0])), weft.tensor([[1.0], [2.0], [4.0]]), []
    unsorted = segment._unsorted
    monkeypatch.setattr(segment, "_unsorted", lambda *given: traced.append(1) or unsorted(*given))

    @weft.compile
    def step():
        out = segment.scatter(rows, weight.detach().argsort(), 0, 3)
        weight.data.sub_(weft.tensor([0.6, 0.0, 0.0]))
        return out

    assert [step().flatten().tolist() for _ in range(4)] == [[4, 2, 1], [2, 4, 1], [1, 4, 2], [1, 4, 2]]
    assert len(traced) <= 2


def test_nothing_is_remembered_of_tensors_that_are_gone():
    gc.collect()
    before = len(edges_module._known)
    edges = weft.tensor(drawn("shuffled"))
    segment.aggregate(weft.ones(13, 2), edges)
    assert len(edges_module._known) == before + 1
    del edges
    gc.collect()
    assert len(edges_module._known) == before


def test_attention_makes_nothing_of_the_size_of_all_messages():
    count, heads, width = 20_000, 4, 64
    edges = weft.tensor(drawn("shuffled", count, 100))
    score = weft.tensor(numbers(count, heads), requires_grad=True)
    value = weft.tensor(numbers(100, heads, width), requires_grad=True)
    segment.edge_attention(score, value, edges).sum().backward()
    tracemalloc.start()
    segment.edge_attention(score, value, edges).square().sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * heads * width * 4 * 0.9  # gathered rows come in pieces of 4 MB


# ------------------------------------------------------------------------------------------------ hostile cases


@pytest.mark.parametrize("reduce", REDUCES)
def test_no_edges_and_isolated_targets_give_zero(reduce):
    nothing = weft.zeros(2, 0, dtype=weft.int64)
    empty = 1.0 if reduce == "mul" else 0.0
    assert segment.scatter(weft.zeros(0, 2), nothing[1], 0, 3, reduce).tolist() == [[empty, empty]] * 3
    assert segment.scatter(weft.zeros(0, 2), nothing[1], reduce=reduce).shape == (0, 2)
    assert segment.scatter(-weft.ones(1, 1), weft.tensor([1]), 0, 3, reduce).tolist() == [[empty], [-1.0], [empty]]
    if reduce != "mul":
        x = weft.ones(3, 2, requires_grad=True)
        y = segment.aggregate(x, nothing, reduce=reduce)
        y.sum().backward()
        assert not y.any() and not x.grad.any()
        compiled = weft.compile(lambda x: segment.aggregate(x, nothing, reduce=reduce))
        assert not compiled(x.detach()).any()


def test_attention_without_edges_is_zero():
    nothing = weft.zeros(2, 0, dtype=weft.int64)
    assert segment.softmax(weft.zeros(0, 2), nothing[1], num_nodes=3).shape == (0, 2)
    for function in (segment.edge_attention, weft.compile(segment.edge_attention)):
        assert function(weft.zeros(0), weft.ones(3, 2), nothing).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
@pytest.mark.parametrize("row", [0, 1])
def test_indices_out_of_range_are_refused_before_anything_is_written(wrong, row):
    edges = np.zeros((2, 4), np.int64)
    edges[row, 2] = wrong
    edges, x = weft.tensor(edges), weft.ones(3, 2)
    kept = weft.zeros(3, 2)

    def into(x, edges):
        kept.add_(1)
        kept.add_(segment.aggregate(x, edges))

    for function in (into, weft.compile(into), weft.compile(lambda x: into(x, edges))):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
            function(x) if function.__name__ == "<lambda>" else function(x, edges)
        if function is not into:
            assert not kept.any()
        kept.zero_()
    if row == 1:
        with pytest.raises(IndexError, match=f"index {wrong}"):
            segment.scatter(weft.ones(4), edges[1], dim_size=3)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_indices_of_either_type_and_any_strides(kind):
    wide = weft.tensor(np.repeat(drawn("shuffled").T.astype(kind), 2, axis=0))  # (2E, 2)
    edges = wide[::2].T
    x = weft.tensor(np.repeat(numbers(13, 4), 2, axis=1))[:, ::2]
    assert not edges.is_contiguous() and not x.is_contiguous()
    wanted = segment.aggregate(x.contiguous(), weft.tensor(drawn("shuffled")))
    for function in (
        segment.aggregate,
        weft.compile(segment.aggregate),
        weft.compile(lambda x, _: segment.aggregate(x, edges)),
    ):
        np.testing.assert_array_equal(function(x, edges).numpy(), wanted.numpy())


def test_nan_stays_where_it_came_to():
    x = weft.tensor([[1.0], [float("nan")], [3.0]])
    edges = weft.tensor([[0, 1, 2], [0, 1, 2]])
    for reduce in ("sum", "mean", "max", "min"):
        for function in (segment.aggregate, weft.compile(lambda x, e, _, __, r: segment.aggregate(x, edges, reduce=r))):
            assert np.isnan(function(x, edges, None, None, reduce).numpy()[:, 0]).tolist() == [False, True, False]
    assert np.isnan(segment.softmax(x, edges[1]).numpy()[:, 0]).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64"])
def test_other_types(dtype):
    x = weft.tensor([[1.0], [2.0], [4.0]]).to(getattr(weft, dtype))
    edges = weft.tensor([[0, 1, 2], [0, 0, 1]])
    for reduce, wanted in (("sum", [3, 4, 0]), ("max", [2, 4, 0]), ("min", [1, 4, 0])):
        y = segment.aggregate(x, edges, reduce=reduce)
        assert y.dtype is x.dtype and y.float()[:, 0].tolist() == wanted


def test_segments_between_bounds():
    x = weft.tensor(numbers(7, 2), requires_grad=True)
    ptr = weft.tensor([0, 3, 3, 7])
    index = weft.tensor([0, 0, 0, 2, 2, 2, 2])
    for reduce in REDUCES:
        assert np.array_equal(
            segment.segment(x, ptr, reduce).detach(), segment.scatter(x, index, 0, 3, reduce).detach()
        )
    assert np.array_equal(segment.softmax(x, ptr=ptr).detach(), segment.softmax(x, index).detach())
    assert segment.softmax(x.T, index, dim=1).shape == (2, 7) and segment.scatter(x.T, index, -1).shape == (2, 3)


def test_bipartite_edges():
    edges = weft.tensor([[0, 4, 4], [1, 1, 0]])
    assert segment.aggregate(weft.arange(5.0), edges, dim_size=2).tolist() == [4.0, 4.0]
    assert segment.edge_dot(weft.eye(2), weft.ones(5, 2), edges).tolist() == [1.0, 1.0, 1.0]
    known = segment.edges(edges, (2, 5))
    assert segment.aggregate(weft.arange(5.0), known, dim_size=2).tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x, e: segment.scatter(x, e[1], reduce="median"), ValueError, "reduce must be one of"),
        (lambda x, e: segment.scatter(x, e), RuntimeError, "one number for each"),
        (lambda x, e: segment.scatter(x, [0, 0]), TypeError, "must be a Tensor"),
        (lambda x, e: segment.scatter(x, e[1].float()), RuntimeError, "int64 or int32"),
        (lambda x, e: segment.aggregate(x, e.T), RuntimeError, r"must be \(2, E\)"),
        (lambda x, e: segment.aggregate(x, e, weft.ones(2)), RuntimeError, "need weights"),
        (lambda x, e: segment.aggregate(x, e, weft.ones(3).double()), RuntimeError, "weights are"),
        (lambda x, e: segment.aggregate(x, e, weft.ones(3), reduce="max"), ValueError, "weights go with"),
        (lambda x, e: segment.aggregate(x, segment.edges(e, 4)), RuntimeError, "4 sources"),
        (lambda x, e: segment.softmax(x), TypeError, "either `index`"),
        (lambda x, e: segment.softmax(x.long(), e[1]), RuntimeError, "floating-point"),
        (lambda x, e: segment.segment(x, weft.tensor([0, 2])), RuntimeError, "rise from 0"),
        (lambda x, e: segment.edge_attention(weft.ones(3, 2), x, e), RuntimeError, "scores"),
        (lambda x, e: segment.edge_dot(x, weft.ones(3, 5), e), RuntimeError, "equal sizes"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(weft.ones(3, 2), weft.tensor([[0, 1, 2], [0, 0, 1]]))


@pytest.mark.parametrize("width", [1, 5, 37, 300])
def test_rows_of_transposed_and_widened_operands_are_the_same_bits(width):
    """W comes as (width, 40): its transpose has no rows in memory. And a column that is expanded has one number for each."""
    rng = np.random.default_rng(width)
    dense = ((rng.random((50, 40)) < 0.2) * rng.standard_normal((50, 40))).astype(np.float32)
    matrix = weft.tensor(dense).to_sparse(layout="csr")
    w = weft.tensor(rng.standard_normal((width, 40)).astype(np.float32))
    for make in (lambda w: matrix @ w.T, lambda w: matrix @ w[:1].T.expand(40, width)):
        np.testing.assert_array_equal(weft.compile(make)(w).numpy(), make(w).numpy())
