"""What all optimisers share: parameter groups, state by parameter, hooks, and state on disk in PyTorch's format.

An optimiser states what is its own in two methods: `_start` makes the state of a parameter, `_update` moves
the parameter (and its state) in place, given the gradient.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from typing import Any

import weft

from ..errors import ArgumentError, InvalidValueError, OptionError, StateError, UnsupportedError
from ..ops.core import base
from ..refusal import guard_methods
from ..tape.holders import StateHolder
from ..tape.modes import enable_grad, mode, no_grad, switches
from ..tape.node import Handle
from ..tensor import Tensor

__all__ = ["Optimizer", "required"]

Group = dict[str, Any]
State = dict[str, Any]
# Elements of all parameters from which a step is worth native code. Adam, 2 threads: …
LARGE = {0: 0, sys.maxsize: sys.maxsize}.get(base.LARGE, 100_000)
HOOKS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_pre", "load_post")


class _Required:
    """Stands in `defaults` for an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _hooked(step: Callable) -> Callable:
    """`step` between its hooks; it also tells learning-rate schedulers that a step was made."""

    @functools.wraps(step)
    def with_hooks(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        if "_hooks" not in self.__dict__:  # one that stands for another and never called __init__
            return step(self, *args, **kwargs)
        for hook in list(self._hooks["step_pre"].values()):
            changed = hook(self, (self, *args), kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise StateError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            (_, *args), kwargs = changed
        loss = step(self, *args, **kwargs)
        for hook in list(self._hooks["step_post"].values()):
            hook(self, (self, *args), kwargs)
        return loss

    return with_hooks


class Optimizer(StateHolder):
    """The base of all optimisers.

    After `loss.backward()`, `step()` moves the parameters and `zero_grad()` lets their gradients go. In the formulas of
    optimisers θ is a parameter, g its gradient, t the number of the step, ε the learning rate, δ the small `eps`.

    params: tensors, (name, tensor) pairs, or dicts {'params': …, option: value}, each a group with options of its own
    defaults: the options of groups that do not give them
    lr: ε, the learning rate
    weight_decay: λ; λ θ is added to the gradient, the slope of the penalty λ/2 ‖θ‖²
    eps: δ, which keeps the division finite
    maximize: climb instead of descend
    foreach, fused, capturable: accepted for PyTorch's sake; there is one way to make a step, which compiles as it is
    differentiable: must be False: a step is not recorded; for gradients through a step write θ − ε g as a function

    >>> class Descent(optim.Optimizer):
    ...     @weft.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for parameter in group["params"]:
    ...                 parameter.sub_(group["lr"] * parameter.grad)
    >>> w = weft.ones(2, requires_grad=True)
    >>> optimizer = Descent([w], {"lr": 0.25})
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, 0.75]
    """

    _opt_called: bool  # there once a step was made
    _as_real = True  # complex parameters are updated as pairs of real numbers
    _elementwise = (
        True  # whether elements are updated one by one, so that a part of a parameter is updated as the whole is
    )
    _counters = ("step",)  # numbers in the state that keep their own type when it is loaded
    _refuses_sparse = "{} does not support sparse gradients"  # None for an optimiser that takes them

    @property
    def param_groups(self) -> list[Group]:
        """The groups of parameters, each a dict with its options, which are read anew at every step."""
        if switches.interpreting and mode.interpreter is not None:
            return mode.interpreter.groups_of(self)
        return self.__dict__["param_groups"]

    @param_groups.setter
    def param_groups(self, groups: list[Group]) -> None:
        self.__dict__["param_groups"] = groups

    def _patch_step_function(self) -> None:
        """Nothing to do: steps have hooks since their class was made. Classes that never call `__init__` call this."""

    def _has_own_step(self) -> bool:
        return type(self).step is not Optimizer.step

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.step)
        guard_methods(cls, "__init__", "step")

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise ArgumentError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}"
            )
        if defaults.get("differentiable"):
            raise OptionError(
                f"{type(self).__name__}: differentiable=True is not supported: a step writes in place and is not "
                "recorded; write the update as a function of the gradients, with weft.func.grad and functional_call"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, State] = defaultdict(dict)
        self.param_groups = []
        self._hooks: dict[str, OrderedDict[int, Callable]] = {kind: OrderedDict() for kind in HOOKS}
        groups = list(params)
        if not groups:
            raise InvalidValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    # ------------------------------------------------------------------------------ stepping
    def _start(self, parameter: Tensor, group: Group) -> State:
        """The state of a parameter before its first update."""
        return {}

    def _update(self, parameter: Tensor, gradient: Tensor, state: State, group: Group) -> None:
        """Move a parameter, and its state, in place."""
        raise UnsupportedError(f"{type(self).__name__} defines neither step() nor _update()")

    @_hooked
    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; `closure` computes loss and gradients anew, and its loss
        is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        groups = self.param_groups
        if not self._step_natively(groups):
            for group in groups:
                for parameter in group["params"]:
                    gradient = parameter.grad
                    if gradient is not None:
                        self._update_one(parameter, gradient, group)
        return loss

    def _step_natively(self, groups: list[Group]) -> bool:
        """Let a plan make the step if there is much to do: see compiler/stepping.py. False: it did not."""
        if mode.interpreter is not None:
            return False
        moving = [p for group in groups for p in group["params"] if p._grad is not None]
        if sum(p.array.size for p in moving) < LARGE:
            return False
        from ..compiler.stepping import step_natively

        return step_natively(self, moving)

    def _update_one(self, parameter: Tensor, gradient: Tensor, group: Group) -> None:
        if gradient.is_sparse and self._refuses_sparse:
            raise StateError(self._refuses_sparse.format(type(self).__name__))
        state = self.state.get(parameter)
        if mode.interpreter is not None:
            state = mode.interpreter.optimizer_state(self, parameter, group)
        elif not state:
            state = self._start(parameter, group)
            if state:
                self.state[parameter] = state
        if group.get("maximize"):
            gradient = -gradient
        if self._as_real and parameter.is_complex():
            parameter, gradient, state = _real(parameter), _real(gradient), {k: _real(v) for k, v in state.items()}
        self._update(parameter, gradient, state, group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or (`set_to_none=False`) fill those that are dense with zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none or parameter.grad is None or parameter.grad.is_sparse:
                    parameter.grad = None
                else:
                    parameter.grad = parameter.grad.detach().zero_()

    # ------------------------------------------------------------------------------ groups
    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own, say the layers that a fine-tuning has just unfrozen."""
        if not isinstance(param_group, dict):
            raise ArgumentError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        _unpack_parameters(group)
        for parameter in group["params"]:
            _check_parameter(parameter)
            if not self._elementwise and getattr(parameter, "_cut", None) is not None:
                raise OptionError(
                    f"{type(self).__name__}: looks at whole parameters, but fully_shard has cut these; use "
                    "DistributedDataParallel, or an optimiser that treats elements one by one"
                )
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise InvalidValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            group.setdefault(name, default)
        self._check_against_others(group)
        self.param_groups.append(group)

    def _check_against_others(self, group: Group) -> None:
        identities = [id(p) for p in group["params"]]
        if len(set(identities)) != len(identities):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; they are updated twice in a step",
                stacklevel=4,
            )
        if any(id(p) in identities for other in self.param_groups for p in other["params"]):
            raise InvalidValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            how = "with" if "param_names" in group else "without"
            raise InvalidValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{how} names to the optimizer"
            )

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name not in ("params", "param_names")]
            lines.append("")
        return "\n".join([*lines[:-1], ")"])

    # ------------------------------------------------------------------------------ hooks
    def _register(self, kind: str, hook: Callable, prepend: bool = False) -> Handle:
        handle = Handle(self._hooks[kind], hook)
        if prepend:
            self._hooks[kind].move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs)."""
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Callable) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._register("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; what it returns replaces the dict."""
        return self._register("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` before loading; what it returns replaces the dict."""
        return self._register("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after loading."""
        return self._register("load_post", hook, prepend)

    # ------------------------------------------------------------------------------ state
    def state_dict(self) -> dict[str, Any]:
        """{'state': {number: state}, 'param_groups': […]}: parameters are numbered in the order of the groups."""
        for hook in self._hooks["state_dict_pre"].values():
            hook(self)
        numbers: dict[int, int] = {}
        for parameter in self._parameters():
            numbers.setdefault(id(parameter), len(numbers))
        groups = [
            {k: v for k, v in group.items() if k != "params"} | {"params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        packed = {"state": state, "param_groups": groups}
        for hook in self._hooks["state_dict_post"].values():
            packed = _or(hook(self, packed), packed)
        return packed

    @no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take options and state from a dict of this format; tensors are copied, in the type of their parameter."""
        state_dict = dict(state_dict)
        for hook in self._hooks["load_pre"].values():
            state_dict = _or(hook(self, state_dict), state_dict)
        saved = deepcopy(state_dict["param_groups"])
        _check_same_sizes(self.param_groups, saved)
        owners = dict(zip((n for group in saved for n in group["params"]), self._parameters(), strict=True))
        state: defaultdict[Tensor, State] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            state[owners.get(key, key)] = _loaded(value, owners.get(key), self._counters)
        groups = [_merged(old, new, self.defaults) for old, new in zip(self.param_groups, saved, strict=True)]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._hooks["load_post"].values():
            hook(self)

    def _parameters(self) -> Iterable[Tensor]:
        return (parameter for group in self.param_groups for parameter in group["params"])

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_hooks", {kind: OrderedDict() for kind in HOOKS})


guard_methods(Optimizer, "__init__", "step", "add_param_group")


def _or(replacement: Any, given: Any) -> Any:
    return given if replacement is None else replacement


def _real(value: Any) -> Any:
    """A complex tensor as a real one with a last axis of size 2, over the same memory."""
    return weft.view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


# ------------------------------------------------------------------------------------- groups


def _unpack_parameters(group: Group) -> None:
    """Bring group['params'] into a list of tensors, and names, if there are any, into group['param_names']."""
    params = group["params"]
    if isinstance(params, set):
        raise ArgumentError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    params = [params] if isinstance(params, Tensor) else list(params)
    named = [isinstance(p, tuple) for p in params]
    if any(named) and not all(named):
        raise InvalidValueError("all optimizer params should be with/without names. Some param names are missing")
    if params and all(named):
        group["param_names"] = [name for name, _ in params]
        params = [parameter for _, parameter in params]
    group["params"] = params


def _check_parameter(parameter: Any) -> None:
    if not isinstance(parameter, Tensor):
        raise ArgumentError(f"optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}")
    if not (parameter.is_leaf or parameter.retains_grad):
        raise InvalidValueError("can't optimize a non-leaf Tensor")


# ------------------------------------------------------------------------------------- loading


def _check_same_sizes(groups: list[Group], saved: list[Group]) -> None:
    if len(groups) != len(saved):
        raise InvalidValueError("loaded state dict has a different number of parameter groups")
    if any(len(own["params"]) != len(new["params"]) for own, new in zip(groups, saved, strict=True)):
        raise InvalidValueError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )


def _merged(own: Group, saved: Group, defaults: dict[str, Any]) -> Group:
    """The saved options with our parameters; what the saved group does not know stays as it is."""
    saved["params"] = own["params"]
    if "param_names" in own:
        saved.setdefault("param_names", own["param_names"])
    return saved | {name: own[name] for name in defaults if name not in saved}


def _loaded(value: Any, parameter: Tensor | None, counters: tuple[str, ...], key: Hashable = None) -> Any:
    """A copy of a saved value; tensors take the type of a floating-point parameter, counters keep their own."""
    if isinstance(value, dict):
        return {k: _loaded(v, parameter, counters, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_loaded(v, parameter, counters) for v in value)
    if not isinstance(value, Tensor):
        return weft.from_dlpack(value).clone() if hasattr(value, "__dlpack__") else deepcopy(value)
    if parameter is None or key in counters or not (parameter.is_floating_point() or parameter.is_complex()):
        return value.clone()
    return value.to(parameter.dtype, copy=True)
