"""Weft: a complete deep-learning system in pure Python, in PyTorch's names.

Tensors and what can be computed with them are here: weft.tensor, weft.zeros, weft.matmul, weft.no_grad …

    weft.nn             layers, losses, initial weights      weft.optim          optimisers, learning-rate schedules
    weft.nn.functional  what layers compute                  weft.distributions  probability distributions
    weft.data           sets (MNIST …), loaders, text        weft.train          the trainer, its callbacks and runs
    weft.compile        a function or a whole training step as machine code
    weft.autograd, weft.func        gradients, Jacobians, vmap, pictures of the graph
    weft.linalg, weft.fft, weft.special, weft.sparse, weft.masked       further operations
    weft.models         networks with their papers           weft.recipes        results that can be repeated
    weft.metrics        figures of predictions               weft.inspect        looking inside a network
    weft.graphs         graphs: spectra, classics, tasks, layers
    weft.distributed    several processes over MPI           weft.nn.parallel    models that they train together
    weft.io             safetensors, PyTorch's and Hugging Face's files          weft.sklearn   scikit-learn's interface

help(weft.nn.Linear) and the like explain formulas, arguments and shapes; the command `weft` trains and shows recipes.
"""

from __future__ import annotations

import sys as _sys
import types as _types
from math import e, inf, nan, pi  # noqa: F401
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import autograd, backends, cuda, errors, func, ops, utils  # noqa: F401
from . import dtypes as _dtypes
from . import protocols as _protocols
from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from .device import device  # noqa: F401
from .dtypes import (  # noqa: F401
    can_cast,
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    promote_types,
    set_default_dtype,
)
from .func import vmap  # noqa: F401
from .ops.core.control import cond, fori_loop, scan, while_loop  # noqa: F401
from .ops.core.primitive import OPERATIONS as _OPERATIONS
from .ops.core.register import explained as _explained
from .ops.create.sample import Generator, default_generator  # noqa: F401
from .ops.create.typed import TYPED as _TYPED
from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401
from .runtime.companions import introduce as _introduce
from .runtime.lazy import later as _later
from .runtime.memory import keep_freed_memory as _keep_freed_memory
from .runtime.settings import *  # noqa: F403
from .runtime.threads import get_num_threads, set_num_threads  # noqa: F401
from .show import get_printoptions, printoptions, set_printoptions  # noqa: F401
from .sizes import Size  # noqa: F401
from .tape.modes import is_anomaly_enabled, is_grad_enabled, is_inference_mode_enabled  # noqa: F401
from .tensor import Tensor

if _TYPE_CHECKING:
    from . import array_api, compiler, data, distributed, distributions, graphs, inspect, io, masked, nn, optim, testing  # noqa: F401
    from .compiler.compiled import compile  # noqa: F401
    from .io import load, save  # noqa: F401

__version__ = "0.1.0"

newaxis = None
strided, sparse_coo, sparse_csr = "strided", "sparse_coo", "sparse_csr"  # layouts
contiguous_format, preserve_format, channels_last = "contiguous_format", "preserve_format", "channels_last"


# Packages that most programs need only a part of: imported when they are first asked for, as are their names below.
_PACKAGES = (
    *(
        "amp",
        "array_api",
        "compiler",
        "data",
        "distributed",
        "distributions",
        "graphs",
        "inspect",
        "integrate",
        "io",
        "masked",
        "metrics",
        "models",
        "nn",
    ),
    *("onnx", "optim", "profiler", "recipes", "sklearn", "testing", "train", "audio", "vision"),
)

# Functions that PyTorch offers both here and in `nn.functional`.
_ALSO_TOP_LEVEL = """
    adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear
    binary_cross_entropy_with_logits celu celu_ channel_shuffle conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity ctc_loss dropout embedding
    embedding_bag feature_alpha_dropout group_norm hardshrink hinge_embedding_loss instance_norm kl_div
    layer_norm margin_ranking_loss max_pool1d max_pool2d max_pool3d one_hot pairwise_distance pdist pixel_shuffle
    pixel_unshuffle poisson_nll_loss prelu rms_norm rrelu rrelu_ selu selu_ threshold threshold_ triplet_margin_loss
""".split()

# Those that PyTorch offers here only.
_NATIVE = """
    affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d native_batch_norm native_dropout native_group_norm
    native_layer_norm
""".split()

# Methods that PyTorch also offers as functions.
_METHODS_AS_FUNCTIONS = """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_
    atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach detach_ erf_ erfc_ exp2_
    exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_
    negative_ rad2deg_ reciprocal_ relu_ resize_as_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_
    tanh_ trunc_ xlogy_ zero_
""".split()


def _publish() -> None:
    """Make `weft.name` (and `weft.linalg.name`…) of every registered operation and element type."""
    for kind in _dtypes.ALL:
        globals()[kind.name] = kind
        if kind.name in _dtypes.ALIASES:
            globals()[_dtypes.ALIASES[kind.name]] = kind
    globals().update(_TYPED)
    for name in _METHODS_AS_FUNCTIONS:
        globals()[name] = getattr(Tensor, name)
    for name, row in _OPERATIONS.items():
        space, _, last = name.rpartition(".")
        function = row.function if row.kind == "Elementwise" else _explained(row.function, name)
        home = _space(f"weft.{space}") if space else _sys.modules[__name__]
        function.__module__, function.__qualname__ = home.__name__, last  # by which pickle finds it
        setattr(home, last, function)
    vars(_space("weft.linalg"))["LinAlgError"] = errors.LinAlgError


def _space(name: str) -> _types.ModuleType:
    """The module `weft.signal.windows` (say), made with those above it unless it is there."""
    module = _sys.modules.get(name)
    if module is None:
        module = _sys.modules[name] = _types.ModuleType(name, f"Functions of {name}, as PyTorch names them.")
        find, listed = _later(name)
        vars(module).update(__getattr__=find, __dir__=listed)
        above, _, last = name.rpartition(".")
        setattr(_space(above), last, module)
    return module


_publish()
_keep_freed_memory()
_introduce()
# Pickles of tensors that were made when these modules had other names still say so.
_sys.modules["weft.dtype"], _sys.modules["weft.borders"] = _dtypes, _protocols
__getattr__, __dir__ = _later(
    __name__,
    _PACKAGES,
    {
        "nn.functional": _ALSO_TOP_LEVEL,
        "nn.functional.native": _NATIVE,
        "io": ("load", "save"),
        "compiler.compiled": ("compile",),
        "amp": ("autocast",),
    },
)
