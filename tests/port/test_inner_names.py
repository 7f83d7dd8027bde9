"""Inner names that libraries import: they are there, and what cannot be done says so only when it is asked for."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

import weft
import weft.torch

IMPORTS = """
torch: UntypedStorage TypedStorage FloatStorage LongStorage float8_e4m3fn complex32 sparse_csc TensorType lstm_cell gru_cell
torch.storage: UntypedStorage TypedStorage
torch.__config__: show parallel_info
torch.functional: F
torch.jit.annotations: List Optional
torch.hub: HASH_REGEX load_state_dict_from_url
torch.serialization: MAP_LOCATION
torch.fx: GraphModule Graph Node Tracer Proxy wrap
torch.distributions.gumbel: Gumbel
torch.distributions.utils: broadcast_all _standard_normal _sum_rightmost
torch.distributions.transforms: AffineTransform _InverseTransform _clipped_sigmoid
torch.nn.modules.module: _IncompatibleKeys
torch.overrides: TorchFunctionMode
torch.utils._pytree: register_pytree_node _dict_flatten_with_keys SUPPORTED_NODES
torch.utils._foreach_utils: _group_tensors_by_device_and_dtype
torch.utils._python_dispatch: TorchDispatchMode
torch.utils.weak: WeakIdKeyDictionary
torch.utils.data: IterDataPipe functional_datapipe
torch.utils.data.datapipes.iter: IterableWrapper Batcher
torch.utils.flop_counter: FlopCounterMode
torch.futures: Future collect_all
torch.distributed.algorithms.join: Join
torch.distributed.tensor: DTensor Shard Replicate distribute_tensor
torch.distributed.tensor.parallel: ColwiseParallel parallelize_module
torch.distributed.checkpoint.state_dict: get_model_state_dict
torch.distributed.fsdp: FullyShardedDataParallel MixedPrecisionPolicy fully_shard
torch: torch _check _foreach_rsqrt_
torch.cuda: _initialized _lazy_call
torch.serialization: DEFAULT_PROTOCOL
torch.nn.parameter: UninitializedTensorMixin
torch.nn.modules: CrossMapLRN2d
torch.backends.cuda: sdp_kernel
torch.utils._python_dispatch: is_traceable_wrapper_subclass
torchvision.models.vision_transformer: ConvStemConfig Encoder EncoderBlock VisionTransformer
torch.utils._pytree: _list_flatten _namedtuple_unflatten
torch.nn.parallel.scatter_gather: scatter gather scatter_kwargs
torch.optim.optimizer: ParamsT required
torch.utils.cpp_extension: load load_inline CUDA_HOME CUDAExtension BuildExtension
torch.utils.data._utils.collate: np_str_obj_array_pattern default_collate
torch.utils.data._utils.worker: _generate_state
torch.fx.experimental.proxy_tensor: get_proxy_mode
torch._C: _has_xpu _has_cuda Value
torch._subclasses.fake_tensor: is_fake FakeTensor FakeTensorMode unset_fake_temporarily
torch.nn.attention.flex_attention: AuxRequest AuxOutput
torch._dynamo.eval_frame: OptimizedModule
torchvision.models: ResNet18_Weights VGG16_Weights get_model_weights
torchvision.models.resnet: ResNet BasicBlock resnet18
torchvision.models._utils: IntermediateLayerGetter
torchvision.models.feature_extraction: create_feature_extractor get_graph_node_names
torchvision.transforms.transforms: Compose Normalize
torchvision.datasets.folder: ImageFolder default_loader
torchvision.datasets.utils: check_integrity download_url
torchvision.ops.feature_pyramid_network: FeaturePyramidNetwork LastLevelMaxPool
torchvision.ops.poolers: MultiScaleRoIAlign
"""


@pytest.fixture
def ours():
    with weft.torch.installed():
        import torch as found

        yield found


@pytest.mark.parametrize("row", IMPORTS.strip().splitlines(), ids=lambda row: row.partition(":")[0])
def test_names_are_there(row, ours):
    module, _, names = row.partition(":")
    found = importlib.import_module(module)
    assert [name for name in names.split() if not hasattr(found, name)] == []
    assert not weft.torch.missing()


def test_what_is_not_there_is_an_error_when_it_is_used(ours):
    from torch.distributed.checkpoint import FileSystemWriter
    from torch.fx import GraphModule

    assert not isinstance(ours.nn.Linear(1, 1), GraphModule)
    for make in (GraphModule, FileSystemWriter):
        with pytest.raises(weft.errors.UnsupportedError, match=r"weft\."):
            make()
    with pytest.raises(weft.errors.DtypeError, match="no such element type"):
        ours.zeros(2, dtype=ours.complex32)


def test_eight_bits_round_as_pytorchs(ours):
    values = np.random.default_rng(0).normal(size=200).astype("f4") * 20
    for name in ("float8_e4m3fn", "float8_e5m2"):
        found = ours.from_numpy(values).to(getattr(ours, name)).to(ours.float32)
        np.testing.assert_array_equal(found.numpy(), torch.from_numpy(values).to(getattr(torch, name)).float().numpy())


def test_cells_are_pytorchs(ours):
    random = np.random.default_rng(1)
    shapes = ((3, 4), (3, 5), (20, 4), (20, 5), (20,), (20,))
    x, h, *weights = [random.normal(size=shape).astype("f4") for shape in shapes]
    three = [w[:15] for w in weights]
    one = [w[:5] for w in weights]
    for name, state, given in (
        ("lstm_cell", (h, h), weights),
        ("gru_cell", h, three),
        ("rnn_tanh_cell", h, one),
        ("rnn_relu_cell", h, one),
    ):
        results = []
        for library in (ours, torch):
            t = library.from_numpy
            past = tuple(map(t, state)) if isinstance(state, tuple) else t(state)
            out = getattr(library, name)(t(x), past, *map(t, given))
            results.append([part.numpy() for part in (out if isinstance(out, tuple) else (out,))])
        np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_pipes_are_put_together_by_methods(ours):
    from torch.utils.data import functional_datapipe
    from torch.utils.data.datapipes.iter import IterableWrapper, IterDataPipe

    @functional_datapipe("doubled")
    class Doubled(IterDataPipe):
        def __init__(self, datapipe):
            self.datapipe = datapipe

        def __iter__(self):
            return (2 * x for x in self.datapipe)

    pipe = IterableWrapper(range(7)).filter(lambda x: x != 3).doubled().map(lambda x: x + 1).batch(4)
    assert list(pipe) == [[1, 3, 5, 9], [11, 13]]
    assert sorted(IterableWrapper(range(9)).shuffle()) == list(range(9))


def test_operations_by_their_inner_names(ours):
    x = ours.arange(4.0)
    assert ours.ops.aten.add.Tensor(x, x).tolist() == [0, 2, 4, 6]
    assert ours.ops.aten.clone.default is ours.ops.aten.clone.default
    assert ours.ops.aten.clone.default is not ours.ops.aten.add.Tensor


def test_tensors_of_other_classes_are_made_as_pytorch_makes_them(ours):
    class Point(ours.Tensor):
        def __new__(cls, data, curvature, requires_grad=False):
            made = ours.Tensor._make_subclass(cls, data, requires_grad)
            made.curvature = curvature
            return made

    point = Point(ours.ones(2), -1.0, True)
    (point * 2).sum().backward()
    assert type(point) is Point and point.curvature == -1.0 and point.grad.tolist() == [2, 2] and point.is_leaf


def test_optimisers_that_stand_for_others_need_no_init(ours):
    class Wrapped(ours.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            self.inner.step(closure)

    weight = ours.nn.Parameter(ours.ones(1))
    weight.sum().backward()
    Wrapped(ours.optim.SGD([weight], lr=0.5)).step()
    assert weight.item() == 0.5 and not isinstance(ours.nn.Linear(1, 1), ours.jit.ScriptModule)
    assert ours.device("cpu") != "npu:0" and ours.device("cpu") != "auto"
