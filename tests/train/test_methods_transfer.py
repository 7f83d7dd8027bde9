"""Transfer learning, LoRA and adapters: what is frozen stays bit for bit, groups and merges are exact."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft import nn
from weft.errors import OptionError, ShapeError
from weft.train import Classification, Trainer
from weft.train.methods import adapters, lora, transfer

from .problems import assert_same, digits, loader, mlp, weights


def conv_net() -> nn.Sequential:
    """Rows of 64 numbers as images of 8×8, a block with normalisation, a 1×1 convolution, a linear head."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        nn.Conv2d(4, 6, 1),
        nn.Flatten(),
        nn.Linear(384, 10),
    )


class Attending(nn.Module):
    """8 tokens of 8 numbers, self-attention, the mean, a head."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        tokens = x.reshape(-1, 8, 8)  # (B, 64) → (B, 8, 8)
        return self.head(self.norm(tokens + self.attention(tokens, tokens, tokens)[0]).mean(1))


def train(model: nn.Module, epochs: int = 2, compiled: bool | str = "error", callbacks=(), **options) -> Trainer:
    trainer = Trainer(max_epochs=epochs, run_folder=False, progress=False, compile=compiled, callbacks=callbacks)
    trainer.fit(Classification(model, lr=1e-2, **options), loader(*digits(128)))
    return trainer


# ------------------------------------------------------------------------------------------- freezing


@pytest.mark.parametrize("compiled", ["error", False])
def test_frozen_parameters_are_bit_equal_after_training(compiled) -> None:
    weft.manual_seed(0)
    model = conv_net()
    names = transfer.freeze(model, ["1.*", "2.weight"])
    assert names == ["1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias", "2.weight"]
    before = weights(model)
    train(model, callbacks=transfer.KeepInEval("1"), compiled=compiled)
    after = weights(model)
    held = [name for name in before if name.startswith("1.") or name == "2.weight"]  # with running statistics
    assert_same({name: before[name] for name in held}, {name: after[name] for name in held})
    assert all((before[name] != after[name]).any() for name in ("2.bias", "4.weight", "4.bias"))


def test_statistics_of_frozen_layers_move_without_keep_in_eval() -> None:
    model = conv_net()
    transfer.freeze(model, "1.*")
    before = weights(model)
    train(model, 1)
    assert (before["1.1.running_mean"] != weights(model)["1.1.running_mean"]).any()


def test_unfreeze_and_counts() -> None:
    model = mlp()
    transfer.freeze(model)
    assert transfer.count_parameters(model) == (0, 64 * 16 + 16 + 160 + 10)
    assert transfer.unfreeze(model, "3.*") == ["3.weight", "3.bias"]
    assert transfer.count_parameters(model)[0] == 170


def test_replace_head() -> None:
    model = conv_net()
    new = transfer.replace_head(model, "4", 3)
    assert model[4] is new and tuple(new.weight.shape) == (3, 384)
    conv = transfer.replace_head(model, "1.0", 5)
    assert tuple(conv.weight.shape) == (5, 1, 3, 3) and conv.padding == (1, 1)
    own = nn.Identity()
    assert transfer.replace_head(model, "4", own) is own is model[4]
    with pytest.raises(OptionError, match="ReLU"):
        transfer.replace_head(model, "1.2", 3)


def test_layer_groups_fall_towards_the_input() -> None:
    model = conv_net()
    groups = transfer.layer_groups(model, lr=0.1, decay=0.5)
    assert [group["lr"] for group in groups] == [0.1, 0.05, 0.025]
    expected = [list(model[4].parameters()), list(model[2].parameters()), list(model[1].parameters())]
    assert [[id(p) for p in group["params"]] for group in groups] == [[id(p) for p in part] for part in expected]
    named = transfer.layer_groups(model, ["1.0.*", ["*.bias", "1.1.weight"], "*"], lr=1.0, decay=0.1)
    sizes = [sum(p.numel() for p in group["params"]) for group in named]
    assert sizes == [384 * 10 + 24, 4 + 4 + 6 + 10, 40]
    assert sum(sizes) == transfer.count_parameters(model)[1]


def test_layer_groups_step_in_proportion() -> None:
    """One step of plain gradient descent moves each group by its own rate times the gradient."""
    weft.manual_seed(0)
    model = mlp()
    twin = copy.deepcopy(model)
    x, y = digits(32)
    optimizer = weft.optim.SGD(transfer.layer_groups(model, lr=0.1, decay=0.25))
    for net in (model, twin):
        nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    for part, rate in ((0, 0.025), (3, 0.1)):
        expected = twin[part].weight.detach() - rate * twin[part].weight.grad
        np.testing.assert_allclose(model[part].weight.detach().numpy(), expected.numpy(), rtol=1e-6, atol=1e-8)


def test_gradual_unfreezing_trains_from_the_top() -> None:
    weft.manual_seed(0)
    model = conv_net()
    seen: list[dict[str, np.ndarray]] = []

    class Look(transfer.Callback):
        def on_train_epoch_end(self, trainer, task) -> None:
            seen.append(weights(model))

    before = weights(model)
    callbacks = [transfer.GradualUnfreezing(["1.*", "2.*", "4.*"]), Look()]
    options = {"optimizer": lambda _: weft.optim.AdamW(transfer.layer_groups(model, lr=1e-2))}
    trainer = train(model, 3, callbacks=callbacks, **options)
    states = [before, *seen]
    moved = [
        {n[0] for n in a if n.endswith("weight") and (a[n] != b[n]).any()} for a, b in zip(states, seen, strict=False)
    ]
    assert moved == [{"4"}, {"4", "2"}, {"4", "2", "1"}]
    assert trainer.loop.step.run.traces == 3


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda m: transfer.freeze(m, "5.*"), "no name matches '5"),
        (lambda m: transfer.layer_groups(m, ["0.*"], lr=1), "'3.weight'"),
        (lambda m: transfer.layer_groups(m, ["0.*", "0.*", "3.*"], lr=1), "no name matches"),
        (lambda m: transfer.GradualUnfreezing([]), "stages"),
        (
            lambda m: train(m, callbacks=transfer.GradualUnfreezing(["0.*", "3.*"]), optimizer=on_head(m)),
            "every parameter",
        ),
        (lambda m: lora.add_lora(m, "1"), "no Linear"),
        (lambda m: lora.add_lora(m, "0", rank=99), "rank ≤ 16"),
        (lambda m: lora.add_lora(m, "0", rank=0), "rank"),
        (lambda m: (lora.add_lora(m, "0"), lora.add_lora(m, "0")), "0.weight has a parametrisation"),
        (lambda m: adapters.add_adapters(m, "1"), "width of '1'"),
        (lambda m: (adapters.add_adapters(m, "0"), adapters.add_adapters(m, "0")), "already"),
        (lambda m: (lora.add_lora(m, "0"), lora.load_lora_state_dict(m, {})), "missing"),
    ],
)
def test_errors_say_what_is_wrong(act, words) -> None:
    with pytest.raises(OptionError, match=words):
        act(mlp())


def on_head(model: nn.Module):
    return lambda _: weft.optim.SGD(model[3].parameters(), lr=0.1)


# ------------------------------------------------------------------------------------------- LoRA

MODELS = {
    "linear": (mlp, ["0.weight", "3.weight"]),
    "convolutions": (conv_net, ["1.0.weight", "2.weight", "4.weight"]),
    "attention": (Attending, ["attention.out_proj.weight", "attention.in_proj_weight", "head.weight"]),
    "attention of three": (
        lambda: Separate(),
        [*(f"attention.{part}" for part in ("out_proj.weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"))],
    ),
}


class Separate(nn.Module):
    """Attention whose keys and values have another size than its queries."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, kdim=16, vdim=16)

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        queries, keys = x.reshape(-1, 8, 8), x.reshape(-1, 4, 16)
        return self.attention(queries, keys, keys)[0].flatten(1)[:, :10]  # (B, 8, 8) → (B, 64) → (B, 10)


def small(name: str) -> tuple[nn.Module, list[str]]:
    weft.manual_seed(4)
    make, names = MODELS[name]
    return make(), names


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("compiled", ["error", False])
def test_lora_starts_at_zero_trains_alone_and_merges(name, compiled) -> None:
    model, names = small(name)
    x, _ = digits(16)
    model.eval()
    plain = model(x)
    assert lora.add_lora(model, rank=1 if "conv" in name else 2, alpha=4) == names
    assert model(x).equal(plain)  # B = 0
    before = weights(model)
    train(model, compiled=compiled)
    moved = {key for key, value in weights(model).items() if (value != before[key]).any()}
    assert moved and all(key.endswith((".A", ".B", "running_mean", "running_var", "tracked")) for key in moved)
    model.eval()
    tuned = model(x)
    assert (tuned - plain).abs().max().item() > 1e-2
    lora.merge_lora(model)
    lora.merge_lora(model)  # a second time changes nothing
    np.testing.assert_allclose(model(x).detach().numpy(), tuned.detach().numpy(), rtol=1e-6, atol=2e-6)
    lora.unmerge_lora(model)
    np.testing.assert_allclose(model(x).detach().numpy(), tuned.detach().numpy(), rtol=1e-6, atol=2e-6)
    lora.remove_lora(model)
    np.testing.assert_allclose(model(x).detach().numpy(), tuned.detach().numpy(), rtol=1e-6, atol=2e-6)
    assert not [key for key in model.state_dict() if "parametrizations" in key]


def test_lora_is_its_formula() -> None:
    weft.manual_seed(0)
    model = nn.Linear(6, 5, dtype=weft.float64)
    lora.add_lora(model, "", rank=2, alpha=6)
    change = model.parametrizations.weight[0]
    change.B.data = weft.randn(5, 2, dtype=weft.float64)
    x = np.random.default_rng(0).normal(size=(3, 6))
    w, a, b = (t.detach().numpy() for t in (model.parametrizations.weight.original, change.A, change.B))
    expected = x @ w.T + 3 * (x @ a.T) @ b.T + model.bias.detach().numpy()
    np.testing.assert_allclose(model(weft.tensor(x)).detach().numpy(), expected, rtol=1e-12)


def test_lora_of_joint_projections_has_a_pair_for_each() -> None:
    """The change of in_proj_weight is block by block B_q A_q, B_k A_k, B_v A_v, each of its own rank."""
    model, _ = small("attention")
    lora.add_lora(model, "attention", rank=1)
    change = model.attention.parametrizations.in_proj_weight[0]
    change.B.data = weft.randn(24, 1)
    a, b = change.A.detach().numpy(), change.B.detach().numpy()
    expected = np.concatenate([np.outer(b[8 * k : 8 * k + 8], a[k]) for k in range(3)])
    np.testing.assert_allclose(change.change().detach().numpy(), expected, rtol=1e-6)


def test_lora_compiled_training_equals_eager() -> None:
    found = []
    for compiled in ("error", False):
        model, _ = small("attention")
        lora.add_lora(model, "attention*", rank=2, train_also="head.*")
        train(model, compiled=compiled)
        found.append(lora.lora_state_dict(model, also="head.*"))
    for key, value in found[0].items():
        np.testing.assert_allclose(value.numpy(), found[1][key].numpy(), rtol=1e-3, atol=1e-5)


def test_lora_state_dict_holds_only_what_was_learned(tmp_path) -> None:
    model, _ = small("linear")
    lora.add_lora(model, "0", rank=3, train_also="3.*")
    train(model)
    state = lora.lora_state_dict(model, also="3.*")
    shapes = {"0.weight.lora_A": (3, 64), "0.weight.lora_B": (16, 3), "3.weight": (10, 16), "3.bias": (10,)}
    assert {name: tuple(value.shape) for name, value in state.items()} == shapes
    assert set(lora.lora_state_dict(model)) == {"0.weight.lora_A", "0.weight.lora_B"}
    weft.save(state, tmp_path / "change.weft")
    other, _ = small("linear")
    lora.add_lora(other, "0", rank=3, train_also="3.*")
    lora.load_lora_state_dict(other, weft.load(tmp_path / "change.weft"))
    x, _ = digits(8)
    assert other(x).equal(model(x))
    wrong, _ = small("linear")
    lora.add_lora(wrong, "0", rank=2)
    with pytest.raises(ShapeError, match="lora_A"):
        lora.load_lora_state_dict(wrong, state)


def test_lora_without_merge_gives_the_first_weights_back() -> None:
    model, _ = small("linear")
    before = weights(model)
    lora.add_lora(model)
    train(model)
    lora.remove_lora(model, merge=False)
    assert_same(before, weights(model))


def test_a_compiled_model_sees_a_merge() -> None:
    """The factor of B A is a tensor, read at every call: nothing is counted twice after a merge."""
    model, _ = small("linear")
    lora.add_lora(model)
    train(model)
    x, _ = digits(8)
    run = weft.compile(lambda x: model(x))
    before = run(x)
    lora.merge_lora(model)
    np.testing.assert_allclose(run(x).detach().numpy(), before.detach().numpy(), rtol=1e-6, atol=2e-6)


# ------------------------------------------------------------------------------------------- adapters


@pytest.mark.parametrize(("name", "where"), [("linear", "0"), ("attention", "attention"), ("attention", "norm")])
def test_adapters_start_as_the_identity_and_train_alone(name, where) -> None:
    model, _ = small(name)
    x, _ = digits(16)
    plain = model(x)
    assert adapters.add_adapters(model, where, bottleneck=3, train_also="head.*" if name == "attention" else ()) == [
        f"{where}.adapter"
    ]
    assert model(x).equal(plain)
    before = weights(model)
    train(model)
    moved = {key for key, value in weights(model).items() if (value != before[key]).any()}
    assert {key for key in moved if ".adapter." in key} and all(".adapter." in k or k.startswith("head") for k in moved)
    assert copy.deepcopy(model)(x).equal(model(x)) and not model(x).equal(plain)


def test_adapter_is_its_formula() -> None:
    import torch

    weft.manual_seed(0)
    adapter = adapters.Adapter(6, 2)
    adapter.up.weight.data, adapter.up.bias.data = weft.randn(6, 2), weft.randn(6)
    x = weft.randn(4, 6)
    down, up = (
        (torch.tensor(m.weight.detach().numpy()), torch.tensor(m.bias.detach().numpy()))
        for m in (adapter.down, adapter.up)
    )
    given = torch.tensor(x.numpy())
    inner = torch.nn.functional.gelu(torch.nn.functional.linear(given, *down))
    expected = given + torch.nn.functional.linear(inner, *up)
    np.testing.assert_allclose(adapter(x).detach().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert sum(p.numel() for p in adapter.parameters()) == 2 * 6 * 2 + 6 + 2
