"""Averages of weights, clipping of gradients and parameter vectors against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import weft

from .problems import parameter


def network(library: ModuleType) -> Any:
    rng = np.random.default_rng(3)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4), library.nn.Linear(4, 2)).double()
    values = {k: library.from_numpy(rng.standard_normal(tuple(v.shape))) for k, v in model.named_parameters()}
    model.load_state_dict(model.state_dict() | values)
    return model


def batches(library: ModuleType) -> list[Any]:
    return [library.from_numpy(np.random.default_rng(seed).standard_normal((6, 3))) for seed in range(4)]


AVERAGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "mean": lambda swa: {},
    "mean with buffers": lambda swa: dict(use_buffers=True),
    "swa function": lambda swa: dict(avg_fn=swa.get_swa_avg_fn()),
    "swa functions": lambda swa: dict(multi_avg_fn=swa.get_swa_multi_avg_fn()),
    "ema": lambda swa: dict(avg_fn=swa.get_ema_avg_fn(0.9)),
    "emas with buffers": lambda swa: dict(multi_avg_fn=swa.get_ema_multi_avg_fn(0.9), use_buffers=True),
    "own": lambda swa: dict(avg_fn=lambda average, current, n: (average + current) / 2),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averaged_model(name: str) -> None:
    states, outputs = [], []
    for library in (weft, torch):
        model = network(library)
        average = library.optim.swa_utils.AveragedModel(model, **AVERAGES[name](library.optim.swa_utils))
        optimizer = library.optim.SGD(model.parameters(), lr=0.1)
        for batch in batches(library) * 2:
            optimizer.zero_grad()
            (model(batch) ** 2).mean().backward()
            optimizer.step()
            average.update_parameters(model)
        library.optim.swa_utils.update_bn([(batch, 0) for batch in batches(library)], average)
        states.append({k: v.numpy() for k, v in average.state_dict().items()})
        outputs.append(average.eval()(batches(library)[0]).detach().numpy())
    assert list(states[0]) == list(states[1])
    for key, value in states[0].items():
        np.testing.assert_allclose(value, states[1][key], rtol=1e-6, atol=1e-9, err_msg=key)
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-6)


def test_update_bn_leaves_the_mode_and_the_momentum() -> None:
    model = network(weft).eval()
    weft.optim.swa_utils.update_bn(batches(weft), model)
    assert not model.training and model[1].momentum == 0.1
    data = model[0](weft.cat(batches(weft))).detach().numpy()
    np.testing.assert_allclose(model[1].running_mean.numpy(), data.mean(0), rtol=1e-9)


def test_averaging_errors() -> None:
    swa = weft.optim.swa_utils
    with pytest.raises(ValueError, match="Invalid decay value 2"):
        swa.get_ema_avg_fn(2)
    with pytest.raises(AssertionError, match="Only one of"):
        swa.AveragedModel(network(weft), avg_fn=swa.get_swa_avg_fn(), multi_avg_fn=swa.get_swa_multi_avg_fn())
    optimizer = weft.optim.SGD([parameter(weft, np.ones(1))])
    for options in (dict(anneal_strategy="x"), dict(anneal_epochs=-1), dict(swa_lr=[0.1, 0.2])):
        with pytest.raises(ValueError):
            swa.SWALR(optimizer, **({"swa_lr": 0.1} | options))


# ------------------------------------------------------------------------------------- gradients


def with_gradients(library: ModuleType, scale: float = 3.0) -> list[Any]:
    rng = np.random.default_rng(0)
    out = [parameter(library, rng.standard_normal(shape)) for shape in ((4, 3), (5,), (2,), ())]
    for p in (out[0], out[1], out[3]):
        p.grad = library.from_numpy(np.array(rng.standard_normal(tuple(p.shape)) * scale))
    return out


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 0.5, 3, 0.0, float("inf"), -float("inf")])
@pytest.mark.parametrize("max_norm", [0.7, 100.0])
def test_clip_grad_norm(norm_type: float, max_norm: float) -> None:
    ours, theirs = with_gradients(weft), with_gradients(torch)
    totals = [
        library.nn.utils.clip_grad_norm_(ps, max_norm, norm_type).item()
        for library, ps in ((weft, ours), (torch, theirs))
    ]
    assert totals[0] == pytest.approx(totals[1], rel=1e-12)
    for p, q in zip(ours, theirs, strict=True):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9)


def test_clip_grad_value_and_parts() -> None:
    ours, theirs = with_gradients(weft), with_gradients(torch)
    weft.nn.utils.clip_grad_value_(ours, 0.9)
    torch.nn.utils.clip_grad_value_(theirs, 0.9)
    assert np.array_equal(ours[0].grad.numpy(), theirs[0].grad.numpy())
    gradients = [p.grad for p in ours if p.grad is not None]
    total = weft.nn.utils.get_total_norm(gradients)
    assert total.item() == pytest.approx(np.sqrt(sum((g.numpy() ** 2).sum() for g in gradients)))
    weft.nn.utils.clip_grads_with_norm_(ours, total.item() / 2, total)
    assert weft.nn.utils.get_total_norm(gradients).item() == pytest.approx(total.item() / 2, rel=1e-5)
    single = weft.nn.utils.get_total_norm(weft.ones(4))
    assert single.item() == 2.0 and weft.nn.utils.get_total_norm([]).item() == 0.0
    mixed = weft.nn.utils.get_total_norm([weft.ones(2), weft.ones(3, dtype=weft.float64)])
    assert mixed.dtype is weft.float64 and mixed.item() == pytest.approx(5**0.5)


def test_clipping_says_when_the_norm_is_not_finite() -> None:
    ps = with_gradients(weft, np.inf)
    with pytest.raises(RuntimeError, match=r"total norm of order 2\.0 for gradients from `parameters` is non-finite"):
        weft.nn.utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    with pytest.warns(UserWarning, match="empty generator"):
        weft.nn.utils.clip_grad_norm_((p for p in []), 1.0)
    with pytest.warns(FutureWarning, match="deprecated"):
        weft.nn.utils.clip_grad_norm(with_gradients(weft), 1.0)


def test_parameters_as_a_vector() -> None:
    ours, theirs = with_gradients(weft), with_gradients(torch)
    vector = weft.nn.utils.parameters_to_vector(ours)
    assert np.array_equal(vector.detach().numpy(), torch.nn.utils.parameters_to_vector(theirs).detach().numpy())
    (vector**2).sum().backward()
    np.testing.assert_allclose(ours[2].grad.numpy(), 2 * ours[2].detach().numpy())
    new = np.arange(20.0)
    weft.nn.utils.vector_to_parameters(weft.from_numpy(new), ours)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(new), theirs)
    for p, q in zip(ours, theirs, strict=True):
        assert np.array_equal(p.detach().numpy(), q.detach().numpy()) and p.requires_grad
    with pytest.raises(TypeError, match=r"expected weft\.Tensor, but got: list"):
        weft.nn.utils.vector_to_parameters([1.0], ours)
    with pytest.raises(RuntimeError):
        weft.nn.utils.vector_to_parameters(weft.ones(3), ours)
