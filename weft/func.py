"""Transforms of functions, in the names of `torch.func`: derivatives and batching that compose freely.

`grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`, `jacrev`, `jacfwd`, `hessian`, `hvp`, `vmap` each take a
function of tensors and return another; every one may be applied to the result of any other.
`functional_call` makes a module a function of its parameters.
"""

from .autograd.batched import vmap
from .autograd.stateless import functional_call, stack_module_state
from .autograd.transforms import (
    grad,
    grad_and_value,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from .runtime.lazy import later as _later

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]

__getattr__, __dir__ = _later(__name__)
