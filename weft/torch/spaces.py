"""Where PyTorch's modules are at home in Weft: the table from which `import torch.nn.modules.conv` is answered.

A row names modules of PyTorch's (several last parts in braces) and, after the colon, Weft's modules in which their names
are looked for, in this order. `*` on the right stands for the last part on the left, where there is such a module.
"""

from __future__ import annotations

import functools
import importlib.util
import re

__all__ = ["READ_WHOLE", "ROOTS", "SPACES", "homes_of", "parts_of"]

ROOTS = ("torch", "torchvision", "torchaudio", "functorch")

READ_WHOLE = ("torchvision.models", "torch.optim", "torch.nn")  # programs look names up in `__dict__`
SPACES = """
torch: torch.shims.top, torch.checks, torch.foreach, torch.kinds, torch.shims.named, weft
torch.{autograd,distributions,fft,func,linalg,masked,optim,signal,sparse,special,testing,utils}: *
torch.distributed: torch.shims.distributed, distributed
torch.nn: nn, torch.shims.nn
torch.{functional,autograd.grad_mode,tensor,_tensor}: weft
torch.quasirandom: torch.quasirandom
torch.random: torch.shims.top, weft
torch.{version,types,_six,_utils,overrides,torch_version}: torch.shims.small, torch.inner, torch.version, weft
torch.{_dynamo,compiler,fx,_compile,_dynamo.config,fx.proxy,compiler.config}: torch.shims.dynamo, torch.inner
torch.fx.{graph,graph_module,node,experimental,experimental.proxy_tensor,_symbolic_trace,interpreter}: torch.shims.dynamo, torch.inner, torch.tooling
torch._dynamo.{_trace_wrapped_higher_order_op,eval_frame,exc,utils}: torch.shims.dynamo, torch.inner
torch._inductor: torch.shims.dynamo
torch.{_inductor.config,_functorch.config,_functorch}: torch.shims.backends
torch.{_logging,_inductor.utils}: torch.shims.dynamo
torch.{jit,jit.annotations,_jit_internal,jit._script}: torch.shims.jit, torch.inner
torch.{serialization,package}: torch.shims.saving, torch.inner
torch.storage: torch.kinds, storage
torch.__config__: torch.inner
torch.{hub,utils.model_zoo}: torch.shims.hub, torch.inner
torch.{multiprocessing,multiprocessing.spawn}: torch.shims.multiprocessing
torch.export: torch.dims
torch.{onnx,onnx.symbolic_helper,onnx.utils,onnx._globals}: torch.shims.onnx, onnx
torch.profiler: profiler, torch.inner
torch.{futures,_C._distributed_rpc,distributed.rpc.api}: torch.inner
torch.amp: torch.shims.amp
torch.amp.{autocast_mode,grad_scaler}: torch.shims.amp
torch.{cuda.amp,cuda.amp.autocast_mode,cuda.amp.grad_scaler}: torch.shims.cuda_amp
torch.{cuda,accelerator,xpu,mps,cuda.random,cuda.memory}: torch.shims.cuda, cuda, torch.inner
torch.{cpu,cpu.amp}: torch.shims.amp, torch.shims.cuda
torch.cuda.nvtx: torch.shims.nvtx
torch.backends: torch.shims.backends
torch.backends.cuda: torch.shims.backends, torch.shims.nn
torch.backends.{cudnn,mps,mkl,mkldnn,openmp,opt_einsum,cpu,quantized,xeon,nnpack}: torch.shims.backends
torch.autograd.{forward_ad,function,functional,graph}: autograd.*
torch.autograd.{variable,gradcheck,anomaly_mode}: autograd
torch.autograd.profiler: profiler, torch.inner
torch.utils.flop_counter: torch.inner
torch.distributed.{distributed_c10d,device_mesh}: torch.shims.distributed, distributed
torch.distributed.{optim,fsdp}: distributed.*, torch.inner
torch.distributed.{tensor,_tensor,_tensor.experimental,_composable,_composable.fsdp,_composable.fsdp.fully_shard,algorithms,algorithms.join,rpc}: torch.inner, torch.refused
torch.distributed.{fsdp.wrap,tensor.parallel,_shard,nn,nn.functional,_functional_collectives}: torch.inner, torch.refused
torch.distributed.{tensor._utils,tensor.placement_types,tensor.experimental,_composable_state}: torch.inner, torch.refused
torch.distributed.checkpoint: torch.refused
torch.distributed.checkpoint.{hf_storage,state_dict,state_dict_loader,state_dict_saver,filesystem,default_planner}: torch.refused
torch.distributed.checkpoint.{metadata,planner,stateful,storage,format_utils}: torch.refused
torch.{ao,ao.quantization,ao.nn,quantization}: torch.refused
torch.distributed.constants: torch.shims.distributed
torch.distributed.{elastic,elastic.multiprocessing,elastic.multiprocessing.errors}: torch.shims.distributed
torch.distributions.{kl,utils,constraints,transforms,constraint_registry}: distributions.*, torch.inner, distributions
torch.distributions.{distribution,normal,categorical,bernoulli,beta,dirichlet,uniform,multivariate_normal,independent}: distributions
torch.distributions.{gamma,laplace,one_hot_categorical,poisson,relaxed_bernoulli,relaxed_categorical,transformed_distribution}: distributions
torch.distributions.{binomial,cauchy,chi2,continuous_bernoulli,exp_family,exponential,fishersnedecor,geometric,gumbel}: distributions
torch.distributions.{half_cauchy,half_normal,inverse_gamma,kumaraswamy,lkj_cholesky,log_normal,logistic_normal,pareto}: distributions
torch.distributions.{lowrank_multivariate_normal,mixture_same_family,multinomial,negative_binomial,studentT,weibull}: distributions
torch.distributions.{von_mises,wishart,generalized_pareto}: distributions
torch.nn.{functional,init,utils,parameter}: nn.*
torch.nn.modules: nn.modules, nn, torch.shims.nn
torch.nn.modules.{activation,adaptive,distance,linear,padding,transformer}: nn.modules.*, nn
torch.nn.modules.{batchnorm,conv,dropout,loss}: torch.shims.nn, nn.modules.*, nn
torch.nn.modules.{container,lazy}: nn.*, nn
torch.nn.modules.module: nn.module_hooks, torch.shims.nn, torch.inner, nn.module, nn
torch.nn.modules.{channelshuffle,flatten,fold,normalization,pixelshuffle,rnn,sparse,upsampling,instancenorm,pooling}: torch.shims.nn, nn
torch.nn.modules.utils: torch.shims.nn
torch.nn.{common_types,attention,attention.bias,_reduction,backends}: torch.shims.nn
torch.nn.attention.flex_attention: torch.shims.flex_attention
torch.nn.{grad,quantizable}: nn.*
torch.nn.parallel: nn.parallel, nn.data_parallel, torch.parallel
torch.nn.parallel.{data_parallel,distributed}: nn.parallel.*, nn.parallel, nn.data_parallel
torch.nn.parallel.{replicate,scatter_gather,parallel_apply}: torch.parallel
torch.nn.utils.{rnn,parametrize,parametrizations,fusion,init,clip_grad,convert_parameters,prune}: nn.utils.*
torch.nn.utils.{weight_norm,spectral_norm,stateless}: nn.utils.*, func
torch.optim.{lr_scheduler,swa_utils}: optim.*
torch.optim.{adadelta,adagrad,adam,adamax,adamw,asgd,lbfgs,nadam,radam,rmsprop,rprop,sgd,sparse_adam,adafactor}: optim
torch.optim.{optimizer,_functional,_multi_tensor}: torch.shims.optimizer, optim
torch.signal.windows: signal.windows
torch.utils.data: utils.data, torch.datapipes
torch.utils.data.{datapipes,datapipes.iter,datapipes.map,graph}: torch.datapipes
torch._tensor_str: torch.inner
torch.utils.data.{dataloader,dataset,sampler,distributed,_utils,_utils.collate,_utils.worker,_utils.fetch}: utils.data, torch.inner, torch.tooling
torch.utils.{weak,_foreach_utils,_contextlib,_python_dispatch}: torch.inner, torch.tooling
torch.{_subclasses,_subclasses.fake_tensor,_subclasses.functional_tensor,_subclasses.meta_utils,utils.cpp_extension}: torch.tooling, torch.inner
torch.utils.checkpoint: torch.shims.checkpoint
torch.utils.{tensorboard,tensorboard.writer,tensorboard.summary}: train.tensorboard
torch.utils._pytree: torch.shims.pytree, utils.pytree
torch.utils.hooks: torch.shims.small
torch.utils.benchmark: torch.shims.benchmark
torch.{library,ops}: torch.shims.library
torch._C: torch.shims.core
torch._C._functorch: torch.inner
torch._C._nn: torch.shims.core, nn.functional
torch.utils.dlpack: weft
functorch: torch.shims.functional, func
torchvision: vision
torchaudio: audio
torchvision.transforms.{transforms,autoaugment}: vision.transforms
torchvision.transforms._functional_tensor: vision.transforms.functional
torchvision.transforms.functional_tensor: vision.transforms.functional
torchvision.datasets.{folder,vision,mnist,cifar,imagenet,fakedata,svhn,stl10,celeba,coco,voc,omniglot,caltech}: vision.datasets
torchvision.datasets.utils: vision.files
torchvision.models.{resnet,vgg,densenet,convnext}: models.vision.*, vision.models
torchvision.models.{alexnet,googlenet,mobilenet,mobilenetv2}: vision.models
torchvision.models.vision_transformer: vision.models, models.vision.vit, torch.tooling
torchvision.models.{_utils,_api,feature_extraction}: vision.extraction, vision.weights
torchvision.ops.{feature_pyramid_network,poolers}: vision.ops.pyramid
torchvision.ops.{stochastic_depth,drop_block}: vision.ops.misc
torchvision.ops.{focal_loss,giou_loss,diou_loss,ciou_loss}: vision.ops.losses
torchvision.ops.{roi_align,roi_pool}: vision.ops.regions
torchvision.io.image: vision.io
"""

# Packages of others that are answered whole by a package of Weft's, module by module.
WHOLE = {"torchvision": "vision", "torchaudio": "audio"}


@functools.cache
def _rows() -> dict[str, tuple[str, ...]]:
    rows = {}
    for line in SPACES.strip().splitlines():
        left, _, right = line.partition(": ")
        head, braces, names = left.partition("{")
        for last in names.rstrip("}").split(",") if braces else [""]:
            name = head + last
            star = name.rpartition(".")[2]
            rows[name] = tuple(home.replace("*", star) for home in re.split(r",\s*", right))
    return rows


def homes_of(name: str) -> tuple[str, ...]:
    """The modules of Weft's in which the names of PyTorch's module are looked for; none if Weft has no such module."""
    root, _, rest = name.partition(".")
    homes = _rows().get(name) or ((f"{WHOLE[root]}.{rest}",) if root in WHOLE and rest else ())
    full = ("weft" if home == "weft" else f"weft.{home}" for home in homes)
    return tuple(home for home in full if _exists(home))


def parts_of(name: str) -> set[str]:
    """The last parts of the modules right below a module of PyTorch's, as far as Weft has them."""
    below = (full.removeprefix(f"{name}.") for full in _rows() if full.startswith(f"{name}."))
    return {part for part in below if "." not in part and homes_of(f"{name}.{part}")}


@functools.cache
def _exists(module: str) -> bool:
    import sys

    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
