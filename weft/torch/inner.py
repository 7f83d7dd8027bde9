"""Inner names of PyTorch's that libraries import: of distributions, of lists of tensors, of weak dictionaries, of graphs."""

from __future__ import annotations

import collections
import contextlib
import re
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import weft

from ..distributions.transforms import base as _transforms
from ..distributions.utils import sum_rightmost
from ..errors import StateError, UnsupportedError
from ..nn.module_state import LoadReport as _IncompatibleKeys
from ..nn.utils.rnn import PackedSequence

__all__ = [
    "DTensor",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Join",
    "JoinHook",
    "Joinable",
    "Node",
    "PackedSequence",
    "TensorType",
    "Tracer",
    "WeakIdKeyDictionary",
    "WeakTensorKeyDictionary",
]

# ------------------------------------------------------------------------------------------------ distributions
_sum_rightmost, _InverseTransform = sum_rightmost, _transforms._InverseTransform


def _standard_normal(shape: Any, dtype: Any, device: Any = None) -> Any:
    """Normal numbers of mean 0 and variance 1."""
    return weft.randn(tuple(shape), dtype=dtype)


def _clipped_sigmoid(x: Any) -> Any:
    """The logistic function, kept away from 0 and 1."""
    limits = weft.finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


# ------------------------------------------------------------------------------------------------ torch.utils
def _group_tensors_by_device_and_dtype(tensorlistlist: Sequence[Any], with_indices: bool = False) -> dict[Any, Any]:
    """{(device, dtype): (lists, indices)}: rows of lists of tensors, sorted by the type of the first list."""
    rows: dict[Any, list[int]] = collections.defaultdict(list)
    for i, x in enumerate(tensorlistlist[0]):
        rows[x.device, x.dtype].append(i)
    return {
        key: (
            [[column[i] if column else None for i in places] for column in tensorlistlist],
            places if with_indices else [],
        )
        for key, places in rows.items()
    }


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Lists of tensors are changed one after the other, on the CPU."""
    return ["cpu"]


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _has_foreach_support(tensors: Any, device: Any) -> bool:
    """True."""
    return True


_device_has_foreach_support = _has_foreach_support


class WeakIdKeyDictionary(weakref.WeakKeyDictionary):
    """A dictionary whose keys, compared by identity as tensors are, are forgotten with them."""


WeakTensorKeyDictionary = WeakIdKeyDictionary


def context_decorator(ctx: Callable, func: Callable) -> Callable:
    """`func` in the context that `ctx()` gives."""

    def decorated(*args: Any, **kwargs: Any) -> Any:
        with ctx():
            return func(*args, **kwargs)

    return decorated


class _DecoratorContextManager(contextlib.ContextDecorator):
    """A context that decorates functions, too; each call has a fresh one."""

    def _recreate_cm(self) -> Any:
        return self.clone()  # type: ignore[attr-defined]

    def clone(self) -> Any:
        """Another of the same kind."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same without arguments: the class itself decorates."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)


class ExceptionWrapper:
    """An error of a worker, to be raised again elsewhere."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        self.error, self.where = (exc_info or (None, StateError("an error that nobody told"), None))[1], where

    def reraise(self) -> None:
        """Raise it."""
        raise self.error


def get_active_device_count() -> int:
    """One: the CPU."""
    return 1


# ------------------------------------------------------------------------------------- graphs, of which there are none
class _Nothing:
    """Of what Weft makes no instances: `isinstance(x, GraphModule)` is false, making one is an error."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise UnsupportedError(
            f"{type(self).__name__}: Weft makes no graphs that Python edits and no tensors shared by meshes; "
            "weft.compile makes machine code of functions, weft.onnx.export a graph in a file"
        )


class GraphModule(weft.nn.Module):
    """A model as a graph that Python edits; Weft makes none, so nothing is one."""

    def __init__(self, *args: Any, **options: Any) -> None:
        _Nothing.__init__(self)  # type: ignore[arg-type]


class Graph(_Nothing):
    """See `GraphModule`."""


class Node(_Nothing):
    """See `GraphModule`."""


class Tracer(_Nothing):
    """See `GraphModule`."""


class Interpreter(_Nothing):
    """See `GraphModule`."""


class TensorType(_Nothing):
    """A type of TorchScript."""


class DTensor(_Nothing):
    """A tensor that a mesh of processes shares."""


class LinearBlockDiagonal(_Nothing):
    """A mask of attention of PyTorch's inner parts."""


class TorchFunctionMode(contextlib.nullcontext):
    """`with mode:` whose `__torch_function__` PyTorch would call for each operation; Weft calls it for none."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The function itself."""
        return func(*args, **(kwargs or {}))


TorchDispatchMode = BaseTorchFunctionMode = TorchFunctionMode


class PyTorchFileReader(_Nothing):
    """A file of PyTorch's, read by hand: `torch.load` reads it whole."""


class FlopCounterMode(_Nothing):
    """A count of operations by mode; `weft.inspect.summary` counts those of a model."""


class OptimizedModule(_Nothing):
    """What PyTorch's `compile` makes of a module; `weft.compile` makes something else."""


class _BaseDataLoaderIter(_Nothing):
    """The iterator of a loader of PyTorch's."""


class EmitNvtx(contextlib.nullcontext):
    """`with emit_nvtx():` nothing changes."""


_MultiProcessingDataLoaderIter = _SingleProcessDataLoaderIter = _BaseDataLoaderIter
emit_nvtx = emit_itt = EmitNvtx


def graph(*args: Any, **options: Any) -> Any:
    """Refused: there is no card whose work could be recorded."""
    return CUDAGraph()


def kineto_available() -> bool:
    """False: the profiler is Weft's."""
    return False


def _is_current_rpc_agent_set() -> bool:
    """False: processes call each other by collectives only."""
    return False


class Future:
    """A value that comes later; what sets it runs at once."""

    def __init__(self, *, devices: Any = None) -> None:
        self._value: Any = None
        self._then: list[Callable] = []
        self._done = False

    __class_getitem__ = classmethod(types.GenericAlias)

    def done(self) -> bool:
        """Whether it has come."""
        return self._done

    def set_result(self, result: Any) -> None:
        """It comes."""
        self._value, self._done = result, True
        for callback in self._then:
            callback(self)

    def wait(self) -> Any:
        """The value."""
        return self._value

    value = wait

    def add_done_callback(self, callback: Callable) -> None:
        """Called with this when the value is there."""
        callback(self) if self._done else self._then.append(callback)

    def then(self, callback: Callable) -> Future:
        """What the callback makes of it."""
        found = Future()
        self.add_done_callback(lambda done: found.set_result(callback(done)))
        return found


def collect_all(futures: Sequence[Future]) -> Future:
    """All of them."""
    found = Future()
    found.set_result(list(futures))
    return found


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """The values."""
    return [future.wait() for future in futures]


def _require_initialized(function: Callable) -> Callable:
    """The function, which will find nothing to call."""
    return function


def distribute_tensor(*args: Any, **options: Any) -> Any:
    """Refused: tensors are not shared by meshes."""
    return DTensor()


distribute_module = parallelize_module = rpc_async = rpc_sync = remote = distribute_tensor


def compute_local_shape_and_global_offset(*args: Any, **options: Any) -> Any:
    """Refused: tensors are not shared by meshes."""
    return DTensor()


class TransformGetItemToIndex(contextlib.nullcontext):
    """Indexing by a tensor under vmap: Weft's does it without help."""


class StreamContext(contextlib.nullcontext):
    """`with torch.cuda.stream(s):` as a class; nothing changes."""


class CUDAGraph(_Nothing):
    """Work of a card, recorded; there is no card."""


CPUOffloadPolicy = MixedPrecisionPolicy = OffloadPolicy = MixedPrecision = CPUOffload = CUDAGraph
Transformer, LazyGraphModule, FakeTensor, FakeTensorMode, RRef = Interpreter, Graph, DTensor, DTensor, DTensor


class Placement:
    """How a mesh would share a tensor: a word in tables of others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.dim = args[0] if args else options.get("dim", 0)


class Shard(Placement):
    """Cut along a dimension."""


class Replicate(Placement):
    """Whole everywhere."""


class Partial(Placement):
    """Parts of a sum."""


_StridedShard = ParallelStyle = ColwiseParallel = RowwiseParallel = SequenceParallel = PrepareModuleInput = Shard
FSDPModule = FullyShardedDataParallel = FSDP = UnshardHandle = DTensor


def _copy_to_script_wrapper(fn: Callable) -> Callable:
    """The function itself."""
    return fn


# ------------------------------------------------------------------------------------------------ torch.distributed
class JoinHook:
    """What a rank does while others still have batches."""

    def main_hook(self) -> None:
        """Nothing."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Nothing."""


class Joinable:
    """A model that can wait for ranks with more batches; abstract."""


class Join(contextlib.ExitStack):
    """`with Join([model]):` ranks with fewer batches wait at the next collective; nothing is to be done."""

    def __init__(self, joinables: Any, enable: bool = True, **options: Any) -> None:
        super().__init__()

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Nothing."""


def wait_tensor(tensor: Any) -> Any:
    """The tensor, which is there."""
    return tensor


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """Nothing changes."""
    yield


# torch._C._functorch: tensors are never wrapped where Python sees them
def is_batchedtensor(tensor: Any) -> bool:
    """False."""
    return False


is_gradtrackingtensor = is_functorch_wrapped_tensor = is_legacy_batchedtensor = is_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """The tensor itself."""
    return tensor


_unwrap_batched = _add_batch_dim = _remove_batch_dim = get_unwrapped
PRINT_OPTS = types.SimpleNamespace(precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None)


def _tensor_str(self: Any, indent: int = 0) -> str:
    """The values as they are printed."""
    return repr(self)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool = False) -> str:
    return tensor_str + ", ".join(["", *suffixes]) + ")"


# ------------------------------------------------------------------------------------------------ torch.hub
np_str_obj_array_pattern = re.compile(r"[SaUO]")  # element types that a batch leaves as they are
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
MAP_LOCATION = Any
_collate_fn_t = Callable[[list[Any]], Any]
_names = (_IncompatibleKeys,)


# ------------------------------------------------------------------------------------------------ torch.__config__
def show() -> str:
    """What this is, in a line."""
    return f"Weft {weft.__version__} in place of PyTorch: BLAS_INFO=weft, USE_CUDA=OFF, USE_MPI=OFF"


def parallel_info() -> str:
    """How many threads compute."""
    return f"Weft: {weft.get_num_threads()} threads"
