"""Training through the trainer is training by hand: the same weights as PyTorch's loop, step for step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft import nn
from weft.data import DataLoader, TensorDataset
from weft.errors import OptionError
from weft.train import Classification, Regression, Supervised, Task, Trainer

from .problems import digits, loader, mlp, supervised, torch_mlp


def trainer(**options: object) -> Trainer:
    return Trainer(**{"max_epochs": 1, "run_folder": False, "progress": False} | options)


def by_hand(net, make, batches, *, clip=None, accumulate=1, schedule=None, every="epoch", epochs=1):
    """A plain PyTorch loop over the same batches."""
    optimizer = make(net.parameters())
    scheduler = schedule(optimizer) if schedule else None
    for _ in range(epochs):
        for number, (x, y) in enumerate(batches):
            loss = torch.nn.functional.cross_entropy(net(torch.tensor(x.numpy())), torch.tensor(y.numpy()))
            (loss / accumulate).backward()
            if (number + 1) % accumulate == 0 or number + 1 == len(batches):
                if clip:
                    torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
                optimizer.step()
                optimizer.zero_grad()
                if scheduler and every == "step":
                    scheduler.step()
        if scheduler and every == "epoch":
            scheduler.step()
    return {name: x.detach().numpy() for name, x in net.state_dict().items()}


CASES = {
    "sgd": ("SGD", {"lr": 0.3}, {}, None),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-3}, {}, None),
    "adam": ("Adam", {"lr": 1e-2}, {}, None),
    "clip": ("SGD", {"lr": 0.3}, {"gradient_clip_val": 0.05}, None),
    "accumulate": ("Adam", {"lr": 1e-2}, {"accumulate_grad_batches": 3}, None),
    "accumulate_clip": ("SGD", {"lr": 0.3}, {"accumulate_grad_batches": 4, "gradient_clip_val": 0.1}, None),
    "schedule_epoch": ("SGD", {"lr": 0.3}, {}, ("StepLR", {"step_size": 1, "gamma": 0.5}, "epoch")),
    "schedule_step": ("SGD", {"lr": 0.3}, {}, ("ExponentialLR", {"gamma": 0.9}, "step")),
    "everything": (
        "AdamW",
        {"lr": 1e-2},
        {"accumulate_grad_batches": 2, "gradient_clip_val": 0.1},
        ("CosineAnnealingLR", {"T_max": 12}, "step"),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("compiled", [False, "error"], ids=["eager", "compiled"])
def test_same_as_a_loop_in_pytorch(case: str, compiled: bool | str) -> None:
    name, options, settings, schedule = CASES[case]
    x, y = digits(205)  # six full batches and one of 13
    weft.manual_seed(1)
    model = mlp()
    net = torch_mlp(model)
    scheduler = None
    if schedule:
        kind, arguments, every = schedule
        scheduler = lambda o: {"scheduler": getattr(weft.optim.lr_scheduler, kind)(o, **arguments), "interval": every}
    task = supervised(model, lambda p: getattr(weft.optim, name)(p, **options), scheduler=scheduler)
    fitted = trainer(max_epochs=2, compile=compiled, **settings)
    fitted.fit(task, loader(x, y))
    expected = by_hand(
        net,
        lambda p: getattr(torch.optim, name)(p, **options),
        list(loader(x, y)),
        clip=settings.get("gradient_clip_val"),
        accumulate=settings.get("accumulate_grad_batches", 1),
        schedule=(lambda o: getattr(torch.optim.lr_scheduler, schedule[0])(o, **schedule[1])) if schedule else None,
        every=schedule[2] if schedule else "epoch",
        epochs=2,
    )
    for key, value in expected.items():
        np.testing.assert_allclose(model.state_dict()[key].numpy(), value, rtol=1e-5, atol=1e-5)
    assert (fitted.loop.step.run.compiled is not None) is bool(compiled)


def test_value_clipping_bounds_every_element() -> None:
    x, y = digits(64)
    weft.manual_seed(1)
    model = mlp()
    before = [p.detach().clone() for p in model.parameters()]
    trainer(gradient_clip_val=1e-3, gradient_clip_algorithm="value").fit(supervised(model), loader(x, y, 64))
    moved = max(float((p - q).abs().max()) for p, q in zip(model.parameters(), before, strict=True))
    assert moved == pytest.approx(0.1 * 1e-3, rel=1e-4)


def test_figures_are_those_of_the_whole_set() -> None:
    """Means over batches of unequal sizes are the means over all samples."""
    x, y = digits(300)
    weft.manual_seed(0)
    task = Classification(mlp(), lr=1e-2)
    done = trainer(max_epochs=1)
    done.fit(task, loader(x, y), loader(x, y, 128))
    with weft.no_grad():
        scores = task(x)
        loss = nn.functional.cross_entropy(scores, y).item()
        accuracy = (scores.argmax(1) == y).double().mean().item()
    assert done.callback_metrics["val_loss"] == pytest.approx(loss, rel=1e-5)
    assert done.callback_metrics["val_accuracy"] == pytest.approx(accuracy, rel=1e-12)
    assert done.validate(task, loader(x, y, 7)) == pytest.approx({"val_loss": loss, "val_accuracy": accuracy}, rel=1e-5)
    assert done.test(task, loader(x, y, 300)) == pytest.approx({"test_loss": loss, "test_accuracy": accuracy}, rel=1e-5)


def test_predictions_are_joined() -> None:
    x, y = digits(100)
    task = Classification(mlp())
    out = trainer().predict(task, loader(x, y, 32))
    with weft.no_grad():
        np.testing.assert_allclose(out.numpy(), task(x).softmax(1).numpy(), rtol=1e-5, atol=1e-6)


def test_digits_in_five_lines() -> None:
    x, y = digits()
    weft.manual_seed(0)
    train, val = loader(x[:1500], y[:1500], shuffle=True), loader(x[1500:], y[1500:], 300)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    history = trainer(max_epochs=12).fit(Classification(model, lr=3e-3), train, val)
    assert history["val_accuracy"][-1] > 0.95
    assert len(history) == 12
    assert history.best("val_loss")["val_loss"] == min(history["val_loss"])


def test_regression_finds_the_least_squares_line() -> None:
    """Full-batch gradient descent on a line converges to the closed form."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.3 + 0.1 * rng.normal(size=64)
    exact = np.linalg.lstsq(np.c_[x, np.ones(64)], y, rcond=None)[0]
    model = nn.Linear(3, 1)
    data = loader(weft.tensor(x).float(), weft.tensor(y[:, None]).float(), 64)
    task = Regression(model, optimizer=lambda p: weft.optim.SGD(p, lr=0.3))
    history = trainer(max_epochs=200, log_every_n_steps=1000).fit(task, data)
    np.testing.assert_allclose(model.weight.detach().numpy()[0], exact[:3], atol=1e-4)
    np.testing.assert_allclose(model.bias.item(), exact[3], atol=1e-4)
    assert set(history[-1]) >= {"train_loss", "train_mae"}


def test_a_metric_object_is_exact_over_the_epoch() -> None:
    from sklearn.metrics import f1_score

    from weft.metrics import F1

    x, y = digits(300)
    task = supervised(mlp(), metrics={"f1": F1(num_classes=10, average="macro")})
    done = trainer(compile="error")
    done.fit(task, loader(x, y), loader(x, y, 70))
    with weft.no_grad():
        predicted = task(x).argmax(1).numpy()
    assert done.callback_metrics["val_f1"] == pytest.approx(f1_score(y.numpy(), predicted, average="macro"), rel=1e-6)
    assert 0 < done.history["train_f1"][0] < 1


@pytest.mark.parametrize("every", [3, 0.5])
def test_validation_within_the_epoch(every: float) -> None:
    x, y = digits(192)
    history = trainer(val_check_interval=every).fit(supervised(mlp()), loader(x, y), loader(x, y, 192))
    assert [row["step"] for row in history if "val_loss" in row][:2] == [3, 6]


def test_limits() -> None:
    x, y = digits(200)
    make = lambda **options: trainer(max_epochs=None, **options)
    steps = make(max_steps=10)
    assert steps.fit(supervised(mlp()), loader(x, y)).stopped_by == "max_steps=10"
    assert steps.global_step == 10
    exact = make(max_steps=14)  # two whole epochs
    exact.fit(supervised(mlp()), loader(x, y))
    assert (exact.current_epoch, exact.loop.position.batch, len(exact.history)) == (2, 0, 2)
    assert trainer(max_epochs=0).fit(supervised(mlp()), loader(x, y)).rows == []
    timed = make(max_time="00:00:01")
    timed.fit(supervised(mlp()), loader(x, y))
    assert 1.0 <= timed.history.seconds < 5.0
    short = trainer(limit_train_batches=2, limit_val_batches=1)
    short.fit(supervised(mlp()), loader(x, y), loader(x, y))
    assert short.global_step == 2


def test_a_stream_without_length_trains() -> None:
    x, y = digits(100)

    class Stream:
        def __iter__(self):
            for i in range(0, 100, 30):
                yield x[i : i + 30], y[i : i + 30]

    done = trainer(accumulate_grad_batches=3)
    done.fit(supervised(mlp()), Stream())
    assert done.global_step == 2  # three batches, then the one that is left


def test_a_plain_list_of_batches_trains() -> None:
    x, y = digits(64)
    done = trainer(max_epochs=3)
    done.fit(supervised(mlp()), [(x[:32], y[:32]), (x[32:], y[32:])])
    assert done.global_step == 6


def test_lbfgs_takes_its_closure_and_says_that_it_runs_eagerly() -> None:
    x, y = digits(64)
    weft.manual_seed(0)
    task = supervised(mlp(), lambda p: weft.optim.LBFGS(p, lr=0.5, max_iter=10))
    with pytest.warns(UserWarning, match="runs eagerly"):
        history = trainer(max_epochs=4).fit(task, loader(x, y, 64))
    assert history["train_loss"][-1] < 0.5 * history["train_loss"][0]


def test_reduce_on_plateau_reads_its_figure() -> None:
    x, y = digits(64)
    schedule = lambda o: weft.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0, threshold=10.0)
    task = supervised(mlp(), scheduler=schedule)
    done = trainer(max_epochs=4)
    done.fit(task, loader(x, y), loader(x, y))
    assert done.optimizers[0].param_groups[0]["lr"] < 0.1


class Odd(Task):
    def __init__(self, result) -> None:
        super().__init__()
        self.layer, self.result = nn.Linear(64, 10), result

    def training_step(self, batch):
        return self.result(self.layer(batch[0]))

    def configure_optimizers(self):
        return weft.optim.SGD(self.parameters(), lr=0.1)


def test_a_dict_with_the_loss_and_a_batch_left_out() -> None:
    x, y = digits(64)
    history = trainer().fit(Odd(lambda out: {"loss": out.square().mean()}), loader(x, y))
    assert history["train_loss"][0] > 0
    assert trainer().fit(Odd(lambda out: None), loader(x, y)).rows[0]["step"] == 2


WRONG = {
    "not_a_task": (lambda data: trainer().fit(mlp(), data), "Classification"),
    "vector_loss": (lambda data: trainer().fit(Odd(lambda out: out.square().mean(1)), data), "scalar loss"),
    "dict_without_loss": (lambda data: trainer().fit(Odd(lambda out: {"l": out.sum()}), data), "'loss'"),
    "empty_loader": (lambda data: trainer().fit(supervised(mlp()), []), "no batch"),
    "interval": (lambda data: trainer(val_check_interval=1.5), "val_check_interval"),
    "accumulate": (lambda data: trainer(accumulate_grad_batches=0), "accumulate_grad_batches"),
    "clip": (lambda data: trainer(gradient_clip_algorithm="cut"), "gradient_clip_algorithm"),
    "compile": (lambda data: trainer(compile="perhaps").fit(supervised(mlp()), data), "compile must be"),
    "callback": (lambda data: trainer(callbacks=["stop"]), "Callback"),
    "time": (lambda data: trainer(max_time="soon"), "HH:MM:SS"),
    "resume": (lambda data: trainer().fit(supervised(mlp()), data, resume=True), "run_folder"),
    "no_test_step": (lambda data: trainer().test(Odd(lambda out: out.sum()), data), "test_step"),
    "batch_form": (lambda data: trainer().fit(supervised(mlp()), [weft.zeros(2, 64)]), "(x, y)"),
    "classes": (lambda data: trainer().fit(Classification(mlp(), num_classes=3), data), "num_classes is 3"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str) -> None:
    act, words = WRONG[case]
    x, y = digits(64)
    with pytest.raises(OptionError, match="(?i)" + words.replace("(", r"\(").replace(")", r"\)")):
        act(loader(x, y))


def test_an_error_in_the_step_is_the_users_own() -> None:
    class Wrong(Odd):
        def training_step(self, batch):
            raise RuntimeError("my own mistake")

    x, y = digits(64)
    with pytest.raises(RuntimeError, match="my own mistake"):
        trainer().fit(Wrong(None), loader(x, y))


def test_two_optimisers_may_be_given_as_a_pair() -> None:
    from weft.train.running.configure import read_optimizers

    p = [weft.nn.Parameter(weft.zeros(1)) for _ in range(2)]
    a, b = (weft.optim.SGD([q], lr=0.1) for q in p)
    schedule = weft.optim.lr_scheduler.StepLR(a, 1)
    assert read_optimizers((a, b)) == ([a, b], [])
    for given in (([a], [schedule]), (a, schedule), {"optimizer": a, "lr_scheduler": {"scheduler": schedule}}):
        optimizers, schedules = read_optimizers(given)
        assert optimizers == [a] and schedules[0].scheduler is schedule
    with pytest.raises(OptionError, match="configure_optimizers"):
        read_optimizers(None)


def test_dataset_of_one_sample() -> None:
    data = DataLoader(TensorDataset(weft.zeros(1, 64), weft.zeros(1).long()), batch_size=8)
    assert trainer().fit(supervised(mlp()), data)["train_loss"][0] == pytest.approx(np.log(10), rel=0.3)
    assert isinstance(Supervised(mlp(), nn.functional.cross_entropy).configure_optimizers(), weft.optim.Adam)
