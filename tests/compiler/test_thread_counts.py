"""Results and gradients have the same bits on any number of threads, eagerly and compiled: a run may go on with others."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn

COUNTS = (1, 2, 3, 5)
MANY = (1, 8, 16)  # for a case of each kind of kernel: more threads than this machine has cores take long


@pytest.fixture(autouse=True)
def restored_threads():
    before = weft.get_num_threads()
    yield
    weft.set_num_threads(before)


def normal(*shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def matmul(*sizes, dtype=np.float32):
    m, k, n = sizes
    return (lambda a, b: a @ b), [normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)]


def convolution(x, w, dtype=np.float32, **settings):
    arrays = [normal(*x, dtype=dtype), normal(*w, dtype=dtype), normal(w[0], dtype=dtype)]
    return (lambda x, w, b: F.conv2d(x, w, b, **settings)), arrays


def embedded(w):
    return F.embedding(weft.arange(12_040).reshape(40, 301) % 50, w)


def crossed(x):
    return F.cross_entropy(x, weft.arange(len(x)) % x.shape[1])


def summed(results):
    """The first result, with all others added to one of its elements: their bits count, too."""
    first, *others = results
    return first + sum(x.sum() for x in others)


WIDE, TALL = normal(220, 220), normal(300, 150)
MATRICES = {
    "inverse": (weft.linalg.inv, [normal(600, 600)]),
    "solve": (weft.linalg.solve, [WIDE, normal(220, 130)]),
    "solve many": (weft.linalg.solve, [normal(3, 130, 130), normal(3, 130, 70)]),
    "svd": ((lambda x: summed(weft.linalg.svd(x, full_matrices=False))), [TALL]),
    "eigh": ((lambda x: summed(weft.linalg.eigh(x + x.mT))), [normal(301, 301)]),
    "eigenvalues": ((lambda x: weft.linalg.eigvalsh(x + x.mT)), [WIDE]),
    "cholesky": ((lambda x: weft.linalg.cholesky(x @ x.mT + 220 * weft.eye(220))), [WIDE]),
    "qr": ((lambda x: summed(weft.linalg.qr(x))), [TALL]),
    "lstsq": ((lambda x, y: weft.linalg.lstsq(x, y).solution), [TALL, normal(300, 20)]),
    "pinv": (weft.linalg.pinv, [TALL]),
    "determinant": ((lambda x: weft.linalg.slogdet(x).logabsdet), [WIDE]),
    "lu": ((lambda x: weft.linalg.lu_factor(x).LU), [WIDE]),
    "triangular": (
        (lambda x, y: weft.linalg.solve_triangular(x, y, upper=True)),
        [WIDE + 30 * np.eye(220, dtype="f4"), WIDE],
    ),
    "exponential": (weft.matrix_exp, [WIDE / 100]),
}


CASES = {
    "sum": ((lambda x: (x * x).sum()), [normal(300_001)]),
    "sum of columns": ((lambda x: (x * x).sum(0)), [normal(5003, 67)]),
    "deviation": ((lambda x: x.std() + x.var(0).mean()), [normal(1000, 301)]),
    "long softmax": ((lambda x: x.softmax(-1)), [normal(2, 100_003)]),
    "product": matmul(301, 301, 301),
    "deep product": matmul(8, 20_000, 8),
    "product by NumPy": matmul(30, 103, 230, dtype=np.float64),
    "row times matrix": matmul(1, 959, 523),
    "few rows": matmul(1, 20_000, 300),
    "matrix times column": matmul(1410, 336, 1, dtype=np.float64),
    "dot": ((lambda a, b: weft.dot(a, b)), [normal(40_001, dtype=np.float64)] * 2),
    "linear": ((lambda x, w, b: F.linear(x, w, b)), [normal(401, 65), normal(77, 65), normal(77)]),
    "convolution": convolution((6, 8, 31, 29), (16, 8, 3, 3), padding=1),
    "few channels": convolution((5, 3, 40, 37), (16, 3, 5, 5), stride=2),
    "one channel": convolution((32, 1, 28, 28), (8, 1, 3, 3), padding=1),
    "one channel in float64": convolution((7, 1, 28, 28), (8, 1, 3, 3), padding=1, dtype=np.float64),
    "one small image": convolution((1, 2, 9, 9), (8, 2, 3, 3), padding=1),
    "tiles of Winograd": convolution((7, 32, 10, 11), (48, 32, 3, 3), padding=1),
    "few tiles of Winograd": convolution((1, 16, 24, 24), (16, 16, 3, 3), padding=1),
    "channel by channel": convolution((6, 16, 31, 29), (16, 1, 3, 3), groups=16, padding=1),
    "layer norm": ((lambda x, w, b: F.layer_norm(x, (65,), w, b)), [normal(2003, 65), normal(65), normal(65)]),
    "batch norm": (
        (lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
        [normal(16, 12, 21, 19), normal(12), normal(12)],
    ),
    "attention": (
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        [normal(2, 3, 70, 16), normal(2, 3, 71, 16)[:, :, :70].copy(), normal(2, 3, 70, 16)],
    ),
    **{f"linalg: {name}": case for name, case in MATRICES.items()},
    "embedding": (embedded, [normal(50, 64)]),
    "cross entropy": (crossed, [normal(5003, 10)]),
}


def gradients(function, arrays):
    """The result and the gradient of every argument, for slopes that are all different."""

    def step(*tensors):
        tensors = [x.detach().requires_grad_() for x in tensors]
        y = function(*tensors)
        (y * y.detach().cos()).sum().backward()
        return [y.detach(), *(x.grad for x in tensors)]

    return step, [weft.from_numpy(a) for a in arrays]


@pytest.mark.parametrize("how", ["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads_gives_the_same_bits(name, how):
    check(*CASES[name], how, COUNTS)


@pytest.mark.parametrize("name", ["sum of columns", "product", "few channels", "batch norm", "attention", "embedding"])
def test_many_threads_give_the_same_bits(name):
    check(*CASES[name], "compiled", MANY)


def check(function, arrays, how, counts):
    step, tensors = gradients(function, arrays)
    found = {}
    for count in counts:
        weft.set_num_threads(count)
        run = weft.compile(step, threads=count) if how == "compiled" else step
        found[count] = [x.numpy().copy() for x in run(*tensors)]
    for count in counts[1:]:
        for number, (one, other) in enumerate(zip(found[1], found[count], strict=True)):
            np.testing.assert_array_equal(other, one, err_msg=f"{count} threads, number {number}", strict=True)


@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_training_goes_on_with_another_number_of_threads(how):
    x, y = weft.from_numpy(normal(16, 1, 14, 14)), weft.arange(16) % 10

    def weights(counts):
        weft.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(2304, 10))
        optimizer = weft.optim.Adam(model.parameters(), 1e-2)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        for count in counts:
            weft.set_num_threads(count)
            run = weft.compile(step, threads=count) if how == "compiled" else step
            run(x, y)
        return {name: value.numpy().copy() for name, value in model.state_dict().items()}

    steady, changing = weights([2, 2, 2, 2]), weights([1, 3, 5, 2])
    for name, value in steady.items():
        np.testing.assert_array_equal(changing[name], value, err_msg=name)


def test_small_kernels_take_some_of_the_threads():
    """Twelve times the work of the smallest shared product is for no more than some of 16 threads; large ones are for all."""
    x, y = weft.from_numpy(normal(20, 60)), weft.from_numpy(normal(600, 600))
    step = weft.compile(lambda: ((x @ x.t()).tanh(), y @ y), threads=16)
    slots = step.explain().plan.slots
    groups = {slot.step.kernel.flops: slot.group for slot in slots if slot.step.kernel.flops > 40_000}
    assert groups[2 * 20 * 20 * 60] == 2 and groups[2 * 600**3] == 1
    assert all(slot.only is None for slot in slots if slot.step.kernel.flops == 2 * 600**3)
    for threads in (1, 2, 16):
        found = weft.compile(lambda: ((x @ x.t()).tanh(), y @ y), threads=threads)()
        for one, other in zip(found, step(), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
