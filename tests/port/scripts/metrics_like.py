# A metrics library in small: states that are reset, synced and merged, modules that can be pickled
import functools
import inspect
import pickle
from abc import ABC, abstractmethod
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Callable, Dict, List, Optional, Union

import torch
from torch import Tensor
from torch.nn import Module, ModuleDict

from portable import images, reset


def dim_zero_cat(x: Union[Tensor, List[Tensor]]) -> Tensor:
    x = x if isinstance(x, (list, tuple)) else [x]
    x = [y.unsqueeze(0) if y.numel() == 1 and y.ndim == 0 else y for y in x]
    return torch.cat(x, dim=0)


def apply_to_collection(data: Any, dtype: type, function: Callable, *args: Any) -> Any:
    if isinstance(data, dtype):
        return function(data, *args)
    if isinstance(data, dict):
        return type(data)({k: apply_to_collection(v, dtype, function, *args) for k, v in data.items()})
    if isinstance(data, (list, tuple)):
        return type(data)(apply_to_collection(v, dtype, function, *args) for v in data)
    return data


def jit_distributed_available() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


class Metric(Module, ABC):
    __jit_unused_properties__: List[str] = ["is_differentiable"]
    is_differentiable: Optional[bool] = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        torch._C._log_api_usage_once(f"torchmetrics.metric.{self.__class__.__name__}")
        self._defaults: Dict[str, Union[List, Tensor]] = {}
        self._reductions: Dict[str, Any] = {}
        self._update_signature = inspect.signature(self.update)
        self.update: Callable = self._wrap_update(self.update)
        self._update_count, self._computed, self._to_sync = 0, None, kwargs.pop("sync_on_compute", True)
        self._device = torch.device("cpu")

    def add_state(self, name: str, default: Union[list, Tensor], dist_reduce_fx: Any = None) -> None:
        if not isinstance(default, (Tensor, list)) or (isinstance(default, list) and default):
            raise ValueError("state variable must be a tensor or any empty list (where you can append tensors)")
        if isinstance(default, Tensor):
            default = default.contiguous()
        setattr(self, name, default)
        self._defaults[name] = deepcopy(default)
        self._reductions[name] = {"sum": torch.sum, "cat": dim_zero_cat, None: None}[dist_reduce_fx]

    def _wrap_update(self, update: Callable) -> Callable:
        @functools.wraps(update)
        def wrapped_func(*args: Any, **kwargs: Any) -> None:
            self._computed = None
            self._update_count += 1
            with torch.set_grad_enabled(torch.is_grad_enabled()):
                update(*args, **kwargs)

        return wrapped_func

    @torch.jit.unused
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        cache = {attr: getattr(self, attr) for attr in self._defaults}
        count = self._update_count
        self.reset()
        self.update(*args, **kwargs)
        batch_val = self.compute()
        for name, before in cache.items():
            mine = getattr(self, name)
            setattr(self, name, before + mine)
        self._update_count = count + 1
        return batch_val

    @contextmanager
    def sync_context(self):
        if jit_distributed_available():
            raise RuntimeError("not here")
        yield

    @abstractmethod
    def update(self, *_: Any) -> None: ...

    @abstractmethod
    def compute(self) -> Any: ...

    def reset(self) -> None:
        self._update_count = 0
        for attr, default in self._defaults.items():
            current = getattr(self, attr)
            setattr(self, attr, default.detach().clone().to(current.device) if isinstance(default, Tensor) else [])

    def __getstate__(self) -> Dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ["update", "_update_signature"]}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._update_signature = inspect.signature(self.update)
        self.update: Callable = self._wrap_update(self.update)

    def _apply(self, fn: Callable, exclude_state: Any = "") -> Module:
        this = super()._apply(fn)
        for key in this._defaults:
            this._defaults[key] = apply_to_collection(this._defaults[key], Tensor, fn)
            setattr(this, key, apply_to_collection(getattr(this, key), Tensor, fn))
        return this

    def __hash__(self) -> int:
        return hash((self.__class__.__name__, id(self)))


class Accuracy(Metric):
    correct: Tensor
    total: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("correct", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("total", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        preds = preds.argmax(dim=1) if preds.ndim > target.ndim else preds
        self.correct += (preds == target).sum()
        self.total += target.numel()

    def compute(self) -> Tensor:
        return self.correct.float() / self.total


class ConfusionMatrix(Metric):
    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.add_state("confmat", torch.zeros(num_classes, num_classes, dtype=torch.long), "sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        unique_mapping = target.to(torch.long) * self.num_classes + preds.argmax(1).to(torch.long)
        self.confmat = self.confmat + torch.bincount(unique_mapping, minlength=self.num_classes**2).reshape(self.num_classes, -1)

    def compute(self) -> Tensor:
        return torch.nan_to_num(self.confmat / self.confmat.sum(1, keepdim=True))


class AUROC(Metric):
    def __init__(self) -> None:
        super().__init__()
        self.add_state("scores", [], "cat")
        self.add_state("targets", [], "cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.scores.append(preds.softmax(1)[:, 0].detach())
        self.targets.append(target == 0)

    def compute(self) -> Tensor:
        scores, targets = dim_zero_cat(self.scores), dim_zero_cat(self.targets)
        order = torch.argsort(scores, descending=True, stable=True)
        hits = targets[order]
        tps, fps = hits.cumsum(0), (~hits).cumsum(0)
        return torch.trapezoid(tps / tps[-1], fps / fps[-1])


class MetricCollection(ModuleDict):
    def update(self, *args: Any, **kwargs: Any) -> None:
        if args and isinstance(args[0], dict):
            return super().update(*args)
        for m in self.values():
            m.update(*args)

    def compute(self) -> Dict[str, Any]:
        return {k: m.compute() for k, m in self.items()}


metrics = MetricCollection({"acc": Accuracy(), "confmat": ConfusionMatrix(4), "auroc": AUROC()})
net = reset(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4)))
x, y = images(32, size=8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
history = []
for epoch in range(6):
    for a in range(0, 32, 8):
        logits = net(x[a : a + 8])
        loss = torch.nn.functional.cross_entropy(logits, y[a : a + 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.update(logits, y[a : a + 8])
    found = metrics.compute()
    history += [loss.item(), found["acc"].item(), found["confmat"].diagonal().mean().item(), found["auroc"].item()]
    for m in metrics.values():
        m.reset()
one = Accuracy()
history.append(one(net(x), y).item())
again = pickle.loads(pickle.dumps(one))
again.update(net(x), y)
assert again.total == 64 and one.total == 32 and again.double().total.dtype in (torch.int64, torch.float64)
