"""Where PyTorch's modules are at home in Weft: the table from which `import torch.nn.modules.conv` is answered.

A row names modules of PyTorch's (several last parts in braces) and, after the colon, Weft's modules in which their names
are looked for, in this order. `*` on the right stands for the last part on the left, where there is such a module.
"""

from __future__ import annotations

import functools
import importlib.util
import re

__all__ = ["ROOTS", "SPACES", "homes_of"]

ROOTS = ("torch", "torchvision", "torchaudio", "functorch")

SPACES = """
torch: torch.shims.top, weft
torch.{autograd,cuda,distributions,fft,func,linalg,masked,nn,optim,signal,sparse,special,testing,utils}: *
torch.autograd.{forward_ad,function,functional,graph}: autograd.*
torch.autograd.{grad_mode,variable,gradcheck}: autograd
torch.distributions.{kl,utils,constraints,transforms}: distributions.*, distributions
torch.distributions.{distribution,normal,categorical,bernoulli,beta,dirichlet,uniform,multivariate_normal,independent}: distributions
torch.nn.{functional,init,utils,parameter}: nn.*
torch.nn.modules: nn.modules, nn
torch.nn.modules.{activation,adaptive,batchnorm,conv,distance,dropout,linear,loss,padding,transformer}: nn.modules.*, nn
torch.nn.modules.{container,lazy,module}: nn.*, nn
torch.nn.modules.{channelshuffle,flatten,fold,instancenorm,normalization,pixelshuffle,pooling,rnn,sparse,upsampling}: nn
torch.nn.utils.{rnn,parametrize,parametrizations,fusion,init,clip_grad,convert_parameters}: nn.utils.*
torch.nn.utils.{weight_norm,spectral_norm}: nn.utils.*
torch.optim.{lr_scheduler,swa_utils}: optim.*
torch.optim.{adadelta,adagrad,adam,adamax,adamw,asgd,lbfgs,nadam,radam,rmsprop,rprop,sgd,sparse_adam,adafactor}: optim
torch.optim.optimizer: torch.shims.optimizer, optim
torch.signal.windows: signal.windows
torch.utils.data: utils.data
torch.utils.data.{dataloader,dataset,sampler,distributed}: utils.data
torch.utils.checkpoint: utils.checkpoint
functorch: func
"""


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


@functools.cache
def homes_of(name: str) -> tuple[str, ...]:
    """The modules of Weft's in which the names of PyTorch's module are looked for; none if Weft has no such module."""
    homes = _rows().get(name, ())
    full = ("weft" if home == "weft" else f"weft.{home}" for home in homes)
    return tuple(home for home in full if _exists(home))


@functools.cache
def _exists(module: str) -> bool:
    import sys

    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
