"""Indices out of range in compiled code: the same errors as in eager code, and nothing is changed by a step that fails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import weft
import weft.nn.functional as F
from weft import Tensor, nn
from weft.errors import IndexRangeError


def put(x: Tensor, i: Tensor) -> Tensor:
    y = x.clone()
    y[i] = 1.0
    return y


def put_pair(x: Tensor, i: Tensor) -> Tensor:
    y = x.clone()
    y[i, i] = 1.0
    return y


READS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of x (5, 6) and i (4,), valid 0 … 4
    "index": lambda x, i: x[i],
    "index of two": lambda x, i: x[i, i],
    "index apart": lambda x, i: x[None][:, i, None, i],
    "index_select": lambda x, i: x.index_select(0, i),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(i.reshape(2, 2), x),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "take": lambda x, i: x[:, 0].take(i),
    "take_along_dim": lambda x, i: x.take_along_dim(i[:, None], 0),
    "searchsorted": lambda x, i: weft.searchsorted(x[0, :4], x[1, :2], sorter=i.where(i != 4, 1)).float(),
    "one_hot": lambda x, i: F.one_hot(i, 5).float(),
    "nll_loss": lambda x, i: F.nll_loss(x.T[:4].log_softmax(1), i),
    "cross_entropy": lambda x, i: F.cross_entropy(x.T[:4], i),
    "cross_entropy with weights": lambda x, i: F.cross_entropy(x.T[:4], i, weight=weft.ones(5)),
    "cross_entropy in places": lambda x, i: F.cross_entropy(x.T[:4].reshape(1, 4, 5).mT, i.reshape(1, 4)),
}
WRITES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_put_": put,
    "index_put_ of two": put_pair,
    "index_add": lambda x, i: x.index_add(0, i, weft.ones(4, 6)),
    "index_copy": lambda x, i: x.index_copy(0, i, weft.ones(4, 6)),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "index_reduce": lambda x, i: x.index_reduce(0, i, weft.ones(4, 6), "amax"),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 3.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], weft.ones(4, 6)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None], weft.ones(4, 6), "amin"),
    "put": lambda x, i: x.put(i, weft.ones(4)),
}
OPERATIONS = READS | WRITES
WRAPS = {
    "index",
    "index of two",
    "index apart",
    "take",
    "take_along_dim",
    "index_put_",
    "index_put_ of two",
    "index_fill",
}
CASES = [(name, wrong) for name in OPERATIONS for wrong in (5, -1, -6, 10**12) if name != "put" or wrong != 5]


def refuses(name: str, wrong: int) -> bool:
    size = 30 if name == "put" else 5
    low = -size if name in WRAPS | {"put"} else 0
    return not low <= wrong < size


@pytest.mark.parametrize(("name", "wrong"), CASES, ids=lambda v: str(v))
def test_errors_are_those_of_eager_code(name, wrong):
    function, x = OPERATIONS[name], weft.arange(30.0).reshape(5, 6)
    index = weft.tensor([0, 3, wrong, 4])
    compiled = weft.compile(function)
    if not refuses(name, wrong):
        np.testing.assert_allclose(compiled(x, index).numpy(), function(x, index).numpy(), rtol=1e-6)
        return
    with pytest.raises(IndexRangeError) as eager:
        function(x, index)
    with pytest.raises(IndexRangeError) as found:
        compiled(x, index)
    assert isinstance(found.value, IndexError)
    operation = "gather" if name == "searchsorted" else str(eager.value).split(":")[0]
    assert str(found.value).startswith(f"{operation}:"), found.value
    assert f"index {wrong} is out of bounds" in str(found.value)
    assert "test_index_errors.py" in str(found.value)
    good = weft.tensor([0, 3, 1, 4])
    np.testing.assert_allclose(compiled(x, good).numpy(), function(x, good).numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("without", [(), ("fuse",), ("schedule",), ("place",)], ids=str)
def test_states_stay_as_they_were(name, without):
    """A counter goes up before the operation, a weight is trained on its result, its result is kept."""
    function, x = OPERATIONS[name], weft.arange(30.0).reshape(5, 6)
    count, kept = weft.zeros(3), weft.zeros(())
    weight = weft.ones(6, requires_grad=True)

    def step(x: Tensor, i: Tensor) -> Tensor:
        count.add_(1)
        y = (function(x * weight, i).float() * 0.01).sum()
        weight.grad = None
        y = y + (weight * 0.01).sum()
        y.backward()
        with weft.no_grad():
            weight.sub_(0.01 * weight.grad)
            kept.copy_(y)
        return y

    compiled = weft.compile(step, without=without)
    good, bad = weft.tensor([0, 3, 1, 4]), weft.tensor([0, 3, 10**12, 4])
    compiled(x, good)
    before = [t.numpy().copy() for t in (count, kept, weight.detach(), weight.grad)]
    for _ in range(2):
        with pytest.raises(IndexRangeError):
            compiled(x, bad)
        for old, now in zip(before, (count, kept, weight.detach(), weight.grad), strict=True):
            np.testing.assert_array_equal(now.numpy(), old)
    compiled(x, good)
    assert count.numpy().tolist() == [2, 2, 2]


class Net(nn.Module):
    """Everything that has a state: a table, normalisation, dropout, an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.out = nn.Embedding(7, 8), nn.BatchNorm1d(8), nn.Linear(8, 5)

    def forward(self, i: Tensor) -> Tensor:
        return self.out(F.dropout(self.norm(self.table(i)), 0.5, self.training))


def everything(net: nn.Module, optimiser: weft.optim.Optimizer) -> list[np.ndarray]:
    found = [t.detach() for t in (*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters()))]
    found += [v for state in optimiser.state.values() for v in state.values() if isinstance(v, Tensor)]
    return [t.numpy().copy() for t in found] + [weft.get_rng_state().numpy().copy()]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [weft.optim.SGD, weft.optim.Adam], ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    ("i", "t"), [((0, 1, 7, 2), (0, 1, 2, 3)), ((0, 1, 6, 2), (0, 5, 2, 3)), ((0, 1, 6, 2), (0, -1, 2, 3))]
)
def test_a_training_step_that_fails_changes_nothing(make, threads, i, t):
    weft.manual_seed(0)
    net = Net()
    optimiser = make(net.parameters(), lr=0.1)

    def step(i: Tensor, t: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(net(i), t)
        loss.backward()
        optimiser.step()
        return loss.detach()

    compiled = weft.compile(step, threads=threads)
    good = weft.tensor([0, 1, 6, 2]), weft.tensor([0, 4, 2, -100])
    for _ in range(3):
        compiled(*good)
    before = everything(net, optimiser)
    for _ in range(2):
        with pytest.raises(IndexRangeError):
            compiled(weft.tensor(i), weft.tensor(t))
        for old, now in zip(before, everything(net, optimiser), strict=True):
            np.testing.assert_array_equal(now, old)
    assert np.isfinite(compiled(*good).item())


def test_indices_computed_late():
    """The place is the largest score plus an offset, known only after the forward pass."""
    weight, seen = weft.eye(4, requires_grad=True), weft.zeros(4)

    def step(x: Tensor, offset: Tensor) -> Tensor:
        scores = x @ weight
        place = scores.argmax(1) + offset
        loss = scores.gather(1, place[:, None]).sum()
        weight.grad = None
        loss.backward()
        with weft.no_grad():
            weight.sub_(0.1 * weight.grad)
            seen.index_add_(0, place, weft.ones(2))
        return loss

    compiled = weft.compile(step)
    x = weft.tensor([[3.0, 1, 1, 1], [1, 1, 2, 1]])
    compiled(x, weft.tensor(0))
    old = weight.detach().numpy().copy(), seen.numpy().copy(), weight.grad.numpy().copy()
    with pytest.raises(IndexRangeError, match="gather: index 4 is out of bounds for dimension 1 with size 4"):
        compiled(x, weft.tensor(2))
    for a, b in zip(old, (weight.detach(), seen, weight.grad), strict=True):
        np.testing.assert_array_equal(b.numpy(), a)


def test_an_index_taken_from_what_was_just_written():
    """The check reads the new value of a state, so that one is written at the very end."""
    pointer, ring = weft.zeros((), dtype=weft.int64), weft.zeros(3)

    def push(x: Tensor) -> Tensor:
        pointer.add_(1)
        ring[pointer.reshape(1)] = x
        return ring.sum()

    compiled = weft.compile(push)
    for k in range(2):
        compiled(weft.tensor(1.0 + k))
    with pytest.raises(IndexRangeError, match="index 3 "):
        compiled(weft.tensor(5.0))
    assert pointer.item() == 2 and ring.numpy().tolist() == [0, 1, 2]


def test_a_failing_operation_of_another_kind_changes_nothing():
    count = weft.zeros(())

    def step(a: Tensor) -> Tensor:
        count.add_(1)
        return weft.linalg.cholesky(a).sum()

    compiled = weft.compile(step)
    compiled(weft.eye(2))
    with pytest.raises(weft.errors.LinAlgError):
        compiled(-weft.eye(2))
    assert count.item() == 1


def test_gradients_that_somebody_holds_are_not_written_over():
    weight = weft.ones(3, requires_grad=True)

    def step(x: Tensor) -> None:
        weight.grad = None
        (weight * x).sum().backward()

    compiled = weft.compile(step)
    compiled(weft.tensor([1.0, 2, 3]))
    held, window = weight.grad, weight.grad.numpy()[:2]
    compiled(weft.tensor([4.0, 5, 6]))
    assert held.numpy().tolist() == [1, 2, 3] and window.tolist() == [1, 2]
    window = weight.grad.numpy()[1:]
    compiled(weft.tensor([7.0, 8, 9]))
    assert window.tolist() == [5, 6] and weight.grad.numpy().tolist() == [7, 8, 9]


def test_more_places_than_elements():
    compiled = weft.compile(lambda x, m, v: x.masked_scatter(m, v))
    x, v = weft.zeros(4), weft.tensor([1.0, 2.0])
    assert compiled(x, weft.tensor([True, False, True, False]), v).numpy().tolist() == [1, 0, 2, 0]
    with pytest.raises(IndexRangeError, match="masked_scatter: the mask asks for more elements"):
        compiled(x, weft.tensor([True, True, True, False]), v)


def test_the_check_of_a_branch_is_that_of_the_branch_taken():
    x = weft.arange(4.0)
    compiled = weft.compile(lambda p, i: weft.cond(p, lambda i: x[i].sum(), lambda i: i.sum().float(), i))
    inside, outside = weft.tensor([1, 2]), weft.tensor([1, 9])
    assert compiled(weft.tensor(True), inside).item() == 3
    assert compiled(weft.tensor(False), outside).item() == 10
    with pytest.raises(IndexRangeError, match="index 9 "):
        compiled(weft.tensor(True), outside)


def test_every_element_of_a_batch_is_checked():
    x = weft.arange(12.0).reshape(3, 4)
    compiled = weft.compile(weft.vmap(lambda row, i: row.gather(0, i)))
    good, bad = weft.tensor([[0], [3], [1]]), weft.tensor([[0], [4], [1]])
    assert compiled(x, good).numpy().ravel().tolist() == [0, 7, 9]
    with pytest.raises(IndexRangeError, match="index 4 "):
        compiled(x, bad)


@pytest.mark.parametrize("count", [3, 100, 40_000])
@pytest.mark.parametrize("kind", [weft.int64, weft.int32], ids=str)
def test_one_wrong_index_anywhere(count, kind):
    table = weft.arange(50.0)
    compiled = weft.compile(lambda i: table[i].sum(), threads=2)
    index = np.arange(count) % 50
    assert compiled(weft.tensor(index).to(kind)).item() == pytest.approx(index.sum(), rel=1e-5)
    for place in (0, count // 2, count - 1):
        wrong = index.copy()
        wrong[place] = 50
        with pytest.raises(IndexRangeError, match="index 50 is out of bounds"):
            compiled(weft.tensor(wrong).to(kind))


DIVISIONS = {
    "remainder": (lambda x, y: x % y, lambda x, y: x % y),
    "floor_divide": (lambda x, y: x // y, lambda x, y: x // y),
    "fmod": (weft.fmod, torch.fmod),
    "div": (lambda x, y: weft.div(x, y, rounding_mode="trunc"), lambda x, y: torch.div(x, y, rounding_mode="trunc")),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_are_not_divided_by_zero(name):
    """As PyTorch's: an error, also in a plan, where a processor would give 0; what comes after it is not written."""
    ours, theirs = DIVISIONS[name]
    written = weft.zeros(2)

    def step(x, y):
        written.add_(1)
        return ours(x, y)

    compiled = weft.compile(step)
    x, good, bad = np.array([7, -7]), np.array([2, 3]), np.array([2, 0])
    expected = theirs(torch.tensor(x), torch.tensor(good)).numpy()
    np.testing.assert_array_equal(compiled(weft.tensor(x), weft.tensor(good)).numpy(), expected)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        theirs(torch.tensor(x), torch.tensor(bad))
    for call in (ours, compiled, weft.compile(lambda x, y: ours(x, 0))):
        with pytest.raises(weft.errors.DivisionError, match="ZeroDivisionError") as caught:
            call(weft.tensor(x), weft.tensor(bad))
        assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, ZeroDivisionError)
    np.testing.assert_array_equal(written.numpy(), [1, 1])


def test_floats_are_divided_by_zero():
    compiled = weft.compile(lambda x, y: x % y + x // y)
    x, y = weft.tensor([7.0, 5.0]), weft.tensor([0, 2])
    np.testing.assert_array_equal(compiled(x, y).numpy(), (x % y + x // y).numpy())


def test_large_integers_are_not_divided_by_zero():
    """Large arrays of eager code come to native plans after a while, which would not look."""
    x, y = weft.full((70_000,), 5), weft.ones(70_000, dtype=weft.int64)
    y[-1] = 0
    for _ in range(6):
        with pytest.raises(ZeroDivisionError):
            x % y
