"""PyTorch's names that programs reach for: amp, profiler, pruning, event files, saving, hub, hooks, einops."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pickle

import numpy as np
import pytest
import torch
import torch.nn.utils.prune as their_prune

import weft
import weft.torch
from weft.train.tensorboard import SummaryWriter

# Idioms of public repositories, by the module they import from.
IDIOMS = """
torch: Tensor FloatTensor LongTensor device compile autocast save load jit fx hub amp version __version__ _assert
torch: set_default_tensor_type _foreach_mul_ _foreach_norm memory_format channels_last get_num_interop_threads spmm
torch.nn: Module DataParallel Parameter modules functional init utils parallel attention
torch.nn.modules.batchnorm: _BatchNorm _NormBase BatchNorm2d
torch.nn.modules.conv: _ConvNd _ConvTransposeNd Conv2d
torch.nn.modules.loss: _Loss _WeightedLoss CrossEntropyLoss
torch.nn.modules.utils: _pair _single _triple _ntuple _quadruple _reverse_repeat_tuple
torch.nn.modules.utils: consume_prefix_in_state_dict_if_present
torch.nn.modules.module: Module register_module_full_backward_hook register_module_parameter_registration_hook
torch.nn.modules.instancenorm: _InstanceNorm InstanceNorm2d
torch.nn.modules.pooling: _MaxPoolNd AdaptiveAvgPool2d
torch.nn.modules.dropout: _DropoutNd
torch.nn.modules.container: Sequential ModuleList
torch.nn.modules.activation: MultiheadAttention
torch.nn.modules.linear: Linear
torch.nn.modules.normalization: LayerNorm GroupNorm
torch.nn.modules.rnn: LSTM RNNBase
torch.nn.modules.transformer: TransformerEncoderLayer
torch.nn.common_types: _size_2_t _size_1_t
torch.nn.parameter: Parameter UninitializedParameter
torch.nn.attention: SDPBackend sdpa_kernel
torch.nn.parallel: DataParallel DistributedDataParallel
torch.nn.parallel.data_parallel: DataParallel
torch.nn.utils.rnn: pad_sequence pack_padded_sequence PackedSequence
torch.nn.utils.prune: l1_unstructured global_unstructured BasePruningMethod
torch.nn.utils.parametrizations: weight_norm spectral_norm
torch.nn.utils.clip_grad: clip_grad_norm_
torch.nn.init: _calculate_fan_in_and_fan_out trunc_normal_
torch.optim: Optimizer AdamW
torch.optim.optimizer: Optimizer required
torch.optim.lr_scheduler: _LRScheduler LRScheduler OneCycleLR
torch.optim.swa_utils: AveragedModel SWALR update_bn
torch.autograd: Variable Function grad
torch.autograd.function: Function once_differentiable
torch.autograd.profiler: profile record_function
torch.autograd.variable: Variable
torch.utils.data: DataLoader Dataset IterableDataset get_worker_info random_split
torch.utils.data.dataloader: DataLoader default_collate
torch.utils.data._utils.collate: default_collate
torch.utils.data.sampler: Sampler BatchSampler SubsetRandomSampler
torch.utils.data.distributed: DistributedSampler
torch.utils.checkpoint: checkpoint checkpoint_sequential
torch.utils._pytree: tree_map tree_flatten tree_unflatten tree_map_only
torch.utils.hooks: RemovableHandle
torch.utils.model_zoo: load_url
torch.utils.tensorboard: SummaryWriter
torch.utils.dlpack: from_dlpack to_dlpack
torch.amp: autocast GradScaler custom_fwd custom_bwd
torch.cuda.amp: autocast GradScaler custom_fwd custom_bwd
torch.cuda: is_available device_count synchronize Event Stream current_device amp OutOfMemoryError nvtx
torch.accelerator: is_available current_accelerator
torch.backends.cudnn: benchmark deterministic enabled version flags
torch.backends.cuda: matmul enable_flash_sdp
torch.backends: cudnn cuda mps mkldnn
torch.jit: script trace ignore unused export is_scripting Final annotations ScriptModule interface
torch._jit_internal: boolean_dispatch BroadcastingList2
torch.fx: wrap Proxy
torch._dynamo: disable allow_in_graph config reset is_compiling
torch.compiler: disable is_compiling
torch.distributed: init_process_group get_rank get_world_size is_initialized all_reduce barrier ReduceOp
torch.distributions: Categorical Normal kl_divergence
torch.distributions.normal: Normal
torch.multiprocessing: spawn set_start_method Process
torch.serialization: add_safe_globals safe_globals
torch.hub: load load_state_dict_from_url set_dir
torch.profiler: profile record_function ProfilerActivity schedule tensorboard_trace_handler
torch.onnx: export
torch.overrides: has_torch_function handle_torch_function
torch._six: string_classes container_abcs inf
torch._utils: _flatten_dense_tensors _unflatten_dense_tensors
torch.types: Number Device
torch.version: cuda
torch.random: manual_seed fork_rng
torch.functional: einsum
torch.sparse: mm
torch.func: functional_call vmap
functorch: vmap make_functional make_functional_with_buffers combine_state_for_ensemble
torch: GradScaler Event Stream SymInt ops is_autocast_cpu_enabled get_autocast_gpu_dtype clear_autocast_cache
torch._C: _log_api_usage_once _TensorBase
torch.library: custom_op register_fake register_autograd Library impl define triton_op
torch.nn.attention.flex_attention: flex_attention create_block_mask create_mask BlockMask and_masks or_masks
torch.utils.checkpoint: set_checkpoint_early_stop noop_context_fn CheckpointFunction create_selective_checkpoint_contexts
torch.utils.benchmark: Timer Compare Measurement
torch.utils._pytree: tree_iter tree_map_ tree_flatten_with_path tree_map_with_path keystr tree_any_only
torch.utils.hooks: unserializable_hook
torch.cuda.nvtx: range_push range_pop mark range
torch.distributed: P2POp batch_isend_irecv get_node_local_rank default_pg_timeout Backend init_device_mesh
torch.distributed: send_object_list recv_object_list
torch.distributed.device_mesh: DeviceMesh init_device_mesh
torch.distributed.elastic.multiprocessing.errors: record
"""


@pytest.fixture
def ours():
    with weft.torch.installed():
        import torch as found

        yield found


@pytest.mark.parametrize("row", IDIOMS.strip().splitlines(), ids=lambda row: row.partition(":")[0])
def test_names_of_public_repositories_are_there(row, ours):
    module, _, names = row.partition(":")
    found = importlib.import_module(module)
    assert [name for name in names.split() if not hasattr(found, name)] == []


def test_switches_can_be_set(ours):
    import torch.backends.cudnn as cudnn

    cudnn.benchmark = True
    assert ours.backends.cudnn.benchmark and not ours.backends.cudnn.is_available()
    assert cudnn is ours.backends.cudnn


# --------------------------------------------------------------------------------------------------------- autocast


def _net(lib, seed=0):
    rng = np.random.default_rng(seed)
    net = lib.nn.Sequential(lib.nn.Conv2d(1, 4, 3), lib.nn.ReLU(), lib.nn.Flatten(), lib.nn.Linear(64, 5))
    values = {k: rng.normal(size=tuple(v.shape)).astype("f4") / 4 for k, v in net.state_dict().items()}
    net.load_state_dict({k: lib.from_numpy(v) for k, v in values.items()})
    return net, lib.from_numpy(rng.normal(size=(3, 1, 6, 6)).astype("f4"))


def _cast(lib, autocast):
    net, x = _net(lib)
    with autocast("cpu", dtype=lib.bfloat16):
        y = net(x)
        attention = lib.nn.functional.scaled_dot_product_attention(*[x.flatten(2)] * 3)
        loss = lib.nn.functional.cross_entropy(y, lib.tensor([0, 1, 2]))
        with autocast("cpu", enabled=False):
            plain = net[3](lib.ones(1, 64))
        kinds = [
            str(t.dtype).split(".")[-1] for t in (y, attention, loss, plain, x @ x, x + x, x.double() @ x.double())
        ]
    loss.backward()
    return kinds, y.detach().float().numpy(), [p.grad for p in net.parameters()]


def test_autocast_has_pytorchs_types_and_nearly_its_numbers():
    kinds, y, grads = _cast(weft, weft.amp.autocast)
    their_kinds, their_y, their_grads = _cast(torch, torch.autocast)
    assert kinds == their_kinds
    np.testing.assert_allclose(y, their_y, rtol=2**-7, atol=2**-7)
    for g, t in zip(grads, their_grads, strict=True):
        assert g.dtype is weft.float32
        np.testing.assert_allclose(g.numpy(), t.numpy(), rtol=0.03, atol=0.03)
    assert not weft.amp.is_autocast_enabled()


def test_a_plan_is_made_for_each_autocast():
    net, x = _net(weft)
    compiled = weft.compile(lambda x: net(x))
    plain = compiled(x)
    with weft.amp.autocast():
        assert compiled(x).dtype is weft.bfloat16
    assert compiled(x).dtype is weft.float32 and bool((compiled(x) == plain).all())


def test_recurrent_layers_stay_in_their_type():
    layer, x = weft.nn.LSTM(3, 4), weft.randn(5, 2, 3)
    with weft.amp.autocast():
        out, _ = layer(x.bfloat16())
    assert out.dtype is weft.float32


@pytest.mark.parametrize("kind", [weft.float32, weft.int64])
def test_autocast_refuses_other_types(kind):
    with pytest.raises(weft.errors.OptionError, match="bfloat16 or float16"):
        weft.amp.autocast(dtype=kind)


def test_scaler_for_a_missing_card_does_nothing(ours):
    with pytest.warns(UserWarning, match="not available"):
        scaler = ours.cuda.amp.GradScaler()
    with pytest.warns(UserWarning, match="not available"), ours.cuda.amp.autocast():
        assert ours.nn.Linear(1, 1)(ours.ones(1, 1)).dtype is ours.float32
    assert not scaler.is_enabled() and scaler.scale(ours.ones(1)).item() == 1


# --------------------------------------------------------------------------------------------------------- profiler


def test_profiler_hears_kernels_and_writes_a_chrome_trace(tmp_path):
    net, x = _net(weft)
    compiled = weft.compile(lambda x: net(x).tanh().sum())
    compiled(x)
    with weft.profiler.profile() as prof:
        with weft.profiler.record_function("eager"):
            net(x).sum().backward()
        compiled(x)
    kinds = {row.kind for row in prof.key_averages()}
    assert kinds == {"numpy", "kernel", "range"}
    ranged = next(row for row in prof.key_averages() if row.key == "eager")
    inside = sum(e.length for e in prof.events() if e.kind == "numpy")
    assert ranged.count == 1 and ranged.cpu_time_total > 0.2 * inside > 0
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == len(prof.events()) and all(e["ph"] == "X" and e["dur"] >= 0 for e in events)
    before = len(prof.events())
    net(x)
    assert len(prof.events()) == before, "nobody listens any more"


def test_profiler_schedule_is_pytorchs():
    ours = weft.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    theirs = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [ours(i).name for i in range(12)] == [theirs(i).name for i in range(12)]
    ready = []
    with weft.profiler.profile(schedule=ours, on_trace_ready=lambda p: ready.append(p.step_num)) as prof:
        for _ in range(10):
            weft.ones(3).exp()
            prof.step()
    assert ready == [4, 8]


# ---------------------------------------------------------------------------------------------------------- pruning


def _pruned(lib, prune):
    rng = np.random.default_rng(1)
    layer = lib.nn.Conv2d(2, 4, 3)
    layer.load_state_dict(
        {k: lib.from_numpy(rng.normal(size=tuple(v.shape)).astype("f4")) for k, v in layer.state_dict().items()}
    )
    other = lib.nn.Linear(3, 5)
    other.load_state_dict(
        {k: lib.from_numpy(rng.normal(size=tuple(v.shape)).astype("f4")) for k, v in other.state_dict().items()}
    )
    prune.ln_structured(layer, "weight", amount=2, n=1, dim=0)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    prune.global_unstructured([(layer, "weight"), (other, "weight")], pruning_method=prune.L1Unstructured, amount=4)
    prune.custom_from_mask(other, "bias", lib.tensor([1, 0, 1, 1, 0]))
    keys = sorted(layer.state_dict()) + sorted(other.state_dict())
    out = other(lib.ones(1, 3)).detach().numpy()
    prune.remove(other, "bias")
    return keys, layer.weight.detach().numpy(), other.weight.detach().numpy(), other.bias.detach().numpy(), out


def test_pruning_is_pytorchs():
    for a, b in zip(_pruned(weft, weft.nn.utils.prune), _pruned(torch, their_prune), strict=True):
        np.testing.assert_array_equal(a, b) if isinstance(a, list) else np.testing.assert_allclose(a, b, rtol=1e-6)
    assert not weft.nn.utils.prune.is_pruned(weft.nn.Linear(1, 1))
    with pytest.raises(weft.errors.InvalidValueError, match="not pruned"):
        weft.nn.utils.prune.remove(weft.nn.Linear(1, 1), "weight")
    with pytest.raises(weft.errors.InvalidValueError, match="amount"):
        weft.nn.utils.prune.l1_unstructured(weft.nn.Linear(1, 1), "weight", 1.5)


# ------------------------------------------------------------------------------------------------------ event files


def test_event_files_are_read_by_tensorboard(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    values = np.random.default_rng(0).normal(size=500)
    with SummaryWriter(tmp_path / "run") as writer:
        for step in range(3):
            writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_histogram("weights", weft.from_numpy(values), 2)
        writer.add_image("picture", weft.rand(3, 5, 7), 1)
        writer.add_images("pictures", weft.rand(9, 1, 4, 4), 1)
        writer.add_text("note", "hello")
        writer.add_hparams({"lr": 0.1}, {"accuracy": 0.9})
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 5)
    found = reader.EventAccumulator(
        str(tmp_path / "run"), size_guidance={reader.HISTOGRAMS: 0, reader.IMAGES: 0}
    ).Reload()
    assert [(e.step, round(e.value, 5)) for e in found.Scalars("loss")] == [(0, 1.0), (1, 0.5), (2, 0.33333)]
    histogram = found.Histograms("weights")[0].histogram_value
    assert histogram.num == 500 and sum(histogram.bucket) == 500
    assert histogram.min == values.min() and np.isclose(histogram.sum_squares, (values**2).sum())
    image = found.Images("picture")[0]
    assert (image.height, image.width, image.encoded_image_string[1:4]) == (5, 7, b"PNG")
    assert (found.Images("pictures")[0].height, found.Images("pictures")[0].width) == (8, 32)
    assert found.Tensors("note/text_summary")[0].tensor_proto.string_val[0] == b"hello"
    assert {p.name for p in (tmp_path / "run").iterdir() if p.is_dir()} == {"both_a", "both_b"}


# ------------------------------------------------------------------------------------------------- saving, and a hub


class Whole(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = weft.nn.Linear(2, 2)


@pytest.fixture
def theirs(tmp_path):
    """A file of PyTorch's, written before `torch` means Weft."""
    torch.save({"w": torch.ones(2)}, tmp_path / "theirs.pt")
    return tmp_path / "theirs.pt"


def test_a_whole_model_is_saved_and_read_only_by_those_who_trust_it(theirs, ours, tmp_path):
    model = Whole()
    ours.save(model, tmp_path / "model.pt")
    with pytest.raises(weft.io.UnsafePickleError, match=r"weights_only=False|add_safe_globals"):
        ours.load(tmp_path / "model.pt")
    assert bool((ours.load(tmp_path / "model.pt", weights_only=False).layer.weight == model.layer.weight).all())
    with ours.serialization.safe_globals([Whole]):
        assert isinstance(ours.load(tmp_path / "model.pt"), Whole)
    ours.save({"state": model.state_dict(), "epoch": 3}, tmp_path / "state.pt")
    assert ours.load(tmp_path / "state.pt", map_location="cuda")["epoch"] == 3, "no GPU is needed to read"
    assert (tmp_path / "state.pt").read_bytes()[:13] != b"weft pickle 1"
    (tmp_path / "bad.pt").write_bytes(b"nothing at all")
    with pytest.raises(weft.errors.WeftError, match="neither one of Weft's files nor PyTorch's"):
        ours.load(tmp_path / "bad.pt")
    assert ours.load(theirs)["w"].tolist() == [1, 1]


def test_hub_takes_folders(ours, tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "import torch\n\ndef net(width):\n    'A layer.'\n    return torch.nn.Linear(width, 1)\n"
    )
    assert ours.hub.load(str(tmp_path), "net", 3, source="local").in_features == 3
    assert ours.hub.list(str(tmp_path), source="local") == ["net"]
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        ours.hub.load_state_dict_from_url("https://example.org/a.pth", model_dir=str(tmp_path))
    ours.save({"w": ours.ones(1)}, tmp_path / "a.pth")
    assert ours.hub.load_state_dict_from_url("https://example.org/a.pth", model_dir=str(tmp_path))["w"].item() == 1


def test_scripting_keeps_the_module_and_says_so(ours):
    net = ours.nn.Linear(1, 1)
    assert ours.jit.script(net) is net and ours.jit.trace(net, ours.ones(1, 1)) is net
    assert "torch.jit.script: it stays the Python that it is" in weft.torch.report()


def test_compile_takes_pytorchs_arguments(ours):
    f = ours.compile(lambda x: x * 2, mode="reduce-overhead", dynamic=True, fullgraph=True, backend="inductor")
    assert f(ours.ones(2)).tolist() == [2, 2]
    assert ours.compile(lambda x: x + 1, backend="eager")(ours.ones(1)).item() == 2

    @ours.compile
    def g(x):
        return x + 1

    assert g(ours.ones(1)).item() == 2 and ours.compile(abs, disable=True) is abs
    with pytest.raises(weft.errors.OptionError, match="mode"):
        weft.compile(lambda x: x, mode="fastest")


# ------------------------------------------------------------------------------------------------- modules and hooks


@pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])
def test_registration_hooks_and_semi_public_hooks(lib):
    from torch.nn.modules import module as their_module

    hooks = weft.nn if lib is weft else their_module
    seen = []
    handles = [
        hooks.register_module_parameter_registration_hook(lambda m, name, p: seen.append(name)),
        hooks.register_module_buffer_registration_hook(lambda m, name, b: seen.append(name)),
        hooks.register_module_module_registration_hook(lambda m, name, part: seen.append(name)),
    ]
    net = lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.BatchNorm1d(1, affine=False))
    for handle in handles:
        handle.remove()
    net.extra = lib.nn.Identity()
    assert seen == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked", "0", "1"]
    asked = []
    net[0]._register_load_state_dict_pre_hook(lambda state, prefix, *rest: asked.append((prefix, len(rest))))
    net[0]._register_load_state_dict_pre_hook(
        lambda module, state, prefix, *rest: asked.append(module is net[0]), with_module=True
    )
    net._register_state_dict_hook(
        lambda module, state, prefix, meta: {k: v for k, v in state.items() if "running" not in k}
    )
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.num_batches_tracked"]
    net.load_state_dict(state, strict=False)
    assert asked == [("0.", 5), True] and len(net[0]._forward_hooks) == 0
    net.set_submodule("1", lib.nn.Identity())
    assert type(net[1]).__name__ == "Identity" and net.to_empty(device="cpu") is net


def test_functions_can_be_pickled_as_those_of_pytorch():
    from weft.ops.core.register import OPERATIONS

    known = [functools.reduce(getattr, name.split("."), weft) for name in OPERATIONS]
    known += [f for name, f in vars(weft.nn.functional).items() if inspect.isfunction(f) and name[0] != "_"]
    assert [f for f in known if pickle.loads(pickle.dumps(f)) is not f] == []


# ----------------------------------------------------------------------------------------------------------- einops


def test_einops_works_on_tensors_and_their_gradients():
    einops = pytest.importorskip("einops")
    values = np.random.default_rng(0).normal(size=(2, 3, 4))
    x, t = weft.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    for f in (
        lambda x: einops.rearrange(x, "a (b c) d -> (a d) c b", b=3),
        lambda x: einops.repeat(x, "a b c -> a (b n) c", n=2),
        *(lambda x, op=op: einops.reduce(x, "a b c -> a c", op) for op in ("min", "max", "sum", "mean", "prod")),
        lambda x: einops.einsum(x, x, "a b c, a d c -> a b d"),
        lambda x: einops.pack([x, x], "a * c")[0],
    ):
        np.testing.assert_allclose(f(x).detach().numpy(), f(t).detach().numpy(), rtol=1e-12)
        g, h = weft.autograd.grad(f(x).square().sum(), x)[0], torch.autograd.grad(f(t).square().sum(), t)[0]
        np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-12)


def test_tensors_have_the_standards_functions():
    x = weft.arange(6.0).reshape(2, 3)
    xp = x.__array_namespace__()
    assert type(xp.sum(x, axis=0)) is weft.Tensor and xp.permute_dims(x, (1, 0)).shape == (3, 2)
    assert [type(part) for part in xp.unstack(x)] == [weft.Tensor] * 2 and xp.float32 is weft.float32
    with pytest.raises(weft.errors.InvalidValueError, match="2099"):
        x.__array_namespace__(api_version="2099.12")
