"""Where Weft departs from PyTorch on purpose, or where a check does not apply, each with its reason."""

# (operation, layout | dtype) or (operation, dtype, layout): results differ by design.
DEPARTURES: dict[tuple[str, ...], str] = {
    ("view_as_complex", "float16"): "there is no complex32",
    ("view_as_complex_copy", "float16"): "there is no complex32",
    ("complex", "float16"): "there is no complex32",
    **{
        (name, "empty"): "NumPy's empty arrays have no strides that could be wrong"
        for name in ("view_as_complex", "view_as_complex_copy")
    },
    **{
        (f"special.bessel_{name}", "float64"): "PyTorch's is accurate to 1e-6, ours to 1e-15: tests/ops/test_special.py"
        for name in ("j0", "j1", "y0", "y1")
    },
    **{
        (name, dtype, "empty"): "PyTorch looks at the type only when there is something to compute, Weft always"
        for name in (
            *("det lu lu_solve linalg.cond linalg.det linalg.ldl_factor linalg.ldl_factor_ex linalg.lu".split()),
            *("linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_rank linalg.solve".split()),
            *("linalg.solve_ex linalg.svdvals".split()),
        )
        for dtype in ("float16", "bfloat16", "int64", "int32", "uint8", "bool")
    },
    **{
        (name, "empty"): "PyTorch's transform library refuses an empty batch"
        for name in "fft ifft rfft irfft hfft ihfft".split()
        for name in (f"fft.{name}", f"fft.{name}2", f"fft.{name}n")
    },
    ("stft", "empty"): "PyTorch's padding refuses an empty batch",
    ("istft", "float16"): "PyTorch adds the squares of the window in float16",
    ("kron", "transposed"): "PyTorch fails to reshape its own intermediate result",
    **{
        (name, dtype): "PyTorch computes in 16 bits and overflows"
        for name in ("linalg.matrix_exp", "matrix_exp")
        for dtype in ("float16", "bfloat16")
    },
    **{
        (name, "float64"): "PyTorch's trigamma is accurate to 1e-9, ours to 1e-15: tests/ops/test_special.py"
        for name in ("polygamma", "special.polygamma")
    },
}

# Operations whose rounding may differ from PyTorch's by more than a few units in the last place.
LOOSE: dict[str, float] = {}

# Public results whose strides PyTorch does not promise.
STRIDES_NOT_PROMISED: dict[str, str] = {
    "pow": "a number to the power of a tensor: PyTorch makes the result contiguous, Weft keeps the layout",
    "nextafter": "bfloat16 is computed on bit patterns in C order",
}

# Differentiable in PyTorch's sense, but finite differences do not apply (random, or gradient 0 by definition).
NO_FORWARD_CHECK: dict[str, str] = {}

# Second derivatives that PyTorch has not either.
NO_SECOND: dict[str, str] = {}

# Data-dependent sizes, or nothing to batch over.
NO_VMAP: dict[str, str] = {}
