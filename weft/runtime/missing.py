"""What is said of a name that is not there: why Weft lacks what PyTorch has, where else it is, what may be meant.

Read only when such an error is shown, so that `hasattr` stays cheap.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from types import ModuleType
from typing import NamedTuple

__all__ = ["explained"]

PACKAGE = __name__.partition(".")[0]
# Where else a name is looked for, those first that are meant most often.
ELSEWHERE = (
    *("", "nn", "nn.functional", "optim", "optim.lr_scheduler", "data", "linalg", "special", "fft", "distributions"),
    *("amp", "train", "metrics", "inspect", "autograd", "io", "models", "models.supervised", "nn.init", "nn.utils"),
)


class Gap(NamedTuple):
    """Names of PyTorch's (a star stands for any letters), why they are not here, and what to use."""

    names: str
    reason: str
    instead: str  # Weft's names stand in backquotes, without the package

    @property
    def advice(self) -> str:
        """What to use, with full names."""
        return re.sub(r"`([\w.]+)`", rf"`{PACKAGE}.\1`", self.instead)


GAPS = (
    Gap(
        """quantize_* dequantize q_* qint* quint* qscheme int_repr per_channel_* per_tensor_* fake_quantize_* fbgemm_*
        choose_qparams_optimized empty_quantized fused_moving_avg_obs_fake_quant quantized_* quantization ao
        nn.quantized nn.quantizable nn.qat nn.intrinsic nn.quantized_dynamic QInt*Storage QUInt*Storage""",
        "Weft has no quantised integers",
        "`bfloat16` halves memory; `train.Trainer` takes precision='bf16-mixed'",
    ),
    Gap(
        "fx.* export export.*",
        "models are not taken apart into graphs that Python edits",
        "forward hooks for features, `onnx.export` for a graph in a file, `compile` with .graph(…) to look at one",
    ),
    Gap(
        """jit fx export package cpp contrib nativert numa classes ScriptModule ScriptMethod ScriptFunction
        ScriptClass* ScriptDict* ScriptList* ScriptObject* ScriptModuleSerializer CompilationUnit LiteScriptModule
        StaticModule ConcreteModuleType* ErrorReport JITException import_ir_module* parse_ir parse_schema
        parse_type_comment merge_type_from_type_comment unify_type_list *Type TracingState Graph Node Block Value
        Use Code Argument* AliasDb Gradient ExecutionPlan GraphExecutorState FunctionSchema CompleteArgumentSpec
        CallStack FileCheck OperatorInfo Capsule AnyType BenchmarkConfig BenchmarkExecutionStats ThroughputBenchmark
        DeepCopyMemoTable BufferDict LockingLogger LoggerBase NoopLogger AggregationType AVG SUM library overrides
        DisableTorchFunction* DispatchKey* ExcludeDispatchKeyGuard Tag PRIVATE_OPS typename testing.FileCheck""",
        "there is no TorchScript, no export of graphs and no operator dispatcher",
        "`compile` turns any function of tensors into machine code; `torch.run` takes programs that script or trace",
    ),
    Gap(
        """cuda.* mps xpu mtia cpu accelerator AcceleratorError OutOfMemoryError Stream Event get_device_module
        is_vulkan_available cudnn_* miopen_* mkldnn_* batch_norm_backward_* batch_norm_elemt batch_norm_gather_*
        batch_norm_stats batch_norm_update_stats nn.attention.*""",
        "Weft computes on the CPU",
        "`device`('cpu') is the one device; `set_num_threads` says how many cores work",
    ),
    Gap(
        "autocast_* GradScaler set_autocast_* get_autocast_* is_autocast_* clear_autocast_cache",
        "mixed precision has a package of its own",
        "`amp.autocast` and `amp.GradScaler`; `train.Trainer` takes precision='bf16-mixed' or '16-mixed'",
    ),
    Gap(
        """multiprocessing futures Future fork wait is_distributed init_num_threads
        prepare_multiprocessing_environment get_num_interop_threads set_num_interop_threads""",
        "a process of Weft uses all of its threads",
        "`set_num_threads` for threads, `distributed` for processes that train together, `data.DataLoader` with num_workers for processes that load",
    ),
    Gap(
        """int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7 bit bits* float8_* float4_*
        nn.functional.scaled_* nn.functional.grouped_mm nn.functional.ScalingType nn.functional.SwizzleType""",
        "NumPy has no such element type",
        "`int8` and `bfloat16` are the smallest",
    ),
    Gap("complex32 chalf", "NumPy has no half-precision complex numbers", "`complex64`"),
    Gap(
        """sparse_bsc* sparse_bsr* sparse_csc* sparse_compressed_tensor ccol_indices* row_indices_copy hspmm hsmm smm
        sspaddmm saddmm resize_as_sparse_ sparse.spdiags sparse.spsolve sparse.*SemiStructured*
        sparse.to_sparse_semi_structured sparse.as_sparse_gradcheck sparse.check_sparse_tensor_invariants
        sparse.sampled_addmm sparse.*Tensor""",
        "sparse matrices are CSR or COO",
        "`sparse_csr_tensor`, `sparse_coo_tensor` and `sparse.mm`; `sparse.from_scipy` takes SciPy's",
    ),
    Gap(
        "indices_copy values_copy crow_indices_copy col_indices_copy",
        "dense tensors have no pattern of places",
        "`Tensor.to_sparse` makes a sparse matrix, which has these methods",
    ),
    Gap("eig", "PyTorch has removed it", "`linalg.eig`"),
    Gap("symeig", "PyTorch has removed it", "`linalg.eigh`"),
    Gap("lstsq", "PyTorch has removed it", "`linalg.lstsq`"),
    Gap("solve", "PyTorch has removed it", "`linalg.solve`"),
    Gap("matrix_rank", "PyTorch has removed it", "`linalg.matrix_rank`"),
    Gap("lobpcg", "there is no iterative solver for eigenvalues", "`linalg.eigh` finds all of them"),
    Gap("nuclear_norm frobenius_norm native_norm", "these are ATen's inner functions", "`linalg.matrix_norm`"),
    Gap("norm_except_dim", "this is one of ATen's inner functions", "`linalg.vector_norm`"),
    Gap("range", "PyTorch is about to remove it: its end is included", "`arange`"),
    Gap("set_default_tensor_type", "PyTorch is about to remove it", "`set_default_dtype` and `set_default_device`"),
    Gap(
        "testing.assert_allclose testing.make_tensor",
        "PyTorch keeps it for its own tests",
        "`testing.assert_close`; `randn` or `randint` make the tensors",
    ),
    Gap(
        """sym_* SymInt* SymFloat SymBool* Sym* func.functionalize func.debug_unwrap func.rearrange
        func.replace_all_batch_norm_modules_""",
        "sizes are plain integers: a plan is made for each signature",
        "`compile` traces again when sizes change",
    ),
    Gap(
        "*Storage StorageBase is_storage TypedStorage UntypedStorage",
        "memory has no class of its own for each element type",
        "`Tensor.untyped_storage`",
    ),
    Gap(
        """serialization PyTorchFileReader PyTorchFileWriter DeserializationStorageContext IODescriptor
        SerializationStorageContext from_file get_file_path hub""",
        "files are safetensors, never code",
        "`save` and `load`; `io.load_torch` reads PyTorch's files, `data.MappedArray` those larger than memory",
    ),
    Gap(
        "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
        "these are ATen's inner functions",
        "`nn.GRU`, `nn.LSTM`, `nn.RNN` and their cells",
    ),
    Gap(
        "convolution conv_tbc nn.utils.convert_conv*",
        "this is one of ATen's inner functions",
        "`conv1d`, `conv2d`, `conv3d`",
    ),
    Gap(
        "dropout_ alpha_dropout_ feature_dropout feature_dropout_ feature_alpha_dropout_",
        "this is one of ATen's inner functions",
        "`nn.functional.dropout` with inplace=True, `nn.functional.dropout1d` and its kin for whole channels",
    ),
    Gap("max_pool1d_with_indices", "this is one of ATen's inner functions", "`nn.functional.max_pool1d`"),
    Gap("native_channel_shuffle", "this is one of ATen's inner functions", "`channel_shuffle`"),
    Gap("embedding_renorm_", "this is one of ATen's inner functions", "`nn.functional.embedding` with max_norm"),
    Gap(
        "slice_copy slice_inverse",
        "this is one of ATen's inner functions",
        "indexing, as in x[2:5], and `vmap` do the same",
    ),
    Gap(
        "segment_reduce", "there is no reduction over ragged rows", "`Tensor.scatter_reduce` with the number of the row"
    ),
    Gap("nested jagged", "tensors are never ragged", "`nn.utils.rnn.pad_sequence`"),
    Gap(
        "masked.masked_tensor masked.as_masked_tensor masked.is_masked_tensor masked.MaskedTensor",
        "tensors carry no mask",
        "`masked.sum` and its kin take mask=",
    ),
    Gap(
        "monitor",
        "nothing is counted all the time",
        "`profiler.profile` listens when it is asked; a function made by `compile` has .explain(…), with times",
    ),
    Gap(
        "hash_tensor",
        "Weft has no use for it",
        "`Tensor.numpy` shows the memory of a tensor",
    ),
    Gap("channels_last_3d legacy_contiguous_format memory_format layout", "layouts are plain words", "`channels_last`"),
    Gap("quasirandom", "there are no low-discrepancy sequences", "`rand`; SciPy has scipy.stats.qmc.Sobol"),
    Gap("set_flush_denormal", "numbers below the smallest normal one are kept, as NumPy does", "`where`"),
    Gap(
        """set_deterministic_debug_mode get_deterministic_debug_mode is_deterministic_algorithms_warn_only_enabled
        set_warn_always is_warn_always_enabled is_anomaly_check_nan_enabled set_anomaly_enabled
        thread_safe_generator""",
        "results never depend on threads or on the order of work",
        "`manual_seed` and `autograd.detect_anomaly` are all there is to set",
    ),
    Gap("has_lapack has_mkl has_openmp has_spectral compiled_with_cxx11_abi", "nothing is compiled in", "`backends`"),
    Gap("nn.CrossMapLRN2d", "it is the older form of another layer", "`nn.LocalResponseNorm`"),
    Gap("nn.Container", "PyTorch is about to remove it", "`nn.Sequential`, `nn.ModuleList` or `nn.Module`"),
    Gap("nn.LinearCrossEntropy*", "the two are layers of their own", "`nn.Linear`, then `nn.CrossEntropyLoss`"),
    Gap("nn.grad nn.common_types nn.factory_kwargs", "layers have no such package", "`nn` itself holds them"),
    Gap(
        "optim.swap_in_optimizer_params_and_state",
        "no parameter changes its place",
        "`optim.Optimizer.load_state_dict`",
    ),
    Gap(
        """utils.data.*DataPipe utils.data.DataChunk utils.data.functional_datapipe utils.data.*_validation*
        utils.data.*determinis* data.*DataPipe""",
        "PyTorch has given data pipes up",
        "`data.IterableDataset` and `data.DataLoader`",
    ),
    Gap(
        "utils.cpp_extension utils.cpp_extension.* ops.load_library",
        "nothing is compiled from C++ or CUDA",
        "`compile` makes native code of tensor operations; `autograd.Function` or torch.library.custom_op take NumPy",
    ),
    Gap(
        "distributed.rpc* distributed.pipelining* distributed.tensor* distributed.checkpoint* distributed.algorithms*",
        "ranks share batches (ddp) and parameters (ZeRO), nothing else",
        "`nn.parallel.DistributedDataParallel`, `nn.parallel.fully_shard`; `train.Trainer` writes checkpoints that any number of ranks reads",
    ),
    Gap(
        "utils.flop_counter* utils.collect_env utils.bottleneck",
        "this part of PyTorch's tools is not here",
        "`inspect.summary` counts operations; `profiler.profile` has times; the command weft info tells of the machine",
    ),
    Gap(
        """utils.tensorboard utils.benchmark utils.ThroughputBenchmark utils.mobile_optimizer
        utils.model_zoo utils.dlpack utils.swap_tensors utils.set_module utils.cmake_prefix_path utils.*privateuse1*
        utils.get_cpp_backtrace""",
        "this part of PyTorch's tools is not here",
        "`train.tensorboard.SummaryWriter` writes event files; `train.Trainer` keeps curves and tables of every run; `from_dlpack` and `to_dlpack` exchange memory",
    ),
    Gap("torch_version version", "the version is a plain string", "`__version__`"),
    Gap(
        "return_types",
        "results with several parts are plain named tuples",
        "`Tensor.max` and its kin have fields, as in x.max(0).values",
    ),
)


def explained(owner: str, name: str) -> str:
    """The text of the error for a name that the module `owner` ('weft.nn') does not have."""
    start = f"module {owner!r} has no attribute {name!r}"
    if name.startswith("_"):
        return start
    other = _found_elsewhere(owner, name)
    if other:
        return f"{start}; it is {other}"
    gap = known_gap(owner, name)
    if gap is not None:
        return f"{start}: {gap.reason}; instead: {gap.advice}"
    near = _close(name, (known for known in dir(sys.modules[owner]) if not known.startswith("_")))
    return f"{start}; did you mean {' or '.join(f'`{other}`' for other in near)}?" if near else start


def known_gap(owner: str, name: str) -> Gap | None:
    """The row of the table for a name of PyTorch's."""
    full = f"{owner}.{name}".removeprefix(PACKAGE + ".")
    return next((gap for gap in GAPS if any(fnmatchcase(full, pattern) for pattern in gap.names.split())), None)


def _found_elsewhere(owner: str, name: str) -> str:
    """The full name under which another part of Weft has it, or ''."""
    for space in ELSEWHERE:
        module = _module(space)
        if module is not None and module.__name__ != owner and name in dir(module):
            return f"{module.__name__}.{name}"
    return ""


def _module(space: str) -> ModuleType | None:
    """A package, or one of the modules that are made of registered operations."""
    full = f"{PACKAGE}.{space}" if space else PACKAGE
    if full not in sys.modules:
        try:
            importlib.import_module(full)
        except ImportError:  # an extra that is not installed
            return None
    return sys.modules[full]


def _close(name: str, names: Iterable[str]) -> list[str]:
    """At most two names that are nearly the same, capitals apart; of `tensor` and `Tensor` the one of its case."""
    plain: dict[str, str] = {}
    for known in sorted(names, key=lambda known: known[0].isupper() != name[0].isupper()):
        plain.setdefault(known.lower(), known)
    found = difflib.get_close_matches(name.lower(), plain, n=2, cutoff=0.75)
    return [plain[key] for key in found]
