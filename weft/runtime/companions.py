"""Libraries that work on anybody's tensors once they are told how: einops.

einops asks its backends whether a tensor is theirs. Weft's is added when einops is imported, before or after Weft, and
neither imports the other.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

__all__ = ["introduce"]

EINOPS = "einops._backends"


def introduce() -> None:
    """Add Weft to the backends of einops, now or as soon as it is imported."""
    if EINOPS in sys.modules:
        _add_backend(sys.modules[EINOPS])
    else:
        sys.meta_path.insert(0, _Watcher())


class _Watcher(importlib.abc.MetaPathFinder):
    """Waits for one module; it is gone when that has come."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != EINOPS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader)
        return spec


class _Then(importlib.abc.Loader):
    """Loads a module as another loader does, then adds the backend."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _add_backend(module)


def _add_backend(backends: Any) -> None:
    class WeftBackend(backends.AbstractBackend):
        """Weft's tensors for einops; `layers` are those of `einops.layers`, which are PyTorch's, under `weft run`."""

        framework_name = "weft"

        def __init__(self) -> None:
            self.weft = sys.modules["weft"]

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, self.weft.Tensor)

        def from_numpy(self, x: Any) -> Any:
            return self.weft.from_numpy(x)

        def to_numpy(self, x: Any) -> Any:
            return x.detach().numpy()

        def arange(self, start: int, stop: int) -> Any:
            return self.weft.arange(start, stop, dtype=self.weft.int64)

        def reduce(self, x: Any, operation: str, axes: Any) -> Any:
            if operation in ("min", "max"):
                return getattr(x, f"a{operation}")(dim=tuple(axes))
            if operation == "prod":
                for axis in sorted(axes, reverse=True):
                    x = x.prod(dim=axis)
                return x
            return getattr(x, operation)(dim=tuple(axes))

        def transpose(self, x: Any, axes: Any) -> Any:
            return x.permute(*axes)

        def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
            return self.weft.stack(tensors)

        def add_axis(self, x: Any, new_position: int) -> Any:
            return x.unsqueeze(new_position)

        def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
            sizes = [-1] * n_axes
            for position in sorted(pos2len):
                x = x.unsqueeze(position)
                sizes[position] = pos2len[position]
            return x.expand(*sizes)

        def tile(self, x: Any, repeats: Any) -> Any:
            return x.repeat(*repeats)

        def concat(self, tensors: Any, axis: int) -> Any:
            return self.weft.cat(list(tensors), dim=axis)

        def is_float_type(self, x: Any) -> bool:
            return x.is_floating_point()

        def einsum(self, pattern: str, *x: Any) -> Any:
            return self.weft.einsum(pattern, *x)

    backends._weft_backend = WeftBackend  # einops finds it among the subclasses, which are held weakly
