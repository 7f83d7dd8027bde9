"""Threads: the number asked for, and results that do not depend on it; memory that is kept."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

import weft
from weft.errors import WeftError
from weft.runtime.memory import keep_freed_memory
from weft.runtime.threads import in_parallel


@pytest.fixture(autouse=True)
def restored_threads():
    before = weft.get_num_threads()
    yield
    weft.set_num_threads(before)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_bad_counts_are_refused(count):
    with pytest.raises(WeftError, match="set_num_threads"):
        weft.set_num_threads(count)


def test_the_count_is_remembered():
    weft.set_num_threads(3)
    assert weft.get_num_threads() == 3


def layer_norm(threads):
    """Outputs and gradients of a layer norm large enough to be cut in pieces."""
    weft.set_num_threads(threads)
    rng = np.random.default_rng(0)
    x = weft.tensor(rng.standard_normal((2048, 512)).astype("float32"), requires_grad=True)
    layer = weft.nn.LayerNorm(512)
    y = layer(x)
    y.backward(weft.tensor(rng.standard_normal((2048, 512)).astype("float32")))
    return [t.detach().numpy() for t in (x, y, x.grad, layer.weight.grad, layer.bias.grad)]


def test_pieces_give_the_same_bits_on_one_and_two_threads_and_pytorchs_values():
    one, two = layer_norm(1), layer_norm(2)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((2048, 512)).astype("float32")).requires_grad_()
    layer = torch.nn.LayerNorm(512)
    y = layer(x)
    y.backward(torch.from_numpy(rng.standard_normal((2048, 512)).astype("float32")))
    for ours, theirs in zip(two[1:], (y, x.grad, layer.weight.grad, layer.bias.grad), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-4)


def test_an_error_in_any_piece_is_raised():
    weft.set_num_threads(2)

    def work(part):
        if part == 3:
            raise ValueError("piece 3")

    with pytest.raises(ValueError, match="piece 3"):
        in_parallel(work, range(4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_makes_its_own_threads():
    weft.set_num_threads(2)
    done = np.zeros(4)
    in_parallel(lambda part: done.__setitem__(part, 1), range(4))
    child = os.fork()
    if child == 0:
        found = np.zeros(4)
        in_parallel(lambda part: found.__setitem__(part, 1), range(4))
        os._exit(0 if found.all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert done.all()


def test_freed_memory_is_kept_unless_the_user_says_no(monkeypatch):
    """With memory kept, an array of 16 MiB made a second time faults in almost no pages."""
    resource = pytest.importorskip("resource")
    monkeypatch.setenv("WEFT_KEEP_MEMORY", "0")
    assert keep_freed_memory() is False
    monkeypatch.delenv("WEFT_KEEP_MEMORY")
    if not keep_freed_memory():  # not glibc
        return

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(1 << 22, np.float32)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert min(faults() for _ in range(4)) < 64  # 4096 pages
