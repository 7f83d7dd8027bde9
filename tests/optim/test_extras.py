"""What PyTorch does not have: Lion, the notes' momentum, Muon in full precision, schedules, range test, penalties."""

from __future__ import annotations

import types
from itertools import pairwise
from typing import Any

import networkx
import numpy as np
import pytest
import scipy.linalg
import torch

import weft
from weft.errors import OptionError
from weft.optim.line_search import Point, strong_wolfe

from .problems import Walk, parameter

# ------------------------------------------------------------------------------------- optimisers


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lion_follows_its_formula(decay: float) -> None:
    rng = np.random.default_rng(0)
    theta, m = rng.standard_normal((4, 3)), np.zeros((4, 3))
    p = parameter(weft, theta)
    optimizer = weft.optim.Lion([p], lr=0.01, betas=(0.9, 0.95), weight_decay=decay)
    for _ in range(50):
        g = rng.standard_normal((4, 3))
        theta = theta - 0.01 * (np.sign(0.9 * m + 0.1 * g) + decay * theta)
        m = 0.95 * m + 0.05 * g
        p.grad = weft.from_numpy(g)
        optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), theta, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, dict(weight_decay=0.1), dict(maximize=True)], ids=["", "decay", "maximize"])
def test_heavy_ball_is_sgd_with_momentum(options: dict[str, Any]) -> None:
    """N2 §3.4.4: v ← γv − εg is −ε times SGD's buffer."""
    ball = Walk(weft, "HeavyBall", dict(lr=0.02, momentum=0.8) | options)
    sgd = Walk(torch, "SGD", dict(lr=0.02, momentum=0.8) | options)
    for step in range(50):
        ball.step(step)
        sgd.step(step)
    for (name, x), y in zip(ball.values().items(), sgd.values().values(), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9, err_msg=name)
    velocity = ball.optimizer.state[ball.p["w1"]]["velocity"].numpy()
    np.testing.assert_allclose(velocity, -0.02 * sgd.optimizer.state[sgd.p["w1"]]["momentum_buffer"].numpy(), rtol=1e-6)


def test_the_speed_of_the_ball_approaches_the_effective_rate() -> None:
    """N2 §3.4.4: in a constant gradient the update grows to ε / (1 − γ) times the gradient."""
    p = parameter(weft, np.zeros(1))
    optimizer = weft.optim.HeavyBall([p], lr=0.1, momentum=0.9)
    for _ in range(300):
        p.grad = weft.ones(1, dtype=weft.float64)
        optimizer.step()
    assert optimizer.state[p]["velocity"].item() == pytest.approx(-0.1 / (1 - 0.9))


@pytest.mark.parametrize("options", [{}, dict(weight_decay=0.1)], ids=["", "decay"])
def test_nesterov_looks_ahead_where_sgd_stands(options: dict[str, Any]) -> None:
    """θ + γ v of the notes' form are the iterates of SGD(nesterov=True)."""
    ahead = Walk(weft, "Nesterov", dict(lr=0.02, momentum=0.8) | options)
    sgd = Walk(torch, "SGD", dict(lr=0.02, momentum=0.8, nesterov=True) | options)
    for step in range(50):
        ahead.step(step)
        sgd.step(step)
    for name, theirs in sgd.p.items():
        ours = ahead.p[name]
        velocity = ahead.optimizer.state[ours]["velocity"].numpy() if ours in ahead.optimizer.state else 0.0
        np.testing.assert_allclose(
            ours.detach().numpy() + 0.8 * velocity, theirs.detach().numpy(), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 6)])
@pytest.mark.parametrize("options", [{}, dict(nesterov=False), dict(adjust_lr_fn="match_rms_adamw", weight_decay=0.0)])
def test_muon_is_pytorchs_up_to_bfloat16(shape: tuple[int, int], options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    first, gradients = rng.standard_normal(shape), rng.standard_normal((5, *shape))
    p, q = parameter(weft, first), parameter(torch, first)
    ours, theirs = weft.optim.Muon([p], lr=0.1, **options), torch.optim.Muon([q], lr=0.1, **options)
    for g in gradients:
        p.grad, q.grad = weft.from_numpy(g), torch.from_numpy(g)
        ours.step()
        theirs.step()
    buffer = theirs.state[q]["momentum_buffer"].numpy()
    np.testing.assert_allclose(ours.state[p]["momentum_buffer"].numpy(), buffer, rtol=1e-12)
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), atol=0.02)


def test_muons_update_is_nearly_the_polar_factor() -> None:
    """With the coefficients of the cubic Newton–Schulz iteration it converges to U Vᵀ."""
    matrix = np.random.default_rng(0).standard_normal((4, 7))
    found = weft.optim.muon.orthogonalised(weft.from_numpy(matrix), (1.5, -0.5, 0.0), 40, 1e-7)
    np.testing.assert_allclose(found.numpy(), scipy.linalg.polar(matrix)[0], atol=1e-10)
    values = np.linalg.svd(weft.optim.muon.orthogonalised(weft.from_numpy(matrix), (3.4445, -4.775, 2.0315), 5, 1e-7))[
        1
    ]
    assert values.min() > 0.6 and values.max() < 1.3


def test_strong_wolfe_finds_what_it_promises() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        a, b, c, first = rng.standard_normal(4)

        def at(t: float, a: float = a, b: float = b, c: float = c) -> Point:
            value, slope = (
                0.1 * t * t - np.sin(a + t) + b * np.cos(c * t),
                0.2 * t - np.cos(a + t) - b * c * np.sin(c * t),
            )
            return Point(t, value, weft.tensor([slope]), slope)

        if at(0.0).slope >= 0:
            continue
        start = at(0.0)
        point, calls = strong_wolfe(at, start, abs(first), 1.0)
        assert calls <= 26
        assert point.value <= start.value + 1e-4 * point.t * start.slope
        assert abs(point.slope) <= 0.9 * abs(start.slope)


def test_lbfgs_in_rosenbrocks_valley() -> None:
    found = []
    for library in (weft, torch):
        p = parameter(library, np.array([-1.2, 1.0]))
        optimizer = library.optim.LBFGS([p], line_search_fn="strong_wolfe", max_iter=100)

        def closure(p: Any = p, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            value = 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2
            value.backward()
            return value

        assert optimizer.step(closure).item() == pytest.approx(24.2)
        found.append((p.detach().numpy(), optimizer.state[p]["func_evals"]))
    np.testing.assert_allclose(found[0][0], [1.0, 1.0], atol=1e-4)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    assert found[0][1] == found[1][1]


# ------------------------------------------------------------------------------------- sparse gradients


def look_up(library: Any, table: Any, rows: np.ndarray, factors: np.ndarray) -> None:
    """Give the table a sparse gradient: `factors` added into `rows`."""
    table.grad = None
    picked = library.nn.functional.embedding(library.from_numpy(rows), table, sparse=True)
    (picked * library.from_numpy(factors)).sum().backward()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", dict(lr=0.1)),
        ("SGD", dict(lr=0.1, momentum=0.9)),
        ("SGD", dict(lr=0.1, maximize=True)),
        ("Adagrad", dict(lr=0.1, lr_decay=0.1)),
        ("SparseAdam", dict(lr=0.1)),
        ("SparseAdam", dict(lr=0.1, betas=(0.5, 0.9), eps=1e-3, maximize=True)),
    ],
)
def test_sparse_gradients(name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    first = rng.standard_normal((10, 3))
    p, q = parameter(weft, first), parameter(torch, first)
    ours, theirs = getattr(weft.optim, name)([p], **options), getattr(torch.optim, name)([q], **options)
    for _ in range(50):
        rows, factors = rng.integers(0, 8, 4), rng.standard_normal((4, 3))  # rows may repeat; 8 and 9 never come
        for library, table, optimizer in ((weft, p, ours), (torch, q, theirs)):
            look_up(library, table, rows, factors)
            optimizer.step()
    assert p.grad.is_sparse
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6, atol=1e-9)
    assert np.array_equal(p.detach().numpy()[8:], first[8:])
    ours.zero_grad(set_to_none=False)
    assert p.grad is None


def test_sparse_gradients_are_clipped_as_dense_ones() -> None:
    rng = np.random.default_rng(0)
    table, rows, factors = rng.standard_normal((5, 3)), np.array([1, 3, 1]), rng.standard_normal((3, 3))
    p, q = parameter(weft, table), parameter(torch, table)
    look_up(weft, p, rows, factors)
    look_up(torch, q, rows, factors)
    q.grad = q.grad.to_dense()
    assert weft.nn.utils.clip_grad_norm_(p, 0.5).item() == pytest.approx(torch.nn.utils.clip_grad_norm_(q, 0.5).item())
    np.testing.assert_allclose(p.grad.to_dense().numpy(), q.grad.numpy(), rtol=1e-9)


def test_sparse_gradients_where_they_do_not_belong() -> None:
    def stepped(name: str, sparse: bool, **options: Any) -> None:
        p = parameter(weft, np.ones((4, 2)))
        if sparse:
            look_up(weft, p, np.array([1]), np.ones((1, 2)))
        else:
            p.grad = weft.ones(4, 2, dtype=weft.float64)
        getattr(weft.optim, name)([p], **options).step()

    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients, please consider SparseAdam"):
        stepped("AdamW", True)
    with pytest.raises(RuntimeError, match="RMSprop does not support sparse gradients"):
        stepped("RMSprop", True)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        stepped("SparseAdam", False)
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible"):
        stepped("Adagrad", True, weight_decay=0.1)


# ------------------------------------------------------------------------------------- schedules


def test_batch_size_schedule_keeps_the_noise_scale_of_a_decaying_rate() -> None:
    """N2 §3.4.3: ε / |B| follows the plan of MultiStepLR with γ = 1 / growth, with a batch that grows while it can."""
    plan = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    decay = torch.optim.lr_scheduler.MultiStepLR(plan, [3, 6, 9], gamma=0.25)
    loader, optimizer = types.SimpleNamespace(batch_size=32), weft.optim.SGD([parameter(weft, np.ones(1))], lr=0.1)
    schedule = weft.optim.BatchSizeSchedule(loader, [3, 6, 9], growth=4, max_batch_size=512, optimizer=optimizer)
    sizes = []
    for epoch in range(12):
        if epoch == 7:
            saved = schedule.state_dict()
            loader.batch_size = 32
            schedule = weft.optim.BatchSizeSchedule(loader, [3, 6, 9], 4, 512, optimizer)
            schedule.load_state_dict(saved)
        sizes.append(loader.batch_size)
        assert optimizer.param_groups[0]["lr"] / loader.batch_size == pytest.approx(plan.param_groups[0]["lr"] / 32)
        plan.step()
        decay.step()
        schedule.step()
    assert sizes == [32] * 3 + [128] * 3 + [512] * 6


def test_batch_size_schedule_errors() -> None:
    with pytest.raises(ValueError, match="growth must be positive"):
        weft.optim.BatchSizeSchedule(types.SimpleNamespace(batch_size=4), [1], growth=0)
    with pytest.raises(ValueError, match="below the first batch size"):
        weft.optim.BatchSizeSchedule(types.SimpleNamespace(batch_size=4), [1], max_batch_size=2)


def test_range_test_on_a_parabola() -> None:
    """On ½ λ θ² the loss after each step is known, and rates above 2 / λ make it grow."""
    curvature = 4.0
    model = weft.nn.ParameterList([parameter(weft, np.array([1.0]))])
    optimizer = weft.optim.SGD(model.parameters(), lr=0.3)
    model[0].grad = weft.ones(1, dtype=weft.float64)
    found = weft.optim.lr_range_test(
        model, optimizer, lambda batch: batch * (model[0] ** 2).sum() / 2, [curvature], start_lr=1e-4, steps=120
    )
    ratio = (10 / 1e-4) ** (1 / 119)
    np.testing.assert_allclose(found.lrs, 1e-4 * ratio ** np.arange(len(found.lrs)), rtol=1e-12)
    path = np.cumprod(np.concatenate([[1.0], 1 - np.array(found.lrs[:-1]) * curvature]))
    np.testing.assert_allclose(found.losses, curvature * path**2 / 2, rtol=1e-9)
    assert len(found.lrs) < 120 and found.lrs[-1] > 2 / curvature
    assert 1e-3 < found.suggestion < 2 / curvature
    assert model[0].item() == 1.0 and model[0].grad.item() == 1.0
    assert optimizer.param_groups[0]["lr"] == 0.3 and not optimizer.state


def test_range_test_restores_buffers_and_state_even_after_an_error() -> None:
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.BatchNorm1d(4), weft.nn.Linear(4, 1))
    optimizer = weft.optim.Adam(model.parameters(), lr=0.01)
    x = weft.from_numpy(np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32))
    model(x).sum().backward()
    optimizer.step()
    before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    moments = optimizer.state[model[0].weight]["exp_avg"].numpy().copy()
    weft.optim.lr_range_test(model, optimizer, lambda batch: (model(batch) ** 2).mean(), [x], steps=10)

    def failing(batch: Any) -> Any:
        model(batch)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weft.optim.lr_range_test(model, optimizer, failing, [x])
    for name, value in model.state_dict().items():
        assert np.array_equal(value.numpy(), before[name]), name
    assert np.array_equal(optimizer.state[model[0].weight]["exp_avg"].numpy(), moments)
    with pytest.raises(ValueError, match="`batches` is empty"):
        weft.optim.lr_range_test(model, optimizer, failing, [])
    with pytest.raises(ValueError, match="expected 0 < start_lr < end_lr"):
        weft.optim.lr_range_test(model, optimizer, failing, [x], start_lr=1.0, end_lr=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_range_test_on_small_problems_suggests_a_rate_that_trains(seed: int) -> None:
    """64 rows in batches of 8: their losses differ more than a step changes them. 20 passes come near the best line."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((64, 10))
    y = x @ rng.standard_normal(10) + 0.5 * rng.standard_normal(64)
    best = np.mean((x @ np.linalg.lstsq(x, y)[0] - y) ** 2)
    weft.manual_seed(seed)
    model = weft.nn.Linear(10, 1, bias=False).double()
    optimizer = weft.optim.SGD(model.parameters(), lr=1.0)
    rows = [(weft.from_numpy(x[i : i + 8]), weft.from_numpy(y[i : i + 8])) for i in range(0, 64, 8)]

    def loss(batch: Any) -> Any:
        return weft.nn.functional.mse_loss(model(batch[0])[:, 0], batch[1])

    found = weft.optim.lr_range_test(model, optimizer, loss, rows)
    assert found.lrs[-1] / 300 < found.suggestion < found.lrs[-1] / 3
    optimizer.param_groups[0]["lr"] = found.suggestion
    for batch in rows * 20:
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()
    assert sum(loss(batch).item() for batch in rows) / 8 < 1.5 * best


@pytest.mark.parametrize("cycle", [1, 7, 1000])
def test_range_test_suggests_nothing_from_noise(cycle: int) -> None:
    """Losses that do not depend on the parameter."""
    model = weft.nn.ParameterList([parameter(weft, np.array([1.0]))])
    optimizer = weft.optim.SGD(model.parameters(), lr=0.3)
    for seed in range(6):
        rng, batches = np.random.default_rng(seed), list(np.random.default_rng(seed).standard_normal(cycle))
        for noise in (0.0, 0.3):
            found = weft.optim.lr_range_test(
                model,
                optimizer,
                lambda b, n=noise, r=rng: 0 * model[0].sum() + 5 + b + n * r.standard_normal(),
                batches,
            )
            assert found.suggestion is None and len(found.lrs) == 100, (seed, noise)


# ------------------------------------------------------------------------------------- penalties


def test_l2_penalty_is_weight_decay() -> None:
    """The gradient of λ ‖θ‖² / 2 moves plain SGD as its weight_decay does (N1 §2.2)."""
    walks = [Walk(torch, "SGD", dict(lr=0.05, weight_decay=0.1)), Walk(weft, "SGD", dict(lr=0.05))]
    plain = walks[1].loss
    walks[1].loss = lambda lib, p, n: (
        plain(lib, p, n) + weft.optim.l2_penalty([v for k, v in p.items() if k != "still"], 0.1)
    )
    for step in range(30):
        for walk in walks:
            walk.step(step)
    np.testing.assert_allclose(walks[1].values()["w1"], walks[0].values()["w1"], rtol=1e-9)


def test_penalties_with_a_strength_for_each_layer() -> None:
    rng = np.random.default_rng(0)
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.Linear(4, 2)).double()
    a, b = (m.weight.detach().numpy() for m in model)
    strengths = {"0.weight": 2.0, "*.weight": 0.5}
    assert weft.optim.l1_penalty(model, strengths).item() == pytest.approx(2 * abs(a).sum() + 0.5 * abs(b).sum())
    assert weft.optim.l2_penalty(model, strengths).item() == pytest.approx((a**2).sum() + 0.25 * (b**2).sum())
    tensors = [weft.from_numpy(rng.standard_normal(3)), weft.from_numpy(rng.standard_normal(2) * 1j)]
    expected = 3 * abs(tensors[0].numpy()).sum() + abs(tensors[1].numpy()).sum()
    assert weft.optim.l1_penalty(tensors, [3.0, 1.0]).item() == pytest.approx(expected)
    assert weft.optim.l2_penalty(tensors[1:]).item() == pytest.approx((abs(tensors[1].numpy()) ** 2).sum() / 2)
    assert weft.optim.l1_penalty(model, {}).item() == 0.0
    for penalty in (weft.optim.l1_penalty, weft.optim.l2_penalty):
        for wrong in ({"encoder.*": 1.0}, {"*.weight": 1.0, "2.*": 0.5}, {"weight": 1.0}):
            with pytest.raises(OptionError, match=r"fits no parameter; their names are 0\.weight, 0\.bias"):
                penalty(model, wrong)
        with pytest.raises(OptionError, match="fits no parameter"):
            penalty(tensors, {"*.weight": 1.0})  # tensors have no names
    with pytest.raises(ValueError, match="4 parameters, but 1 strengths"):
        weft.optim.l1_penalty(model, [1.0])


@pytest.mark.parametrize(("norm_type", "dim"), [(2.0, 0), (1.0, 0), (2.0, 1), (float("inf"), 0)])
def test_max_norm_is_pytorchs_renorm(norm_type: float, dim: int) -> None:
    array = np.random.default_rng(0).standard_normal((6, 3, 2))
    array[2] = 0
    p = parameter(weft, array)
    weft.optim.max_norm_(p, 1.5, norm_type, dim)
    expected = torch.renorm(torch.from_numpy(array), norm_type, dim, 1.5).numpy()
    np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-6, atol=1e-12)
    vector = parameter(weft, np.array([-3.0, 0.5]))
    weft.optim.max_norm_([vector], 1.0)
    assert vector.tolist() == [-1.0, 0.5]


def weights(sizes: list[int], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((above, below)) for below, above in pairwise(sizes)]


@pytest.mark.parametrize("sizes", [[3, 4], [3, 4, 2], [5, 2, 6, 3]])
def test_fiedler_value_is_the_algebraic_connectivity(sizes: list[int]) -> None:
    matrices = weights(sizes)
    graph, first = networkx.Graph(), np.concatenate([[0], np.cumsum(sizes)])
    for layer, w in enumerate(matrices):
        for i, j in np.ndindex(*w.shape):
            graph.add_edge(first[layer + 1] + i, first[layer] + j, weight=abs(w[i, j]))
    expected = networkx.algebraic_connectivity(graph, method="lanczos", tol=1e-12)
    found = weft.optim.fiedler_value([weft.from_numpy(w) for w in matrices])
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_fiedler_gradient() -> None:
    """Against finite differences, and against sign(w) (q_i − q_j)² with the Fiedler vector q."""
    matrices = weights([3, 4, 2])
    parameters = [parameter(weft, w) for w in matrices]
    weft.optim.fiedler_penalty(parameters, 2.0).backward()

    def value() -> float:
        return weft.optim.fiedler_value([weft.from_numpy(w) for w in matrices]).item()

    laplacian = weft.optim.network_laplacian([weft.from_numpy(w) for w in matrices]).numpy()
    np.testing.assert_allclose(laplacian.sum(1), 0, atol=1e-12)
    q, first = scipy.linalg.eigh(laplacian)[1][:, 1], [0, 3, 7]
    for layer, (w, p) in enumerate(zip(matrices, parameters, strict=True)):
        for i, j in np.ndindex(*w.shape):
            kept = w[i, j]
            w[i, j] = kept + 1e-6
            high = value()
            w[i, j] = kept - 1e-6
            low = value()
            w[i, j] = kept
            assert p.grad[i, j].item() == pytest.approx((high - low) / 1e-6, abs=1e-6)
            exact = 2 * np.sign(kept) * (q[first[layer + 1] + i] - q[first[layer] + j]) ** 2
            assert p.grad[i, j].item() == pytest.approx(exact, abs=1e-9)


def test_fiedler_value_of_separate_parts_is_zero() -> None:
    block = np.kron(np.eye(2), np.ones((2, 2)))
    assert abs(weft.optim.fiedler_value([weft.from_numpy(block)]).item()) < 1e-12
    with pytest.raises(weft.errors.ShapeError, match="layers do not chain"):
        weft.optim.fiedler_value([weft.ones(2, 3), weft.ones(2, 3)])
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.Tanh(), weft.nn.Linear(4, 2))
    direct = weft.optim.fiedler_value([model[0].weight, model[2].weight])
    assert weft.optim.fiedler_penalty(model, 0.5).item() == pytest.approx(direct.item() / 2)
