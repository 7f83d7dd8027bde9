"""Where Weft departs from PyTorch on purpose, or where a check does not apply, each with its reason."""

# (operation, layout | dtype) or (operation, dtype, layout): results differ by design.
DEPARTURES: dict[tuple[str, ...], str] = {}

# Operations whose rounding may differ from PyTorch's by more than a few units in the last place.
LOOSE: dict[str, float] = {}

# Public results whose strides PyTorch does not promise.
STRIDES_NOT_PROMISED: dict[str, str] = {}

# Differentiable in PyTorch's sense, but finite differences do not apply (random, or gradient 0 by definition).
NO_FORWARD_CHECK: dict[str, str] = {}

# Second derivatives that PyTorch has not either.
NO_SECOND: dict[str, str] = {}

# Data-dependent sizes, or nothing to batch over.
NO_VMAP: dict[str, str] = {}
