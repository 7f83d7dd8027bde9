"""Pruning by masks: a parameter `weight` becomes `weight_orig` times the buffer `weight_mask`, before every forward.

A method decides the mask: of single numbers (unstructured) or of whole slices along a dimension (structured). Pruning
again keeps what is pruned; `remove` makes it permanent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import weft

from ...errors import InvalidValueError, OptionError
from ...tape.modes import no_grad
from ...tensor import Tensor
from ..module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod:
    """A rule for masks: override `compute_mask(t, default_mask)`, where the default mask holds what is pruned already.

    PRUNING_TYPE: 'unstructured', 'structured' or 'global'
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """1 where a number stays, 0 where it goes."""
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The original times the mask."""
        name = self._tensor_name
        original = getattr(module, f"{name}_orig")
        return getattr(module, f"{name}_mask").to(original.dtype) * original

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """`t` times the mask that this rule gives it."""
        mask = weft.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune the parameter `name` of a module by this rule, made with the other arguments."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _method_of(module, name)
        current = getattr(module, name)
        if before is None:
            original = current
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
            mask = weft.ones_like(original)
        else:
            original, mask = getattr(module, f"{name}_orig"), getattr(module, f"{name}_mask")
            _drop_hook(module, before)
        scores = (original if importance_scores is None else importance_scores).detach()
        with no_grad():
            mask = method.compute_mask(scores, mask.clone())
        module.register_buffer(f"{name}_mask", mask.to(original.dtype))
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: the parameter is a parameter again, with zeros."""
        name = self._tensor_name
        pruned = self.apply_mask(module).detach()
        original = module._parameters.pop(f"{name}_orig")
        delattr(module, name)
        del module._buffers[f"{name}_mask"]
        original.data = pruned
        module.register_parameter(name, original)


def _method_of(module: Module, name: str) -> Any:
    found = (hook for hook, _ in module._forward_pre_hooks.values() if isinstance(hook, BasePruningMethod))
    return next((method for method in found if method._tensor_name == name), None)


def _drop_hook(module: Module, method: BasePruningMethod) -> None:
    table = module._forward_pre_hooks
    for key in [key for key, (hook, _) in table.items() if hook is method]:
        del table[key]


def _count(amount: float, size: int) -> int:
    """How many of `size`: a fraction, or a number."""
    if isinstance(amount, bool) or amount < 0 or (isinstance(amount, float) and amount > 1):
        raise InvalidValueError(f"prune: amount={amount} must be a fraction in [0, 1] or a number of at least 0")
    if isinstance(amount, int) and amount > size:
        raise InvalidValueError(f"prune: amount={amount} is more than the {size} there are")
    return amount if isinstance(amount, int) else round(amount * size)


class Identity(BasePruningMethod):
    """Prunes nothing: only the names change."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Amount(BasePruningMethod):
    def __init__(self, amount: float, *args: Any, **kwargs: Any) -> None:
        self.amount = amount

    def pruned(self, mask: Tensor, order: Tensor) -> Tensor:
        """Of the numbers that are left, those go that come first in `order` (small first)."""
        flat = mask.flatten().clone()
        left = flat.nonzero().flatten()
        count = _count(self.amount, left.numel())
        if count:
            flat[left[order.flatten()[left].topk(count, largest=False).indices]] = 0
        return flat.view(mask.shape)


class RandomUnstructured(_Amount):
    """Prunes numbers at random."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self.pruned(default_mask, weft.rand(t.shape))


class L1Unstructured(_Amount):
    """Prunes the numbers of least absolute value."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self.pruned(default_mask, t.abs())


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any = 2, dim: int = -1) -> None:
        self.amount, self.n, self.dim = amount, n, dim

    def scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        """The importance of each slice."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        dim = self.dim % t.ndim
        others = tuple(i for i in range(t.ndim) if i != dim)
        alive = default_mask.sum(others) > 0
        scores = self.scores(t, others)[alive]
        keep = alive.to(default_mask.dtype)
        count = _count(self.amount, scores.numel())
        if count:
            keep[alive.nonzero().flatten()[scores.topk(count, largest=False).indices]] = 0
        return default_mask * keep.view([-1 if i == dim else 1 for i in range(t.ndim)])


class LnStructured(_Structured):
    """Prunes the slices along `dim` of least n-norm."""

    def scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return weft.norm(t, p=self.n, dim=others)


class RandomStructured(_Structured):
    """Prunes slices along `dim` at random."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount, dim=dim)

    def scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return weft.rand(t.shape[self.dim])


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Rename the parameter as pruning does, and prune nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune `amount` (a fraction or a number) of the numbers of a parameter at random."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the `amount` of numbers of least absolute value (or least score)."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the `amount` of slices along `dim` of least n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune the `amount` of slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune where `mask` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Any = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one."""
    pairs = list(parameters)
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise OptionError("global_unstructured: only unstructured methods can look over several parameters")
    given = importance_scores or {}
    tensors = [given.get(pair, getattr(*pair)).detach() for pair in pairs]
    masks = [
        getattr(module, f"{name}_mask", weft.ones_like(t)) for (module, name), t in zip(pairs, tensors, strict=True)
    ]
    flat, mask = (weft.cat([t.flatten() for t in ts]) for ts in (tensors, masks))
    mask = pruning_method(**kwargs).compute_mask(flat, mask)
    for (module, name), part, t in zip(pairs, mask.split([t.numel() for t in tensors]), tensors, strict=True):
        custom_from_mask(module, name, part.view(t.shape))


def remove(module: Module, name: str) -> Module:
    """Make the pruning of a parameter permanent."""
    method = _method_of(module, name)
    if method is None:
        raise InvalidValueError(f"remove: parameter {name!r} of {type(module).__name__} is not pruned")
    method.remove(module)
    _drop_hook(module, method)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a part of a module is pruned by one of these methods."""
    hooks = (hook for part in module.modules() for hook, _ in part._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)
