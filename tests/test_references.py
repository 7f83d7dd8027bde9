"""Memory of gradients is used again only where nobody else holds it, however an interpreter counts references."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
count = sys.getrefcount
{change}
import weft

def taken_over(hold):
    '''Whether x.grad is the very memory that the backward pass made, which `hold` may hold on to.'''
    seen = []
    x = weft.ones(4, requires_grad=True)
    y = x * 3.0
    x.register_hook(lambda g: seen.append((g.data_ptr(), hold(g))) or None)
    y.sum().backward()
    return x.grad.data_ptr() == seen[0][0]

assert taken_over(lambda g: None) is {counts}
assert not taken_over(lambda g: g)
assert not taken_over(lambda g: g.detach())
assert not taken_over(lambda g: g.numpy())

x, given = weft.zeros(3, requires_grad=True), weft.ones(3)
x.backward(given)
x.grad += 1
assert given.tolist() == [1, 1, 1]

def step(x, w):
    w.grad = None
    (x * w).sum().backward()

compiled = weft.compile(lambda x, w=weft.ones(2 ** 12, requires_grad=True): (step(x, w), w.grad)[1])
first = compiled(weft.ones(2 ** 12))
for k in (2, 3):
    last = compiled(weft.full((2 ** 12,), k))
    assert last[0] == k and first[0] == 1, 'memory that was in use'
"""

CHANGES = {
    "as it is": "",
    "arguments are borrowed": "sys.getrefcount = lambda x: count(x) - 2",  # x of the lambda, its argument to count
    "more references": "sys.getrefcount = lambda x: count(x) + 3",
    "nothing is counted": "del sys.getrefcount",
}


@pytest.mark.parametrize("change", CHANGES)
def test_memory_of_gradients(change):
    program = PROGRAM.format(change=CHANGES[change], counts=change != "nothing is counted")
    environment = {**os.environ, "WEFT_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
