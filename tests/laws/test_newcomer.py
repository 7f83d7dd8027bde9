"""What a PyTorch user types first: small functions of the library, whose results are the same under both."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import torch

import weft

torch.set_num_threads(1)


def fixed(lib, *shape):
    """The same numbers under both libraries."""
    return lib.tensor(np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32))


def plain(value):
    """A result as text (the package's name aside), numbers and arrays, so that two libraries can be compared."""
    if hasattr(value, "detach"):
        return str(value.dtype).partition(".")[2], value.detach().numpy()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value if isinstance(value, (int, float, bool)) else str(value).replace("weft", "torch")


def assert_same(ours, theirs):
    if isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        assert_same(list(ours.values()), list(theirs.values()))
    elif isinstance(theirs, (float, np.ndarray)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    else:
        assert ours == theirs


def filled(lib, module):
    """The module with fixed parameters."""
    with lib.no_grad():
        for p in module.parameters():
            p.copy_(fixed(lib, *p.shape) * 0.3)
    return module


# --------------------------------------------------------------------------------- small things in a notebook


def choosing_a_device(lib):
    device = lib.device("cuda" if lib.cuda.is_available() else "mps" if lib.backends.mps.is_available() else "cpu")
    lib.cuda.manual_seed_all(0)
    lib.cuda.empty_cache()
    with lib.device("cpu"):
        x = lib.ones(2).to(device)
    return str(device), x, lib.cuda.device_count(), lib.cuda.memory_allocated(), str(lib.get_default_device())


def making_runs_reproducible(lib):
    lib.use_deterministic_algorithms(True)
    enabled = lib.are_deterministic_algorithms_enabled()
    lib.use_deterministic_algorithms(False)
    before = (lib.backends.cudnn.deterministic, lib.backends.cudnn.benchmark)
    lib.backends.cudnn.deterministic, lib.backends.cudnn.benchmark = True, False
    lib.backends.cudnn.deterministic, lib.backends.cudnn.benchmark = before
    lib.manual_seed(3)
    first = lib.rand(4)
    lib.manual_seed(3)
    return enabled, bool((first == lib.rand(4)).all())


def old_constructors(lib):
    x = lib.FloatTensor([1, 2])
    names = "Float Double Half BFloat16 Byte Char Short Int Long Bool".split()
    kinds = [getattr(lib, f"{name}Tensor")([1, 0]) for name in names]
    asked = [isinstance(x, lib.FloatTensor), isinstance(x, lib.LongTensor), isinstance(3, lib.LongTensor)]
    casts = x.type(lib.LongTensor), x.type("torch.DoubleTensor"), x.to(int), x.to(float)
    return [*(k.float() for k in kinds), *(str(k.dtype) for k in kinds)], asked, casts, lib.LongTensor(2, 3).shape


def variables(lib):
    x = lib.autograd.Variable(lib.ones(2), requires_grad=True)
    (x * 3).sum().backward()
    return x.grad


def builtins_of_python(lib):
    x = lib.tensor([3, -1, 2])
    a, *rest = x
    numbers = [max(x), min(x), sum(x), abs(x), abs(x.float()), abs(lib.tensor([3 + 4j]))]
    ranges = list(range(lib.tensor(2))), [10, 20, 30][lib.tensor(1)], len(x), 2 in x, 7 in x
    return numbers, ranges, a, rest, sorted(x.tolist()), list(zip(x, x, strict=True)), x[lib.newaxis].shape


def text(lib):
    x = lib.tensor(2.5)
    return f"{x:.3f} {x} {x:>8}", "%.2f" % x, f"{lib.ones(2)}", str(type(x)), str(type(x.shape)), x.type()  # noqa: UP031


def named_results(lib):
    x = lib.tensor([[3.0, 1.0], [0.0, 2.0]])
    found = x.max(1), x.sort(), x.topk(1), x.median(0), lib.aminmax(x), x.cummax(0), lib.linalg.svd(lib.eye(2))
    return [repr(f) for f in found], repr(lib.linalg.eigh(lib.eye(2))), found[0].values, found[0][1]


def adding_arrays(lib):
    x = y = lib.ones(3)
    x += np.arange(3.0)
    z = lib.ones(2, 3) @ np.ones((3, 2))
    return x, y, z, lib.ones(3) * np.float64(2), lib.ones(3) + np.ones(3), np.arange(3)[lib.tensor([0, 2])]


def layouts(lib):
    x = lib.ones(2, 2)
    return x.layout == lib.strided, x.to_sparse().layout == lib.sparse_coo, x.clone(memory_format=lib.contiguous_format)


# --------------------------------------------------------------------------------------- programs of tutorials


def hooks_of_a_first_layer(lib):
    seen = []
    model = filled(lib, lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Tanh(), lib.nn.Linear(2, 1)))
    for layer in model:
        layer.register_full_backward_hook(lambda m, i, o: seen.append((len(i), i[0] if i[0] is not None else 0, *o)))
    model(lib.ones(1, 2)).sum().backward()
    return seen, model[0].weight.grad


def training_with_groups_and_schedule(lib):
    model = filled(lib, lib.nn.Sequential(lib.nn.Linear(1, 8), lib.nn.Tanh(), lib.nn.Linear(8, 1)))
    groups = [{"params": [p for p in model.parameters() if p.ndim == k + 1], "weight_decay": 0.1 * k} for k in (0, 1)]
    optimizer = lib.optim.AdamW(groups, lr=0.05)
    scheduler = lib.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=12)
    x = lib.linspace(-1, 1, 16).unsqueeze(1)
    history = []
    for _ in range(10):
        optimizer.zero_grad()
        for part in (slice(0, None, 2), slice(1, None, 2)):
            (lib.nn.functional.mse_loss(model(x[part]), x[part] ** 2) / 2).backward()
        norm = lib.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        history.append((norm, scheduler.get_last_lr()[0]))
    return history, dict(model.state_dict())


def attention_with_a_mask(lib):
    q, k, v = (fixed(lib, 2, 3, 4).requires_grad_() for _ in range(3))
    scores = lib.einsum("bqd,bkd->bqk", q, k) / math.sqrt(4)
    scores = scores.masked_fill(lib.tril(lib.ones(3, 3)) == 0, float("-inf"))
    out = scores.softmax(-1) @ v
    out.pow(2).sum().backward()
    return out, q.grad, v.grad


def second_derivatives(lib):
    net = filled(lib, lib.nn.Sequential(lib.nn.Linear(1, 6), lib.nn.Tanh(), lib.nn.Linear(6, 1)))
    t = lib.linspace(0, 1, 5).view(-1, 1).requires_grad_()
    u = net(t)
    (slope,) = lib.autograd.grad(u, t, lib.ones_like(u), create_graph=True)
    (bend,) = lib.autograd.grad(slope, t, lib.ones_like(u), create_graph=True)
    ((bend + u) ** 2).mean().backward()
    return bend, net[0].weight.grad


def gradients_for_each_sample(lib):
    model = filled(lib, lib.nn.Linear(3, 2))
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(p, x, y):
        out = lib.func.functional_call(model, p, (x.unsqueeze(0),))
        return lib.nn.functional.cross_entropy(out, y.unsqueeze(0))

    each = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0, 0))
    return each(parameters, fixed(lib, 4, 3), lib.tensor([0, 1, 1, 0]))


def flow_and_policy(lib):
    d = lib.distributions
    base = d.Normal(lib.zeros(1), lib.ones(1))
    steps = [d.transforms.AffineTransform(1.0, 2.0), d.transforms.SigmoidTransform()]
    policy = d.Categorical(logits=fixed(lib, 4, 3))
    density = d.TransformedDistribution(base, steps).log_prob(lib.tensor([0.3]))
    return density, policy.log_prob(lib.tensor([0, 1, 2, 0])), policy.entropy(), repr(policy)


def filtering_and_components(lib):
    wave = lib.sin(lib.arange(32) * 0.5) + 0.5 * lib.sin(lib.arange(32) * 2.5)
    spectrum = lib.fft.rfft(wave)
    spectrum[lib.fft.rfftfreq(32) > 0.2] = 0
    points = fixed(lib, 10, 3)
    centred = points - points.mean(0)
    _, values, right = lib.linalg.svd(centred, full_matrices=False)
    return lib.fft.irfft(spectrum, n=32), values, (centred @ right.mT).abs()


def checkpoint_in_memory(lib):
    model = filled(lib, lib.nn.Linear(2, 1))
    optimizer = lib.optim.Adam(model.parameters())
    model(lib.ones(1, 2)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    lib.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "device": lib.device("cpu")}, file)
    file.seek(0)
    found = lib.load(file)
    fresh = lib.nn.Linear(2, 1)
    return str(fresh.load_state_dict(found["model"])), dict(fresh.state_dict()), found["device"], sorted(found)


PROGRAMS = [
    choosing_a_device,
    making_runs_reproducible,
    old_constructors,
    variables,
    builtins_of_python,
    text,
    named_results,
    adding_arrays,
    layouts,
    hooks_of_a_first_layer,
    training_with_groups_and_schedule,
    attention_with_a_mask,
    second_derivatives,
    gradients_for_each_sample,
    flow_and_policy,
    filtering_and_components,
    checkpoint_in_memory,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_same_under_both(program):
    assert_same(plain(program(weft)), plain(program(torch)))


# ----------------------------------------------------------------------------------------- ordinary mistakes

MISTAKES = {
    "list for a tensor": lambda lib: lib.sum([1, 2]),
    "array for a tensor": lambda lib: lib.exp(np.ones(2)),
    "numbers to stack": lambda lib: lib.stack([1, 2]),
    "None for a tensor": lambda lib: lib.reshape(None, (2,)),
    "array to a layer": lambda lib: lib.nn.Linear(2, 1)(np.ones((1, 2))),
    "float64 to a layer": lambda lib: lib.nn.Linear(2, 1)(lib.ones(1, 2).double()),
    "format of many": lambda lib: f"{lib.ones(2):.2f}",
    "probability above 1": lambda lib: lib.nn.functional.binary_cross_entropy(lib.tensor([1.5]), lib.tensor([1.0])),
    "unequal tensors": lambda lib: lib.testing.assert_close(lib.ones(2), lib.zeros(2)),
    "unequal types": lambda lib: lib.testing.assert_close(lib.ones(2), lib.ones(2).double()),
    "unequal shapes": lambda lib: lib.testing.assert_close([lib.ones(2)], [lib.ones(3)]),
    "one tolerance": lambda lib: lib.testing.assert_close(lib.ones(2), lib.ones(2), rtol=1.0),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise_alike(name):
    with pytest.raises(Exception) as theirs:
        MISTAKES[name](torch)
    expected = next(c for c in type(theirs.value).__mro__ if c.__module__ == "builtins")
    with pytest.raises(expected) as ours:
        MISTAKES[name](weft)
    assert len(str(ours.value)) > 20


@pytest.mark.parametrize("move", [lambda: weft.nn.Linear(1, 1).cuda(), lambda: weft.ones(1).cuda()])
def test_absent_device_is_named(move):
    with pytest.raises(weft.errors.DeviceError, match=r"cuda.*cpu"):
        move()


CLOSE = [
    (1.0, 1.0 + 1e-6, {}),
    (1.0, 1.0 + 1e-4, {}),
    (1.0, 1.1, dict(rtol=0.2, atol=0.0)),
    (math.nan, math.nan, {}),
    (math.nan, math.nan, dict(equal_nan=True)),
    (1, 2, {}),
    (math.inf, math.inf, {}),
]


@pytest.mark.parametrize(("one", "other", "options"), CLOSE)
def test_assert_close_decides_as_pytorch(one, other, options):
    def decided(lib):
        try:
            lib.testing.assert_close({"x": [lib.tensor(one)]}, {"x": [lib.tensor(other)]}, **options)
        except AssertionError:
            return False
        return True

    assert decided(weft) == decided(torch)
