"""`odeint` against SciPy, closed forms and its own order; adjoint against direct gradients; events; one plan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import weft
from weft import nn
from weft.errors import ArgumentError, DtypeError, OptionError, ShapeError, StateError
from weft.integrate import METHODS, odeint, odeint_adjoint, odeint_event
from weft.integrate.steps import fixed_step

DOUBLE = {"dtype": weft.float64}
ADAPTIVE = [name for name, table in METHODS.items() if table.adaptive]
FIXED = [name for name in METHODS if name not in ADAPTIVE]
MATRIX = weft.tensor([[-0.1, 2.0], [-2.0, -0.1]], **DOUBLE)


def spiral(t, y):
    return (y**3) @ MATRIX + 0.1 * t.sin()


def spiral_by_scipy(times):
    field = lambda t, y: (y**3) @ MATRIX.numpy() + 0.1 * np.sin(t)
    return solve_ivp(field, (times[0], times[-1]), [1.5, 0.0], t_eval=times, rtol=1e-12, atol=1e-12).y.T


START, TIMES = weft.tensor([1.5, 0.0], **DOUBLE), weft.linspace(0, 2, 5, **DOUBLE)


# ---- methods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_order_by_richardson(method):
    """Halving the step divides the error of y′ = y cos t by 2^order; of dopri5, by 32."""
    table = METHODS[method]
    field = lambda t, y: [y[0] * t.cos()]
    errors = []
    for count in (40, 80):
        y, dt = [weft.ones((), **DOUBLE)], weft.tensor(2.0 / count, **DOUBLE)
        for number in range(count):
            y = fixed_step(field, table, number * dt, y, dt)
        errors.append(abs(y[0].item() - math.exp(math.sin(2.0))))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(table.order, abs=0.35)


@pytest.mark.parametrize("method", METHODS)
def test_tableaus_are_consistent(method):
    table = METHODS[method]
    assert sum(table.b) == pytest.approx(1) and sum(table.error) == pytest.approx(0, abs=1e-14)
    for c, row in zip(table.c, table.a, strict=True):
        assert sum(row) == pytest.approx(c)
    if table.middle:
        assert sum(table.middle) == pytest.approx(0.5)
    if table.adaptive:  # the last stage is the slope at the end of the step
        assert table.c[-1] == 1 and table.a[-1] == pytest.approx(table.b[: len(table.a[-1])])


@pytest.mark.parametrize("method", METHODS)
def test_solutions_are_scipys(method):
    expected = spiral_by_scipy(TIMES.numpy())
    options = {} if method in ADAPTIVE else {"num_steps": 400 if method == "euler" else 40}
    tolerance = 1e-4 if method == "adaptive_heun" else 1e-6  # fehlberg2's estimate is that of a first-order step, tiny
    found = odeint(spiral, START, TIMES, method=method, rtol=tolerance, atol=tolerance, options=options)
    second = dict.fromkeys(("midpoint", "heun", "heun2"), 5e-3) | {"heun3": 5e-4}
    limit = ({"euler": 0.1, "adaptive_heun": 2e-3, "fehlberg2": 2e-3} | second).get(method, 1e-4)
    assert np.abs(found.numpy() - expected).max() < limit and found.shape == (5, 2)


def test_tight_tolerances_are_kept_also_backwards_and_between_steps():
    """Twenty asked times in a handful of steps: dense output is as good as the steps."""
    times = weft.linspace(0, 1, 21, **DOUBLE)
    found = odeint(spiral, START, times, rtol=1e-9, atol=1e-11)
    assert np.abs(found.numpy() - spiral_by_scipy(times.numpy())).max() < 1e-7
    back = odeint(spiral, found[-1], times.flip(0), rtol=1e-9, atol=1e-11)
    assert (back.flip(0) - found).abs().max() < 1e-6


def test_dopri5_takes_the_steps_of_the_published_controller():
    """Hairer's rule and the error estimate decide how often func is asked: as SciPy's RK45, within a few."""
    asked = [0]

    def field(t, y):
        asked[0] += 1
        return spiral(t, y)

    odeint(field, START, TIMES[[0, -1]], rtol=1e-6, atol=1e-8)
    theirs = solve_ivp(
        lambda t, y: (y**3) @ MATRIX.numpy() + 0.1 * np.sin(t), (0, 2), [1.5, 0.0], rtol=1e-6, atol=1e-8
    ).nfev
    assert 0.6 * theirs < asked[0] < 1.6 * theirs


@pytest.mark.parametrize("method", ["dopri5", "rk4"])
def test_tuples_of_different_shapes(method):
    """A harmonic oscillator and a decay, side by side: cos, −sin, e⁻ᵗ."""
    start = (weft.tensor([1.0, 0.0], **DOUBLE), weft.ones(2, 3, **DOUBLE))
    field = lambda t, y: (weft.stack([y[0][1], -y[0][0]]), -y[1])
    swing, decay = odeint(field, start, TIMES, method=method, options={"num_steps": 50} if method == "rk4" else None)
    np.testing.assert_allclose(swing[:, 0], np.cos(TIMES.numpy()), atol=1e-6)
    np.testing.assert_allclose(decay[-1], np.full((2, 3), math.exp(-2)), atol=1e-6)


def test_step_size_and_first_step_and_one_time():
    by_size = odeint(spiral, START, TIMES, method="rk4", options={"step_size": 0.05})
    by_count = odeint(spiral, START, TIMES, method="rk4", options={"num_steps": 10})
    weft.testing.assert_close(by_size, by_count)
    chosen = odeint(spiral, START, TIMES[:3], rtol=1e-7, options={"first_step": 0.1})
    assert np.abs(chosen.numpy() - spiral_by_scipy(TIMES.numpy()[:3])).max() < 1e-5
    assert weft.equal(odeint(spiral, START, TIMES[:1]), START.unsqueeze(0))
    assert odeint(lambda t, y: -y, weft.zeros(0, 2), weft.tensor([0.0, 1.0])).shape == (2, 0, 2)


# ---- gradients -----------------------------------------------------------------------------------------------


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        weft.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 8, **DOUBLE), nn.Tanh(), nn.Linear(8, 2, **DOUBLE))

    def forward(self, t, y):
        return self.net(y) * (1 + t.sin())


def slopes(solve, field, start, times, **options):
    start, times = start.clone().requires_grad_(), times.clone().requires_grad_()
    ys = solve(field, start, times, **({"rtol": 1e-9, "atol": 1e-11} | options))
    loss = (ys * weft.arange(ys.numel(), **DOUBLE).reshape(ys.shape)).sum()
    return weft.autograd.grad(loss, [start, times, *field.parameters()])


def test_adjoint_gradients_are_those_through_the_steps():
    """Of the start, of every time and of every parameter."""
    field, start, times = Field(), weft.tensor([[1.0, -0.5], [0.2, 0.3]], **DOUBLE), TIMES[:3]
    direct = slopes(odeint, field, start, times)
    for found, expected in zip(slopes(odeint_adjoint, field, start, times), direct, strict=True):
        weft.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_gradients_against_closed_forms():
    """y′ = −k y: dy(T)/dk = −T e^{−kT}, dy(T)/dT = −k e^{−kT}."""
    k, times = weft.tensor(0.7, **DOUBLE, requires_grad=True), weft.tensor([0.0, 2.0], **DOUBLE, requires_grad=True)
    expected = (-2 * math.exp(-1.4), -0.7 * math.exp(-1.4))
    for solve in (odeint, lambda *a: odeint_adjoint(*a, adjoint_params=[k])):
        end = solve(lambda t, y: -k * y, weft.ones(1, **DOUBLE), times)[-1].sum()
        by_k, by_t = weft.autograd.grad(end, [k, times])
        assert by_k.item() == pytest.approx(expected[0], rel=1e-6) and by_t[1].item() == pytest.approx(
            expected[1], rel=1e-6
        )


def test_direct_gradients_survive_steps_that_are_taken_back():
    """A first step far too large is taken back, and must not leave NaN behind."""
    start = weft.tensor([1.0], **DOUBLE, requires_grad=True)
    y = odeint(lambda t, y: y**2 * 5, start, weft.tensor([0.0, 0.15], **DOUBLE), options={"first_step": 50.0})
    y[-1].sum().backward()
    assert y[-1].item() == pytest.approx(1 / (1 - 0.75), rel=1e-6)
    assert start.grad.item() == pytest.approx(1 / 0.25**2, rel=1e-5)


# ---- inside of one plan --------------------------------------------------------------------------------------


def test_adaptive_steps_inside_a_plan_are_those_of_eager_code():
    solve = weft.compile(lambda y, t: odeint(spiral, y, t, rtol=1e-7, atol=1e-9))
    weft.testing.assert_close(solve(START, TIMES), odeint(spiral, START, TIMES, rtol=1e-7, atol=1e-9))
    other = TIMES * 0.5 + 0.3  # other times, another number of steps, the same plan
    weft.testing.assert_close(solve(START, other), odeint(spiral, START, other, rtol=1e-7, atol=1e-9))
    assert sum(map(len, solve.plans.values())) == 1


def test_gradients_inside_a_plan_by_adjoint_and_through_a_bounded_number_of_steps():
    field, start, times = Field(), weft.tensor([[1.0, -0.5]], **DOUBLE), TIMES[:2]
    loose = {"method": "bosh3", "rtol": 1e-4, "atol": 1e-4}
    for solve, options in ((odeint_adjoint, {}), (odeint, loose | {"options": {"max_num_steps": 20}})):
        expected = slopes(odeint, field, start, times, **options)
        found = weft.compile(lambda s, t, solve=solve, options=options: slopes(solve, field, s, t, **options))(
            start, times
        )
        for ours, theirs in zip(found, expected, strict=True):
            weft.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)


def test_a_plan_that_cannot_get_there_says_nan():
    solve = weft.compile(lambda y, t: odeint(lambda t, y: y**2, y, t, rtol=1e-5, atol=1e-5))
    found = solve(weft.ones(1), weft.tensor([0.0, 2.0]))
    assert found[0].item() == 1 and found[1].isnan().all()


# ---- events --------------------------------------------------------------------------------------------------


def falling(t, y):
    return y[1], weft.full((), -9.81, **DOUBLE)


@pytest.mark.parametrize("solve", [odeint, odeint_adjoint])
def test_time_of_an_event_and_its_gradients(solve):
    """A stone from height h: t* = √(2h/g), speed there −√(2gh)."""
    h = weft.tensor(10.0, **DOUBLE, requires_grad=True)
    given = {"odeint_interface": solve} | ({"adjoint_params": ()} if solve is odeint_adjoint else {})
    time, (height, speed) = odeint_event(
        falling, (h, weft.zeros((), **DOUBLE)), weft.zeros((), **DOUBLE), event_fn=lambda t, y: y[0], **given
    )
    true = math.sqrt(20 / 9.81)
    assert time.item() == pytest.approx(true, rel=1e-8) and height[0].item() == 10 and abs(height[1].item()) < 1e-7
    assert speed[1].item() == pytest.approx(-9.81 * true, rel=1e-8)
    by_time, by_speed = (weft.autograd.grad(x, [h], retain_graph=True)[0].item() for x in (time, speed[1]))
    assert by_time == pytest.approx(0.5 / math.sqrt(9.81 * 5), rel=1e-6)  # d√(2h/g)/dh = 1 / √(2gh)
    assert by_speed == pytest.approx(-9.81 / math.sqrt(2 * 9.81 * 10), rel=1e-6)


def test_events_as_an_argument_backwards_and_compiled():
    swing = lambda t, y: weft.stack([y[1], -y[0]])
    start, event = weft.tensor([1.0, 0.0], **DOUBLE), lambda t, y: y[0]
    time, ys = odeint(swing, start, TIMES[:2], event_fn=event)
    assert time.item() == pytest.approx(math.pi / 2, abs=1e-6) and ys.shape == (2, 2)
    back, _ = odeint_event(swing, start, weft.zeros((), **DOUBLE), event_fn=event, reverse_time=True)
    assert back.item() == pytest.approx(-math.pi / 2, abs=1e-6)
    planned = weft.compile(lambda y: odeint(swing, y, TIMES[:2], event_fn=event)[0].detach())
    assert planned(start).item() == pytest.approx(math.pi / 2, abs=1e-6)


# ---- refusals ------------------------------------------------------------------------------------------------


def test_what_cannot_be_solved_is_refused():
    solve = lambda **o: odeint(lambda t, y: -y, weft.ones(2), weft.tensor([0.0, 1.0]), **o)
    for options, error, text in [
        ({"method": "rk5"}, OptionError, "dopri5"),
        ({"options": {"steps": 3}}, OptionError, "step_size"),
        ({"options": {"step_size": -1.0}, "method": "rk4"}, OptionError, "above 0"),
        ({"event_fn": lambda t, y: y[0], "method": "euler"}, OptionError, "chooses its steps"),
        ({"event_fn": lambda t, y: y}, ShapeError, "one number"),
        ({"event_fn": lambda t, y: y[0] + 1, "options": {"max_num_steps": 20}}, StateError, "change its sign"),
    ]:
        with pytest.raises(error, match=text):
            solve(**options)
    with pytest.raises(StateError, match="without bounds"):
        odeint(lambda t, y: y**2, weft.ones(1), weft.tensor([0.0, 2.0]), rtol=1e-5, atol=1e-5)
    with pytest.raises(StateError, match="max_num_steps"):
        odeint(spiral, START, TIMES, options={"max_num_steps": 2})
    with pytest.raises(OptionError, match="strictly"):
        odeint(spiral, START, weft.tensor([0.0, 1.0, 1.0], **DOUBLE))
    with pytest.raises(ShapeError, match=r"\(T,\)"):
        odeint(spiral, START, weft.tensor(1.0))
    with pytest.raises(ShapeError, match="what y is"):
        odeint(lambda t, y: y.sum(), START, TIMES)
    with pytest.raises(DtypeError, match="real numbers"):
        odeint(spiral, weft.ones(2, dtype=weft.int64), TIMES)
    with pytest.raises(ArgumentError, match="tuple of tensors"):
        odeint(spiral, 1.0, TIMES)
    with pytest.raises(ArgumentError, match="adjoint_params"):
        odeint_adjoint(spiral, START, TIMES)
