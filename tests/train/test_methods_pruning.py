"""Pruning: masks equal PyTorch's, zeros stay zeros in compiled training, lottery tickets are rewound exactly."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.train import Trainer
from weft.train.methods import lottery, pruning

from .problems import digits, loader, mlp, supervised

torch_prune = pytest.importorskip("torch.nn.utils.prune")


def pair(shape: tuple[int, ...] = (7, 5)) -> tuple[nn.Module, object]:
    """A layer here and in PyTorch with the same random weight: Linear, or Conv2d for four dimensions."""
    import torch

    weight = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    kinds = (nn.Linear, torch.nn.Linear) if len(shape) == 2 else (nn.Conv2d, torch.nn.Conv2d)
    sizes = (shape[1], shape[0], *shape[2:3])
    ours, theirs = kinds[0](*sizes), kinds[1](*sizes)
    ours.weight.data = weft.tensor(weight)
    theirs.weight.data = torch.tensor(weight)
    return ours, theirs


def assert_masks_equal(ours: nn.Module, theirs: object) -> None:
    np.testing.assert_array_equal(pruning.masks(ours)["weight"].numpy(), theirs.weight_mask.numpy().astype(bool))
    np.testing.assert_array_equal(ours.weight.detach().numpy(), theirs.weight.detach().numpy())


@pytest.mark.parametrize("shape", [(7, 5), (6, 4, 3, 3), (1, 1)])
@pytest.mark.parametrize("amounts", [(0.3,), (0.5, 0.5, 0.5), (1,), (0.0,), (1.0,), (0,)])
def test_magnitude_masks_equal_torch(shape, amounts) -> None:
    ours, theirs = pair(shape)
    for amount in amounts:
        pruning.l1_unstructured(ours, "weight", amount)
        torch_prune.l1_unstructured(theirs, "weight", amount)
    assert_masks_equal(ours, theirs)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("n", [1, 2, float("inf")])
def test_structured_masks_equal_torch(n, dim) -> None:
    ours, theirs = pair((6, 4, 3, 3))
    for amount in (0.4, 1):
        pruning.ln_structured(ours, "weight", amount, n, dim)
        torch_prune.ln_structured(theirs, "weight", amount, n, dim)
    assert_masks_equal(ours, theirs)


def test_global_masks_equal_torch_in_three_rounds() -> None:
    (a, ta), (b, tb) = pair((7, 5)), pair((6, 4, 3, 3))
    for _ in range(3):
        pruning.global_unstructured([(a, "weight"), (b, "weight")], 0.37)
        torch_prune.global_unstructured([(ta, "weight"), (tb, "weight")], torch_prune.L1Unstructured, amount=0.37)
    assert_masks_equal(a, ta)
    assert_masks_equal(b, tb)


def test_random_pruning_takes_the_right_number() -> None:
    layer, _ = pair((10, 20))
    pruning.random_unstructured(layer, "weight", 0.25, weft.Generator().manual_seed(1))
    assert (layer.weight == 0).sum().item() == 50
    other, _ = pair((10, 20))
    pruning.random_structured(other, "weight", 0.3, 1, weft.Generator().manual_seed(1))
    gone = (other.weight == 0).all(0)
    assert gone.sum().item() == 6 and (other.weight != 0).sum().item() == 140
    again, _ = pair((10, 20))
    pruning.random_structured(again, "weight", 0.3, 1, weft.Generator().manual_seed(1))
    assert again.weight.equal(other.weight)


def test_custom_masks_remove_and_copies() -> None:
    layer, _ = pair()
    mask = weft.eye(7, 5)
    pruning.custom_from_mask(layer, "weight", mask)
    assert pruning.is_pruned(nn.Sequential(layer)) and not pruning.is_pruned(nn.Linear(2, 2))
    twin = copy.deepcopy(layer)
    weight = layer.weight.detach().clone()
    pruning.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.equal(weight) and not pruning.is_pruned(layer)
    assert set(layer.state_dict()) == {"weight", "bias"}
    assert pruning.masks(twin)["weight"].equal(mask.bool())


def test_pruned_means_zero_even_for_nan() -> None:
    layer = nn.Linear(2, 1)
    layer.weight.data = weft.tensor([[float("nan"), 1.0]])
    pruning.custom_from_mask(layer, "weight", weft.tensor([[0, 1]]))
    assert layer.weight.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (lambda m: pruning.l1_unstructured(m, "weight", 1.5), OptionError, "share in"),
        (lambda m: pruning.l1_unstructured(m, "weight", -1), OptionError, "0 to 35"),
        (lambda m: pruning.l1_unstructured(m, "weight", 36), OptionError, "0 to 35"),
        (lambda m: pruning.l1_unstructured(m, "weight", True), OptionError, "share in"),
        (lambda m: pruning.custom_from_mask(m, "weight", weft.ones(2)), ShapeError, "shape"),
        (lambda m: pruning.remove(m, "weight"), OptionError, "not pruned"),
        (lambda m: pruning.global_unstructured([], 0.5), OptionError, "at least one"),
        (lambda m: pruning.prunable(m, "weights"), OptionError, "'weight'"),
        (lambda m: pruning.IterativePruning(1.2, end=3), OptionError, "final 1.2"),
    ],
)
def test_errors_say_what_is_wrong(act, kind, words) -> None:
    with pytest.raises(kind, match=words):
        act(pair()[0])


def test_sparsity_is_counted_by_weight() -> None:
    model = mlp()
    pruning.l1_unstructured(model[0], "weight", 0.5)
    found = pruning.sparsity(model)
    assert found.rows == {"0.weight": (512, 1024), "3.weight": (0, 160)}
    assert found.share("0.weight") == 0.5 and found.total == 512 / 1184
    assert "43.24%" in str(found)
    assert pruning.sparsity(nn.ReLU()).total == 0.0


@pytest.mark.parametrize("make", [lambda p: weft.optim.SGD(p, 0.1, 0.9), lambda p: weft.optim.AdamW(p, 1e-2)])
@pytest.mark.parametrize("compiled", ["error", False])
def test_pruned_weights_stay_exactly_zero_in_training(compiled, make) -> None:
    weft.manual_seed(0)
    model = mlp()
    attention = nn.MultiheadAttention(8, 2)
    pruning.global_unstructured(pruning.prunable(model), 0.7)
    pruning.l1_unstructured(attention, "in_proj_weight", 0.5)
    dead = {name: ~mask.numpy() for name, mask in pruning.masks(model).items()}
    before = model[0].weight.detach().numpy().copy()
    Trainer(max_epochs=2, run_folder=False, progress=False, compile=compiled).fit(
        supervised(model, make), loader(*digits(128))
    )
    after = {"0.weight": model[0].weight.detach().numpy(), "3.weight": model[3].weight.detach().numpy()}
    for name, weight in after.items():
        assert (weight[dead[name]] == 0).all() and (weight[~dead[name]] != 0).all()
    assert (before[~dead["0.weight"]] != after["0.weight"][~dead["0.weight"]]).any()
    assert (attention.in_proj_weight == 0).sum().item() == 96


@pytest.mark.parametrize("layerwise", [False, True])
def test_iterative_pruning_follows_its_formula_in_compiled_steps(layerwise) -> None:
    weft.manual_seed(0)
    model = mlp()
    callback = pruning.IterativePruning(0.8, start=1, end=4, layerwise=layerwise)
    trainer = Trainer(max_epochs=6, run_folder=False, progress=False, compile="error", callbacks=callback)
    history = trainer.fit(supervised(model), loader(*digits(128)))
    expected = [0.0, 0.0, 0.8 * (1 - (2 / 3) ** 3), 0.8 * (1 - (1 / 3) ** 3), 0.8, 0.8]
    np.testing.assert_allclose([row["sparsity"] for row in history.rows], expected, atol=2e-3)
    assert trainer.loop.step.run.traces == 1  # the mask is read, not traced
    found = pruning.sparsity(model)
    assert abs(found.total - 0.8) < 2e-3
    assert (abs(found.share("3.weight") - 0.8) < 5e-3) == layerwise


def test_lottery_rewinds_to_the_first_weights() -> None:
    """Every ticket starts at mask · w₀; the last mask is that of magnitudes after training, pruned in rounds."""
    starts: list[dict[str, np.ndarray]] = []

    def make(seed: int):
        weft.manual_seed(seed)
        return supervised(mlp())

    def fit(task) -> float:
        starts.append({name: w.detach().numpy().copy() for name, w in effective(task).items()})
        Trainer(max_epochs=1, run_folder=False, progress=False).fit(task, loader(*digits(128)))
        return float((task(x).argmax(1) == y).double().mean())

    x, y = digits(300)
    study = lottery.lottery_ticket(make, fit, rounds=2, amount=0.5, seeds=(0,))
    assert [row.sparsity for row in study.rows] == [0.0, 0.5, 0.75]
    dense, first, second, control, last_control = starts
    for name in dense:
        for ticket in (first, second):
            alive = ticket[name] != 0
            np.testing.assert_array_equal(ticket[name][alive], dense[name][alive])
        for ticket, other in ((first, control), (second, last_control)):
            np.testing.assert_array_equal(ticket[name] != 0, other[name] != 0)
            assert (ticket[name] != other[name]).any()
        assert ((second[name] != 0) <= (first[name] != 0)).all()
    assert np.isnan(study.rows[0].control) and str(study).count("\n") == 3


def test_lottery_rewinds_to_early_weights() -> None:
    seen = []

    def make(seed: int):
        weft.manual_seed(seed)
        return supervised(mlp())

    def warm_up(task) -> None:
        with weft.no_grad():
            for p in task.parameters():
                p.fill_(0.5)

    def fit(task) -> float:
        seen.append(set(np.unique(effective(task)["model.0.weight"].detach().numpy())))
        return 0.0

    lottery.lottery_ticket(make, fit, rounds=1, amount=0.5, warm_up=warm_up, control=False)
    assert seen == [{0.5}, {0.0, 0.5}]


def effective(task) -> dict[str, weft.Tensor]:
    return {f"model.{n}.weight": task.model[n].weight for n in (0, 3)}


def test_lottery_draws_its_curves() -> None:
    pytest.importorskip("matplotlib")
    rows = [lottery.LotteryRow(0, 0.0, 0.9, float("nan")), lottery.LotteryRow(1, 0.5, 0.92, 0.85)]
    figure = lottery.Lottery(rows).figure()
    ticket, control, _ = figure.axes[0].lines
    assert list(ticket.get_xydata()[:, 0]) == [0.0, 50.0] and list(control.get_xydata()[:, 1]) == [0.85]
