"""Looking inside: what explain, profile and draw say about compiled functions, and that looking changes nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft import nn
from weft.compiler import OPTIONAL, PIPELINE
from weft.compiler.show import roofline
from weft.errors import OptionError
from weft.kernels.llvm import jit

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """One for all of these tests; and probes of the machine that take milliseconds."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "explained"))
    monkeypatch.setattr(roofline, "ROUNDS", 20_000)
    monkeypatch.setattr(roofline, "STREAM", 1 << 20)
    roofline.measured.cache_clear()
    weft.manual_seed(2)
    yield
    roofline.measured.cache_clear()


def network():
    """A step with convolution, statistics, dropout and Adam; its arguments."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(8 * 36, 4)
    )
    optimizer = weft.optim.Adam(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, optimizer, step, (weft.randn(4, 3, 8, 8), weft.arange(4))


def counted(x):
    """What is asked about a matrix product and a sum: (5, 6) @ (6, 7)."""
    return weft.tanh(x @ weft.ones(6, 7)).sum(1)


# ---------------------------------------------------------------- what is said


def test_the_text_goes_through_all_passes():
    _, _, step, arguments = network()
    explanation = weft.compile(step, threads=2).explain(*arguments)
    text = str(explanation)
    assert re.search(r"passes: (.*)", text)[1].split(" → ") == list(PIPELINE)
    told = re.findall(r"── after (\w+) ──", text)
    assert told[0] == "trace" and {"fuse", "place", "buffers"} <= set(told)
    assert [name for name in PIPELINE if name in told] == [name for name in dict.fromkeys(told) if name in PIPELINE]
    for word in ("conv", "matmul", "draw", "captured", "written over", "phases"):
        assert word in text
    assert "test_explain.py" in explanation.profile.steps[0].lines


@pytest.mark.parametrize("name", ["fuse", "buffers", "place"])
def test_passes_that_are_left_out_are_said_to_be(name):
    text = str(weft.compile(counted, without=(name,)).explain(weft.randn(5, 6)))
    assert name in OPTIONAL and f"({name} left out)" in text
    assert f"── after {name} ──" not in text or name == "fuse"


def test_steps_come_with_work_and_times():
    profile = weft.compile(counted, threads=2).profile(weft.randn(5, 6))
    work = {step.operations.split()[0]: step for step in profile.steps}
    product = work["matmul"]
    assert product.flops >= 2 * 5 * 6 * 7
    assert product.nbytes >= 4 * (5 * 6 + 6 * 7)
    assert all(step.time > 0 and step.predicted > 0 and step.share > 0 for step in profile.steps)
    assert profile.slowest(1)[0].time == max(step.time for step in profile.steps)
    rows = str(profile).splitlines()
    assert rows[0].split()[:7] == ["phase", "threads", "µs", "least", "share", "MFLOP", "kB"]
    assert len(rows) == len(profile.steps) + 3
    assert f"{len(profile.steps)} steps" in rows[-2] and "2 threads" in rows[-2] and "temporary values" in rows[-1]


def test_the_memory_plan_is_what_the_plan_uses():
    _, _, step, arguments = network()
    explanation = weft.compile(step).explain(*arguments)
    lines = str(explanation).partition("── after buffers ──\n")[2].partition("\n\n")[0].splitlines()
    found = [re.match(r" +(\d+) \+ (\d+) +phases (\d+)–(\d+): (.+)", line).groups() for line in lines]
    assert max(int(at) + int(size) for at, size, *_ in found) <= explanation.profile.memory
    assert sum(int(size) for _, size, *_ in found) == explanation.profile.unshared > explanation.profile.memory
    for n, (at, size, first, last, _) in enumerate(found):  # whoever lives at the same time lies elsewhere
        for other, length, begin, end, _ in found[:n]:
            if int(first) <= int(end) and int(begin) <= int(last):
                assert int(at) + int(size) <= int(other) or int(other) + int(length) <= int(at)


def test_llvm_and_assembly_of_a_step():
    explanation = weft.compile(counted).explain(weft.randn(5, 6))
    symbol = jit.symbol(explanation.plan.slots[0].step.kernel.key())
    assert f"define void @{symbol}(ptr" in explanation.llvm(0)
    assembly = explanation.assembly(0)
    assert f"{symbol}:" in assembly and "ret" in assembly
    assert jit.emit_object(explanation.llvm(len(explanation.plan.slots) - 1), jit.Target.host())


@pytest.mark.parametrize("threads", [1, 2])
def test_the_roofline_is_measured(threads):
    roof = roofline.measured.__wrapped__(threads)
    assert 0.1 < roof.gflops < 1e5 and 0.1 < roof.gbytes < 1e4
    assert roof.seconds(roof.gflops * 1e9, 0) == pytest.approx(1)
    assert roof.seconds(1, roof.gbytes * 2e9) == pytest.approx(2)


# ---------------------------------------------------------------- nothing changes


def test_looking_changes_nothing():
    model, optimizer, step, arguments = network()
    model.seen = 0

    def counting(x, y):
        model.seen += 1
        return step(x, y)

    run = weft.compile(counting)
    state = lambda: (
        [v.numpy().tobytes() for v in model.state_dict().values()],
        [{k: v.numpy().tobytes() for k, v in s.items()} for s in optimizer.state.values()],
        [None if p.grad is None else p.grad.numpy().tobytes() for p in model.parameters()],
        [p._version for p in model.parameters()],
        weft.get_rng_state().tolist(),
        model.seen,
        [x.numpy().tobytes() for x in arguments],
    )
    for _ in range(2):
        before = state()
        run.explain(*arguments)
        run.profile(*arguments)
        run.graph(*arguments)
        assert state() == before
        run(*arguments)
        assert state() != before
    assert sum(map(len, run.plans.values())) == 1


def test_arguments_that_are_written_are_put_back():
    def step(x):
        x.mul_(2)
        return x.sum()

    x = weft.ones(5)
    assert weft.compile(step).explain(x).profile.steps
    assert x.tolist() == [1.0] * 5


def test_an_error_while_looking_changes_nothing():
    model = nn.Embedding(4, 2)
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    def step(i):
        model(i).sum().backward()
        optimizer.step()

    before = model.weight.detach().clone()
    with pytest.raises(IndexError, match="index 9 "):
        weft.compile(step).explain(weft.tensor([1, 9]))
    assert (model.weight == before).all() and model.weight.grad is None


# ---------------------------------------------------------------- pictures


def boxes(text):
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    return [t.text for t in root.iter(f"{SVG}text")]


def test_the_picture_shows_every_step(tmp_path):
    _, _, step, arguments = network()
    explanation = weft.compile(step).explain(*arguments)
    texts = boxes(explanation.draw(str(tmp_path / "plan.svg")))
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8").startswith("<svg")
    for step in explanation.profile.steps:
        assert any(text.startswith(f"{step.kernel}: {step.operations[:20]}") for text in texts)
    assert sum("µs" in text for text in texts) == len(explanation.profile.steps)


@pytest.mark.parametrize("function", [lambda x: x, lambda x: None, lambda x: weft.ones(3), lambda x: x < 1])
def test_pictures_of_next_to_nothing(function):
    explanation = weft.compile(function).explain(weft.ones(3))
    assert boxes(explanation.draw())
    assert "steps" in str(explanation)


# ---------------------------------------------------------------- host calls, control flow


def test_host_calls_are_timed_and_have_no_code():
    run = weft.compile(lambda x: weft.linalg.svdvals(x @ x + 1).sum() * 2)
    x = weft.randn(20, 20)
    explanation = run.explain(x)
    kinds = [step.threads for step in explanation.profile.steps]
    number = kinds.index("python")
    host = explanation.profile.steps[number]
    assert (host.kernel, host.operations, host.flops, host.nbytes) == ("host", "svdvals", 0, 0)
    assert host.time > 1
    with pytest.raises(OptionError, match=rf"step {number} \(svdvals\) is computed by Python"):
        explanation.assembly(number)
    assert "define void" in explanation.llvm(0)
    assert len(boxes(explanation.draw())) > 4
    np.testing.assert_allclose(run(x).item(), 2 * np.linalg.svd((x @ x + 1).numpy(), compute_uv=False).sum(), rtol=1e-4)


def test_loops_count_the_work_of_all_their_steps():
    w = weft.randn(8, 8)

    def function(x):
        last, rows = weft.scan(lambda c, row: ((c + row) @ w, c.tanh()), weft.zeros(4, 8), x)
        return last, rows

    x = weft.randn(10, 4, 8)
    explanation = weft.compile(function).explain(x)
    (loop,) = [step for step in explanation.profile.steps if "scan" in step.operations]
    assert loop.kernel == "Repeat" and loop.threads != "python"
    assert "matmul" in loop.operations and "tanh" in loop.operations
    assert loop.flops >= 10 * 2 * 4 * 8 * 8
    assert loop.time > 0
    number = explanation.profile.steps.index(loop)
    assert explanation.llvm(number).count("define void") >= 2
    assert boxes(explanation.draw())
    assert "scan" in str(explanation)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: weft.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + 1, x),
        lambda x: weft.cond(x.sum() > 0, lambda v: v.exp(), lambda v: v @ v, x),
        lambda x: weft.fori_loop(0, 5, lambda i, c: weft.linalg.inv(c + weft.eye(4) * 9), x),
    ],
    ids=["while_loop", "cond", "fori_loop"],
)
def test_control_flow_can_be_looked_at(function):
    explanation = weft.compile(function).explain(weft.ones(4, 4))
    assert all(step.time >= 0 for step in explanation.profile.steps)
    assert boxes(explanation.draw()) and str(explanation)
