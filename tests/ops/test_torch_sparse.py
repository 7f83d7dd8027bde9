"""Scripts with `torch.sparse` under both libraries: one table of calls, buffers, files, functions of one's own."""

from __future__ import annotations

import io

import numpy as np
import pytest
import scipy.sparse
import torch

import weft

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning", "ignore:torch.sparse.:UserWarning")
INDEX, VALUES = [[0, 1, 1, 1], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 6.0]  # the place (1, 2) twice


def made(lib, values=VALUES, size=(2, 3), **options):
    return lib.sparse_coo_tensor(lib.tensor(INDEX), lib.tensor(values), size, **options)


def plain(x):
    """Numbers of a result, sparse or not."""
    if isinstance(x, (tuple, list)):
        return [plain(part) for part in x]
    if hasattr(x, "to_dense"):
        x = x.to_dense()
    return x.detach().numpy() if hasattr(x, "detach") else x


def slopes(lib, function, *inputs):
    """A result and the gradients of its squares."""
    inputs = [lib.tensor(x, requires_grad=True) for x in inputs]
    y = function(*inputs)
    y = y.to_dense() if getattr(y, "layout", None) in (torch.sparse_coo, "sparse_coo") else y
    (y * y).sum().backward()
    return [y, *(x.grad for x in inputs)]


def legacy(lib, matrix):
    """pygcn's `sparse_mx_to_torch_sparse_tensor`."""
    matrix = matrix.tocoo().astype(np.float32)
    indices = lib.from_numpy(np.vstack((matrix.row, matrix.col)).astype(np.int64))
    return lib.sparse.FloatTensor(indices, lib.from_numpy(matrix.data), lib.Size(matrix.shape))


X = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
CALLS = {
    "duplicates are added": lambda lib: made(lib).to_dense(),
    "coalesce": lambda lib: [made(lib).coalesce().values(), made(lib).coalesce().indices()],
    "uncoalesced parts": lambda lib: [made(lib)._values(), made(lib)._indices(), made(lib)._nnz()],
    "size is found": lambda lib: list(lib.sparse_coo_tensor(INDEX, VALUES).shape),
    "size alone": lambda lib: lib.sparse_coo_tensor(size=(2, 3)),
    "no entries": lambda lib: lib.sparse_coo_tensor(lib.zeros(2, 0).long(), lib.zeros(0), (2, 3)) @ lib.ones(3, 2),
    "one element": lambda lib: lib.sparse_coo_tensor([[0], [0]], [2.0], (1, 1)) @ lib.ones(1, 1),
    "dimensions": lambda lib: [made(lib).sparse_dim(), made(lib).dense_dim(), made(lib).ndim, made(lib).numel()],
    "FloatTensor": lambda lib: lib.sparse.FloatTensor(lib.LongTensor(INDEX), lib.FloatTensor(VALUES), lib.Size((2, 3))),
    "FloatTensor finds its size": lambda lib: lib.sparse.FloatTensor(lib.LongTensor(INDEX), lib.FloatTensor(VALUES)),
    "DoubleTensor": lambda lib: lib.sparse.DoubleTensor(lib.LongTensor(INDEX), lib.DoubleTensor(VALUES)),
    "FloatTensor keeps doubles": lambda lib: lib.sparse.FloatTensor(lib.LongTensor(INDEX), lib.DoubleTensor(VALUES)),
    "pygcn's matrix": lambda lib: legacy(lib, scipy.sparse.eye(3) * 2),
    "csr": lambda lib: [getattr(made(lib).coalesce().to_sparse_csr(), n)() for n in ("crow_indices", "col_indices", "values")],
    "csr made": lambda lib: lib.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 11.0], (2, 3)) @ lib.tensor(X),
    "transposed": lambda lib: [made(lib).t(), made(lib).transpose(0, 1)],
    "to_sparse and back": lambda lib: lib.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse(),
    "arithmetic": lambda lib: [made(lib) * 2, made(lib) / 4, made(lib) + made(lib), -made(lib)],
    "entry by entry": lambda lib: [made(lib).coalesce().pow(2), made(lib).coalesce().sqrt(), made(lib).coalesce().abs()],
    "types": lambda lib: [str(made(lib).double().dtype)[-7:], str(made(lib).half().dtype)[-7:], made(lib).is_floating_point()],
    "places": lambda lib: [made(lib).cpu(), made(lib).to("cpu"), str(made(lib).device)],
    "questions": lambda lib: [lib.is_tensor(made(lib)), made(lib).is_sparse, lib.ones(2).is_sparse, made(lib).is_coalesced()],
    "sums": lambda lib: [lib.sparse.sum(made(lib)), lib.sparse.sum(made(lib), 0), lib.sparse.sum(made(lib), dim=1)],
    "softmax": lambda lib: [lib.sparse.softmax(made(lib), 1), lib.sparse.softmax(made(lib), 0)],
    "softmax in another type": lambda lib: lib.sparse.softmax(made(lib), 1, dtype=lib.float64),
    "log_softmax": lambda lib: [lib.sparse.log_softmax(made(lib), 1), lib.sparse.log_softmax(made(lib), 0)],
    "softmax of nothing": lambda lib: lib.sparse.softmax(lib.sparse_coo_tensor(size=(2, 3)), 1),
    "mm": lambda lib: [lib.sparse.mm(made(lib), lib.tensor(X)), lib.mm(made(lib), lib.tensor(X)), made(lib) @ lib.tensor(X)],
    "spmm": lambda lib: [lib.spmm(made(lib), lib.tensor(X)), made(lib).mm(lib.tensor(X)), made(lib).matmul(lib.tensor(X))],
    "with vectors": lambda lib: [made(lib) @ lib.ones(3), lib.mv(made(lib), lib.ones(3))],
    "two sparse ones": lambda lib: lib.sparse.mm(made(lib), made(lib).t()),
    "addmm": lambda lib: [
        lib.sparse.addmm(lib.ones(2, 2), made(lib), lib.tensor(X), beta=2, alpha=3),
        lib.addmm(lib.ones(2, 2), made(lib), lib.tensor(X)),
    ],
    "slopes of a product": lambda lib: slopes(lib, lambda v, x: lib.sparse.mm(lib.sparse_coo_tensor(INDEX, v, (2, 3)), x), VALUES, X),
    "slopes of softmax": lambda lib: slopes(
        lib, lambda v: lib.sparse.softmax(lib.sparse_coo_tensor(INDEX, v, (2, 3)).coalesce(), 1), VALUES
    ),
    "slopes of log_softmax": lambda lib: slopes(
        lib, lambda v: lib.sparse.log_softmax(lib.sparse_coo_tensor(INDEX, v, (2, 3)).coalesce(), 0), VALUES
    ),
    "slopes of a sum": lambda lib: slopes(lib, lambda v: lib.sparse.sum(lib.sparse_coo_tensor(INDEX, v, (2, 3))), VALUES),
    "slopes through to_dense": lambda lib: slopes(
        lib, lambda v: lib.sparse_coo_tensor(INDEX, v, (2, 3)).coalesce().to_dense(), VALUES
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_give_what_pytorch_gives(name):
    ours, theirs = (plain(CALLS[name](lib)) for lib in (weft, torch))
    compare(ours, theirs)


def compare(ours, theirs):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for pair in zip(ours, theirs, strict=True):
            compare(*pair)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=3e-7)
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.sparse_coo_tensor([[0, 1], [0, 0]], [1.0, 1.0, 2.0], (2, 2)),
        lambda lib: lib.sparse.mm(made(lib), lib.ones(2, 2)),
        lambda lib: lib.sparse.mm(made(lib), lib.ones(3, 2, dtype=lib.float64)),
        lambda lib: made(lib).values(),
        lambda lib: made(lib).indices(),
        lambda lib: made(lib).crow_indices(),
        lambda lib: lib.sparse.FloatTensor(INDEX, VALUES),
        lambda lib: lib.sparse.softmax(lib.sparse_coo_tensor(INDEX, lib.tensor([1, 2, 3, 4]), (2, 3)), 1),
    ],
)
def test_what_pytorch_refuses_is_refused(call):
    with pytest.raises((RuntimeError, TypeError)):
        call(torch)
    with pytest.raises((RuntimeError, TypeError)):
        call(weft)


@pytest.mark.parametrize("wrong", [2, -1])
def test_places_outside_are_refused_where_pytorch_lets_them_pass(wrong):
    with pytest.raises(IndexError, match="size"):
        weft.sparse_coo_tensor([[0, wrong], [0, 0]], [1.0, 1.0], (2, 2))


def network(lib):
    class GraphConvolution(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adj", made(lib))
            self.linear = lib.nn.Linear(2, 4)

        def forward(self, x):
            return lib.spmm(self.adj, self.linear(x))

    return GraphConvolution()


def test_a_sparse_buffer_is_saved_loaded_converted_and_copied():
    """Under both libraries: state_dict, load_state_dict with other places, double(), deepcopy."""
    for lib in (torch, weft):
        first, second = network(lib), network(lib)
        second.adj = lib.sparse_coo_tensor([[0], [0]], [9.0], (2, 3))
        state = first.state_dict()
        assert list(state) == ["adj", "linear.weight", "linear.bias"] and state["adj"].is_sparse
        if lib is torch:  # whose copy_ refuses: it keeps the places of one and the values of the other nowhere
            continue
        second.load_state_dict(state)
        np.testing.assert_array_equal(plain(second.adj), plain(first.adj))
        x = lib.tensor(X)
        np.testing.assert_array_equal(plain(second(x)), plain(first(x)))
    copied = weft.load(saved(first.state_dict()))
    np.testing.assert_array_equal(plain(copied["adj"]), plain(first.adj))
    assert first.double().adj.dtype is weft.float64 and not copied["adj"].is_coalesced()
    import copy

    twin = copy.deepcopy(first)
    assert twin.adj is not first.adj and np.array_equal(plain(twin.adj), plain(first.adj))


def saved(tree):
    file = io.BytesIO()
    weft.save(tree, file)
    file.seek(0)
    return file


def test_a_state_that_does_not_fit_leaves_the_sparse_buffer_as_it_was():
    module = network(weft)
    before = module.adj
    state = module.state_dict() | {
        "adj": weft.sparse_coo_tensor([[0], [0]], [9.0], (2, 3)),
        "linear.bias": weft.ones(7),
    }
    with pytest.raises(RuntimeError, match=r"size mismatch for linear\.bias"):
        module.load_state_dict(state)
    assert module.adj is before
    with pytest.raises(RuntimeError, match="expected a sparse matrix"):
        module.load_state_dict(module.state_dict() | {"adj": weft.ones(2, 3)})


@pytest.mark.parametrize("layout", ["coo", "csr", "given"])
def test_files_keep_sparse_matrices(layout):
    matrix = {
        "coo": lambda: made(weft).coalesce(),
        "csr": lambda: made(weft).to_sparse_csr(),
        "given": lambda: made(weft),
    }[layout]()
    found = weft.load(saved({"a": [matrix]}))["a"][0]
    assert (found.layout, found.nnz, found.is_coalesced()) == (matrix.layout, matrix.nnz, matrix.is_coalesced())
    np.testing.assert_array_equal(plain(found), plain(matrix))


def test_a_file_with_places_outside_is_refused():
    bad = made(weft)
    bad._given.columns[0] = 9
    with pytest.raises(weft.io.HeaderError, match="cannot have these entries"):
        weft.load(saved(bad))


def special_spmm(lib):
    """pyGAT's `SpecialSpmmFunction`: a sparse matrix saved for the backward pass."""

    class SpecialSpmm(lib.autograd.Function):
        @staticmethod
        def forward(ctx, indices, values, shape, b):
            a = lib.sparse_coo_tensor(indices, values, shape)
            ctx.save_for_backward(a, b)
            return lib.matmul(a, b)

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            dense = g.matmul(b.t())
            edge = a._indices()[0, :] * dense.shape[1] + a._indices()[1, :]
            return None, dense.reshape(-1)[edge], None, a.t().matmul(g)

    return SpecialSpmm.apply


def test_a_sparse_matrix_is_kept_for_backward():
    found = []
    for lib in (torch, weft):
        function = special_spmm(lib)
        found.append(
            plain(slopes(lib, lambda v, b, f=function, lib=lib: f(lib.tensor(INDEX), v, (2, 3), b), VALUES, X))
        )
    compare(*found[::-1])


def test_values_written_to_before_backward_are_noticed():
    values, b = weft.tensor(VALUES), weft.ones(3, 1, requires_grad=True)
    kept = weft.tensor(VALUES, requires_grad=True)

    class Keeps(weft.autograd.Function):
        @staticmethod
        def forward(ctx, b, v):
            ctx.save_for_backward(weft.sparse_coo_tensor(INDEX, values, (2, 3)))
            return b * 2

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return g, a._values()

    y = Keeps.apply(b, kept)
    values.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_gcn_of_a_script_trains_alike():
    """pygcn: an adjacency as a buffer, two layers, Adam; compiled as well, from the same start."""
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((12, 12), density=0.3, rng=1, dtype=np.float32) + scipy.sparse.eye_array(12)
    x, y = rng.standard_normal((12, 5)).astype(np.float32), rng.integers(0, 3, 12)
    weights = [rng.standard_normal(s).astype(np.float32) * 0.5 for s in ((5, 8), (8, 3))]

    def trained(lib, compiled=False):
        adj, inputs, classes = legacy(lib, matrix.tocoo()), lib.tensor(x), lib.tensor(y)
        parameters = [lib.nn.Parameter(lib.tensor(w)) for w in weights]
        optimizer = lib.optim.Adam(parameters, lr=0.05)

        def step():
            hidden = lib.spmm(adj, inputs @ parameters[0]).relu()
            loss = lib.nn.functional.cross_entropy(lib.spmm(adj, hidden @ parameters[1]), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step = lib.compile(step) if compiled else step
        return [step().item() for _ in range(15)]

    wanted = trained(torch)
    np.testing.assert_allclose(trained(weft), wanted, rtol=1e-4)
    np.testing.assert_allclose(trained(weft, compiled=True), wanted, rtol=1e-4)


def test_a_matrix_made_inside_of_a_compiled_step_has_the_places_of_tensors_from_outside():
    index, x = weft.tensor(INDEX), weft.tensor(X)

    @weft.compile
    def step(values):
        return weft.sparse.mm(weft.sparse_coo_tensor(index, values, (2, 3)), x)

    values = weft.tensor(VALUES)
    wanted = weft.sparse.mm(made(weft), x)
    np.testing.assert_array_equal(step(values).numpy(), wanted.numpy())
    index[1, 0] = 1
    np.testing.assert_array_equal(step(values).numpy(), (made_at(index) @ x).numpy())


def made_at(index):
    return weft.sparse_coo_tensor(index, weft.tensor(VALUES), (2, 3))
