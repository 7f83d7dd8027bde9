"""Mixed precision: rounded as PyTorch's autocast rounds, scaled as its GradScaler scales."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.errors import OptionError
from weft.train import GradScaler, Trainer
from weft.train.precision import MixedPrecision

from .problems import assert_same, digits, loader, mlp, supervised, torch_mlp, weights
from .test_resume import BreakOff, run


def conv_pair() -> tuple[nn.Module, torch.nn.Module]:
    weft.manual_seed(0)
    parts = lambda lib: (lib.Conv2d(1, 4, 3), lib.ReLU(), lib.Flatten(), lib.Linear(144, 10))
    model = nn.Sequential(*parts(nn))
    net = torch.nn.Sequential(*parts(torch.nn))
    net.load_state_dict({name: torch.tensor(x.numpy()) for name, x in model.state_dict().items()})
    return model, net


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_rounds_as_autocast_does(kind: str, compiled: bool) -> None:
    """Outputs and gradients within a few roundings of PyTorch's, and far from those of float32."""
    x, y = digits(32)
    if kind == "linear":
        weft.manual_seed(0)
        model = mlp()
        net = torch_mlp(model)
    else:
        model, net = conv_pair()
        x = x.reshape(-1, 1, 8, 8)  # (32, 64) → (32, 1, 8, 8)
    precision = MixedPrecision(weft.bfloat16)

    def forward_backward(x, y):
        with precision.casting(model):
            out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        return out.detach(), loss.detach()

    out, _ = (weft.compile(forward_backward) if compiled else forward_backward)(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        expected = net(torch.tensor(x.numpy()))
    torch.nn.functional.cross_entropy(expected.float(), torch.tensor(y.numpy())).backward()
    expected = expected.detach().float().numpy()
    assert np.abs(out.numpy() - expected).max() <= 2**-8 * np.abs(expected).max()
    assert (out.numpy() == expected).mean() > 0.9  # the same numbers but where sums are ordered otherwise
    for p, q in zip(model.parameters(), net.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=0, atol=2e-2 * q.grad.abs().max().item())
    assert "forward" not in vars(model[0])
    assert all(p.dtype is weft.float32 for p in model.parameters())


def test_outputs_are_bfloat16_numbers() -> None:
    weft.manual_seed(0)
    model, x = mlp(), digits(8)[0]
    with MixedPrecision(weft.bfloat16).casting(model):
        out = model(x)
    assert (out.to(weft.bfloat16).float() == out).all()
    assert not (model(x).to(weft.bfloat16).float() == model(x)).all()


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_trains(precision: str) -> None:
    x, y = digits(1000)
    weft.manual_seed(0)
    model = mlp(hidden=64)
    trainer = Trainer(max_epochs=6, precision=precision, run_folder=False, progress=False, compile="error")
    history = trainer.fit(supervised(model, lambda p: weft.optim.Adam(p, lr=1e-2)), loader(x, y, shuffle=True))
    assert history["train_loss"][-1] < 0.2
    assert all(p.dtype is weft.float32 for p in model.parameters())


def test_float16_steps_are_left_out_until_the_scale_fits() -> None:
    """With a scale far too large the first gradients overflow: the weights stay, the scale halves."""
    x, y = digits(64)
    trainer = Trainer(max_epochs=1, precision="16-mixed", run_folder=False, progress=False)
    trainer.precision_plugin.scaler = GradScaler(init_scale=2.0**40)
    model = mlp()
    before = weights(model)
    trainer.fit(supervised(model), loader(x, y))
    assert_same(before, weights(model))
    assert trainer.precision_plugin.scaler.get_scale() == 2.0**38


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_resumes(tmp_path, precision: str) -> None:
    whole, _ = run(tmp_path / "whole", precision=precision, compiled=True)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "broken", BreakOff(8), precision=precision, compiled=True)
    resumed, _ = run(tmp_path / "broken", precision=precision, resume=True, compiled=True)
    assert_same(weights(whole), weights(resumed))


def test_unknown_precision() -> None:
    with pytest.raises(OptionError, match="bf16-mixed"):
        Trainer(precision="8")


# ------------------------------------------------------------------------------------------- GradScaler


def pair(value: float = 1.0):
    ours, theirs = nn.Parameter(weft.tensor([value])), torch.nn.Parameter(torch.tensor([value]))
    return (ours, weft.optim.SGD([ours], lr=0.1)), (theirs, torch.optim.SGD([theirs], lr=0.1))


def test_scaler_follows_pytorch() -> None:
    """Gradients finite, infinite and NaN in turn: the same weights, scales and states after every update."""
    (p, mine), (q, theirs) = pair()
    options = {"init_scale": 8.0, "growth_interval": 2}
    a, b = GradScaler(**options), torch.amp.GradScaler("cpu", **options)
    for factor in (1.0, 2.0, float("inf"), 0.5, float("nan"), 1.0, 1.0, 1.0, 1.0):
        for scaler, parameter, optimizer in ((a, p, mine), (b, q, theirs)):
            optimizer.zero_grad()
            scaler.scale((parameter * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert p.item() == q.item()
        assert a.state_dict() == b.state_dict()
    again = GradScaler()
    again.load_state_dict(a.state_dict())
    assert again.state_dict() == a.state_dict()


def test_scaler_unscales_for_clipping() -> None:
    (p, mine), (q, theirs) = pair()
    for scaler, parameter, optimizer, clip in (
        (GradScaler(), p, mine, nn.utils.clip_grad_norm_),
        (torch.amp.GradScaler("cpu"), q, theirs, torch.nn.utils.clip_grad_norm_),
    ):
        scaler.scale((parameter * 7).sum()).backward()
        scaler.unscale_(optimizer)
        clip([parameter], 0.5)
        scaler.step(optimizer)
        scaler.update()
    assert p.item() == pytest.approx(q.item(), rel=1e-7)


MISUSE = {
    "unscale_twice": (lambda s, o: (s.unscale_(o), s.unscale_(o)), RuntimeError, "already been called"),
    "step_twice": (lambda s, o: (s.step(o), s.step(o)), RuntimeError, "already been called"),
    "unscale_after_step": (lambda s, o: (s.step(o), s.unscale_(o)), RuntimeError, "after step"),
    "update_first": (lambda s, o: s.update(), AssertionError, "No inf checks"),
    "closure": (lambda s, o: s.step(o, closure=lambda: None), RuntimeError, "Closure"),
    "empty_state": (lambda s, o: s.load_state_dict({}), RuntimeError, "disabled"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_scaler_refuses_as_pytorch(case: str) -> None:
    act, error, words = MISUSE[case]
    for make, (p, o) in zip((GradScaler, lambda: torch.amp.GradScaler("cpu")), pair(), strict=True):
        scaler = make()
        scaler.scale((p * 2).sum()).backward()
        with pytest.raises(error, match=words):
            act(scaler, o)


def test_disabled_scaler_does_nothing() -> None:
    (p, mine), _ = pair()
    scaler = GradScaler(enabled=False)
    loss = (p * 2).sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    loss.backward()
    scaler.step(mine)
    scaler.update()
    assert p.item() == pytest.approx(0.8)
