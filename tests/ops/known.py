"""Where Weft departs from PyTorch on purpose, or where a check does not apply, each with its reason."""

# (operation, layout | dtype) or (operation, dtype, layout): results differ by design.
DEPARTURES: dict[tuple[str, ...], str] = {
    ("view_as_complex", "float16"): "there is no complex32",
    **{
        (f"special.bessel_{name}", "float64"): "PyTorch's is accurate to 1e-6, ours to 1e-15: tests/ops/test_special.py"
        for name in ("j0", "j1", "y0", "y1")
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
    "nextafter": "bfloat16 is computed on bit patterns in C order",
}

# Differentiable in PyTorch's sense, but finite differences do not apply (random, or gradient 0 by definition).
NO_FORWARD_CHECK: dict[str, str] = {}

# Second derivatives that PyTorch has not either.
NO_SECOND: dict[str, str] = {}

# Data-dependent sizes, or nothing to batch over.
NO_VMAP: dict[str, str] = {}
