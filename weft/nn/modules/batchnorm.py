"""Normalisation with running statistics: batch normalisation, instance normalisation, and their lazy forms."""

from __future__ import annotations

import warnings
from typing import Any

import weft

from ...errors import ShapeError
from ...tape.interpreter import interpreter_of
from ...tensor import Tensor
from .. import functional as F
from ..lazy import LazyModuleMixin
from ..module import Module
from ..parameter import UninitializedBuffer, UninitializedParameter
from .norm import Scaled

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "SyncBatchNorm",
]


class RunningNorm(Scaled):
    """A normalisation for each channel, with running mean and variance in buffers.

    num_features: C, the number of channels
    momentum: how fast the running statistics follow, r ← (1 − momentum) r + momentum · new
    affine: whether there is a weight (and a bias), one number for each channel
    track_running_stats: whether there are running statistics, which evaluation then uses
    bias: whether there is a bias beside the weight
    """

    _version = 2
    ranks: tuple[int, ...] = ()  # numbers of dimensions that are taken; empty: any from 2 on

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        buffers = dict.fromkeys(("running_mean", "running_var", "num_batches_tracked"))
        if track_running_stats:
            buffers["running_mean"] = weft.zeros(num_features, device=device, dtype=dtype)
            buffers["running_var"] = weft.ones(num_features, device=device, dtype=dtype)
            buffers["num_batches_tracked"] = weft.tensor(0, dtype=weft.int64)
        for name, value in buffers.items():
            self.register_buffer(name, value)
        self._make_affine(num_features, affine, affine and bias, device, dtype)

    def reset_running_stats(self) -> None:
        """Forget every batch: mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            taken = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ShapeError(f"expected {taken} input (got {input.ndim}D input)")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        """State dicts of version 1 did not count batches: the count then stays what it is."""
        version, key = local_metadata.get("version"), prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(RunningNorm):
    """Batch normalisation of any rank: the statistics are those of one channel over the whole batch.

    momentum: how fast the running statistics follow, r ← (1 − momentum) r + momentum · new; None: the average of all batches
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        counting = self.training and self.track_running_stats
        factor = self._counted() if counting else self.momentum or 0.0
        from_batch = self.training or self.running_mean is None
        mean, variance = (self.running_mean, self.running_var) if counting or not self.training else (None, None)
        return F.batch_norm(input, mean, variance, self.weight, self.bias, from_batch, factor, self.eps)

    def _counted(self) -> Any:
        """Count a batch; how far the running statistics go towards it: momentum, or 1/n for an average over all."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.momentum is None:
            count = self.num_batches_tracked
            return 1.0 / (float(count) if interpreter_of(count) is None else count.double())
        return self.momentum


class BatchNorm1d(BatchNorm):
    """y = (x − μ) / √(σ² + ε) · weight + bias, with μ and σ² of each channel over the batch (N2 §3.7.4).

    In training the running statistics follow those of the batches; in evaluation they are used.
    Shape: (N, C) or (N, C, L) → the same

    >>> layer = nn.BatchNorm1d(2)
    >>> layer(weft.tensor([[0.0, 5.0], [2.0, 9.0]])).round(decimals=3).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    >>> layer.running_mean
    tensor([0.1000, 0.7000])
    """

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm1d` for images. Shape: (N, C, H, W) → the same.

    >>> nn.BatchNorm2d(3)(weft.randn(8, 3, 5, 5)).shape
    weft.Size([8, 3, 5, 5])
    """

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm1d` for volumes. Shape: (N, C, D, H, W) → the same.

    >>> nn.BatchNorm3d(3)(weft.randn(8, 3, 2, 5, 5)).shape
    weft.Size([8, 3, 2, 5, 5])
    """

    ranks = (5,)


class SyncBatchNorm(BatchNorm):
    """Batch normalisation over the parts of a batch that all ranks have; alone it is `BatchNorm` of any rank. Shape: (N, C, *).

    Means m_r and mean squares about them v_r of n_r elements on rank r are put together, with n = Σ n_r:
    μ = Σ n_r m_r / n,  σ² = Σ n_r (v_r + (m_r − μ)²) / n; gradients pass through the exchange. Parts may differ in size.
    process_group: the ranks; all of them by default

    >>> nn.SyncBatchNorm(3)(weft.randn(8, 3, 4)).shape
    weft.Size([8, 3, 4])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ShapeError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        group = self._group() if self.training else None
        if group is None or group.size == 1:
            return super().forward(input)
        self._check_input_dim(input)
        mean, variance, count = joined_statistics(input, group)  # (C,), (C,), the number of elements of all ranks
        if self.track_running_stats:
            factor = self._counted()
            with weft.no_grad():
                unbiased = variance.detach() * (count / (count - 1).clamp(min=1))
                for running, new in ((self.running_mean, mean.detach()), (self.running_var, unbiased)):
                    running.copy_(running * (1 - factor) + factor * new.to(running.dtype))
        return F.batch_norm(input, mean, variance, self.weight, self.bias, False, 0.0, self.eps)

    def _group(self) -> Any:
        from ...distributed.groups import is_initialized, require_group

        return require_group(self.process_group, "SyncBatchNorm") if is_initialized() else None

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch normalisation in it replaced; parameters and buffers are the same objects."""
        out = module
        if isinstance(module, BatchNorm):
            options = (module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            out = cls(module.num_features, *options, bias=module.bias is not None)
            out._parameters.update(module._parameters)
            out._buffers.update(module._buffers)
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


def joined_statistics(input: Tensor, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel over the parts of all ranks, and how many elements a channel has."""
    from ...ops.collective.exchange import exchanged

    input = input if input.element_size() > 2 else input.float()
    dims = [d for d in range(input.ndim) if d != 1]
    channels, count = input.shape[1], input.numel() // max(input.shape[1], 1)
    mean = input.mean(dims) if count else input.sum(dims)  # (C,); an empty part has weight 0
    around = (input - mean.reshape(1, channels, *[1] * (input.ndim - 2))).square()
    spread = around.mean(dims) if count else around.sum(dims)
    share = mean.detach().new_full((1,), count)
    rows = exchanged(weft.cat([mean, spread, share]), "all_gather", group)  # (ranks, 2 C + 1)
    counts = rows[:, 2 * channels :].detach()  # (ranks, 1)
    total = counts.sum()
    weights, means, spreads = counts / total, rows[:, :channels], rows[:, channels : 2 * channels]
    mean = (weights * means).sum(0)
    return mean, (weights * (spreads + (means - mean).square())).sum(0), total


class InstanceNorm(RunningNorm):
    """Instance normalisation: the statistics are those of one channel of one example."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.ndim == self.ranks[0]
        self._check_features(input, 0 if unbatched else 1)
        y = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return y.squeeze(0) if unbatched else y

    def _check_features(self, input: Tensor, dim: int) -> None:
        found = input.shape[dim]
        if found == self.num_features:
            return
        if self.affine:
            raise ShapeError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), got: {found}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features; since affine=False, num_features is not used",
            stacklevel=4,
        )


class InstanceNorm1d(InstanceNorm):
    """y = (x − μ) / √(σ² + ε) · weight + bias, μ and σ² of each channel of each example.

    With track_running_stats the averages over the examples are kept, and used in evaluation.
    Shape: (N, C, L) or (C, L) → the same

    >>> nn.InstanceNorm1d(1)(weft.tensor([[[0.0, 2.0]]])).tolist()
    [[[-0.9999949932098389, 0.9999949932098389]]]
    """

    ranks = (2, 3)


class InstanceNorm2d(InstanceNorm):
    """`InstanceNorm1d` for images. Shape: (N, C, H, W) or (C, H, W) → the same.

    >>> nn.InstanceNorm2d(3)(weft.randn(8, 3, 5, 5)).shape
    weft.Size([8, 3, 5, 5])
    """

    ranks = (3, 4)


class InstanceNorm3d(InstanceNorm):
    """`InstanceNorm1d` for volumes. Shape: (N, C, D, H, W) or (C, D, H, W) → the same.

    >>> nn.InstanceNorm3d(3)(weft.randn(8, 3, 2, 5, 5)).shape
    weft.Size([8, 3, 2, 5, 5])
    """

    ranks = (4, 5)


# ------------------------------------------------------------------------------------------------ lazy


class LazyNorm(LazyModuleMixin):
    """The number of channels is read off the first input; weights, biases and statistics are made then."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = weft.tensor(0, dtype=weft.int64)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for value in (self.weight, self.bias, self.running_mean, self.running_var):
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(LazyNorm, BatchNorm1d):
    """`BatchNorm1d` that reads num_features off its first input.

    >>> nn.LazyBatchNorm1d()(weft.randn(8, 3, 4)).shape
    weft.Size([8, 3, 4])
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(LazyNorm, BatchNorm2d):
    """`BatchNorm2d` that reads num_features off its first input.

    >>> nn.LazyBatchNorm2d()(weft.randn(8, 3, 4, 4)).shape
    weft.Size([8, 3, 4, 4])
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(LazyNorm, BatchNorm3d):
    """`BatchNorm3d` that reads num_features off its first input.

    >>> nn.LazyBatchNorm3d()(weft.randn(8, 3, 4, 4, 4)).shape
    weft.Size([8, 3, 4, 4, 4])
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(LazyNorm, InstanceNorm1d):
    """`InstanceNorm1d` that reads num_features off its first input.

    >>> nn.LazyInstanceNorm1d()(weft.randn(8, 3, 4)).shape
    weft.Size([8, 3, 4])
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(LazyNorm, InstanceNorm2d):
    """`InstanceNorm2d` that reads num_features off its first input.

    >>> nn.LazyInstanceNorm2d()(weft.randn(8, 3, 4, 4)).shape
    weft.Size([8, 3, 4, 4])
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(LazyNorm, InstanceNorm3d):
    """`InstanceNorm3d` that reads num_features off its first input.

    >>> nn.LazyInstanceNorm3d()(weft.randn(8, 3, 4, 4, 4)).shape
    weft.Size([8, 3, 4, 4, 4])
    """

    cls_to_become = InstanceNorm3d
