"""Softmax over many classes trained on a few of them: sampled softmax, importance sampling, NCE, negative sampling.

N2 §4.5.2: ∇ log p_y = ∇η_y − E_{c∼p}[∇η_c] with scores η = W z + b. The expectation (negative reinforcement) needs
all classes; each loss here replaces it by K classes c_k drawn from a proposal q that is cheap to draw from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import weft

from ...errors import OptionError, ShapeError
from ...tape.modes import no_grad
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "AdaptiveProposal",
    "FixedProposal",
    "SampledScores",
    "SampledSoftmax",
    "importance_sampling_loss",
    "negative_sampling_loss",
    "noise_contrastive_loss",
    "sampled_softmax_loss",
]


class SampledScores(NamedTuple):
    """The scores that a step looks at: of the right class and of K drawn ones, with the proposal's log-probabilities.

    Shapes: target η_y (B,), drawn η_{c_k} (B, K), log_q_target log q(y) (B,), log_q_drawn log q(c_k) (K,),
    hit [c_k = y] (B, K).
    """

    target: Tensor
    drawn: Tensor
    log_q_target: Tensor
    log_q_drawn: Tensor
    hit: Tensor


# ------------------------------------------------------------------------------------------------ losses


def sampled_softmax_loss(scores: SampledScores) -> Tensor:
    """−η_y + log(exp η_y + 1/K Σ_{k: c_k ≠ y} exp(η_{c_k}) / q(c_k)): softmax over y and the draws (N2 §4.5.2).

    The sum in the logarithm has the mean Σ_c exp η_c; draws that hit y are left out. Shape: → (B,)
    """
    corrected = scores.drawn - (scores.log_q_drawn + math.log(scores.drawn.shape[-1]))
    others = corrected.masked_fill(scores.hit, float("-inf"))
    return weft.cat([scores.target.unsqueeze(-1), others], -1).logsumexp(-1) - scores.target


def importance_sampling_loss(scores: SampledScores) -> Tensor:
    """−η_y + log(1/K Σ_k exp(η_{c_k}) / q(c_k)): self-normalised importance sampling (N2 §4.5.2).

    Its gradient replaces E_{c∼p}[∇η_c] by Σ_k r_k ∇η_{c_k} / Σ_k r_k with r_k = exp(η_{c_k}) / q(c_k). Where y is not
    among the draws nothing holds η_y back: few draws from a q unlike the model make training unstable, which is what
    `AdaptiveProposal` is for. Shape: → (B,)
    """
    corrected = scores.drawn - (scores.log_q_drawn + math.log(scores.drawn.shape[-1]))
    return corrected.logsumexp(-1) - scores.target


def noise_contrastive_loss(scores: SampledScores) -> Tensor:
    """−log σ(s_y) − Σ_k log σ(−s_{c_k}), s_c = η_c − log(K q(c)): tells the right class from K draws of noise q.

    N2 §4.5.2. exp η is learned as a probability of its own, without normalising: for K → ∞ the gradient of the loss
    becomes −∇η_y + Σ_c exp(η_c) ∇η_c, that of softmax where Σ_c exp η_c = 1. Shape: → (B,)
    """
    log_count = math.log(scores.drawn.shape[-1])
    data = F.logsigmoid(scores.target - (scores.log_q_target + log_count))
    noise = F.logsigmoid(scores.log_q_drawn + log_count - scores.drawn).sum(-1)
    return -(data + noise)


def negative_sampling_loss(scores: SampledScores) -> Tensor:
    """−log σ(η_y) − Σ_{k: c_k ≠ y} log σ(−η_{c_k}): pull the right class up, K drawn ones down (N2 §4.5.2).

    NCE without the correction by q: cheap, good for embeddings, no estimate of the softmax. Shape: → (B,)
    """
    noise = F.logsigmoid(-scores.drawn).masked_fill(scores.hit, 0).sum(-1)
    return -(F.logsigmoid(scores.target) + noise)


# --------------------------------------------------------------------------------------------- proposals


class FixedProposal(Module):
    """Classes drawn with probabilities q ∝ weights^power: uniform without weights, as in N2 §4.5.2.

    num_classes: how many classes there are
    weights: for example how often each class occurs, (num_classes,)
    power: 1 is the unigram distribution, 3/4 that of word2vec

    >>> nn.FixedProposal(3, weft.tensor([1.0, 1.0, 2.0])).log_prob(weft.arange(3)).exp()
    tensor([0.2500, 0.2500, 0.5000])
    """

    def __init__(self, num_classes: int, weights: Tensor | None = None, power: float = 1.0) -> None:
        super().__init__()
        weights = weft.ones(num_classes) if weights is None else weights * 1.0  # counts become floats
        if tuple(weights.shape) != (num_classes,) or not bool((weights > 0).all()):
            raise OptionError(f"FixedProposal: expected {num_classes} positive weights, got {tuple(weights.shape)}")
        probability = weights**power
        self.register_buffer("probability", probability / probability.sum())

    def draw(self, count: int) -> Tensor:
        """Independent classes c_k ∼ q. Shape: → (count,)"""
        return weft.multinomial(self.probability, count, replacement=True)

    def log_prob(self, classes: Tensor) -> Tensor:
        """log q(c). Shape: (*) → (*)"""
        return self.probability[classes].log()

    def observe(self, classes: Tensor, scores: Tensor) -> None:
        """A fixed proposal learns nothing."""


class AdaptiveProposal(Module):
    """A proposal that follows the model: q ← (1 − rate) q + rate · p̂ after each step (N2 §4.5.2, adaptive).

    p̂ is the model's own distribution averaged over the batch, as the draws show it: class c_k gets the mean of
    r_k / Σ r, r_k = exp(η_{c_k}) / q(c_k). Draws come from (1 − floor) q + floor / C, so that no class is forgotten
    and the ratios r stay bounded.

    num_classes: C
    rate: how fast q follows
    floor: the share of draws that is spread evenly

    >>> nn.AdaptiveProposal(4).log_prob(weft.tensor([0])).exp()
    tensor([0.2500])
    """

    def __init__(self, num_classes: int, rate: float = 0.05, floor: float = 0.1) -> None:
        super().__init__()
        if not (0 <= rate <= 1 and 0 < floor <= 1):
            raise OptionError(f"AdaptiveProposal: need 0 ≤ rate ≤ 1 and 0 < floor ≤ 1, got {rate} and {floor}")
        self.rate, self.floor = rate, floor
        self.register_buffer("followed", weft.full((num_classes,), 1 / num_classes))

    @property
    def probability(self) -> Tensor:
        """The distribution that is drawn from. Shape: (C,)"""
        return (1 - self.floor) * self.followed + self.floor / self.followed.shape[0]

    def draw(self, count: int) -> Tensor:
        """Independent classes c_k ∼ q. Shape: → (count,)"""
        return weft.multinomial(self.probability, count, replacement=True)

    def log_prob(self, classes: Tensor) -> Tensor:
        """log q(c). Shape: (*) → (*)"""
        return self.probability[classes].log()

    @no_grad()
    def observe(self, classes: Tensor, scores: Tensor) -> None:
        """Move q towards the model. Shape: classes (K,), their scores (B, K)"""
        share = (scores - self.log_prob(classes)).softmax(-1).mean(0).to(self.followed.dtype)  # (K,)
        seen = weft.zeros_like(self.followed).index_add(0, classes, share)
        self.followed.copy_((1 - self.rate) * self.followed + self.rate * seen)

    def extra_repr(self) -> str:
        return f"num_classes={self.followed.shape[0]}, rate={self.rate}, floor={self.floor}"


# ------------------------------------------------------------------------------------------------- layer


class SampledSoftmax(Module):
    """An output layer η = W z + b over C classes whose loss looks at the target and K drawn classes (N2 §4.5.2).

    All examples of a batch share the draws, so that K + B rows of W are read and written instead of C. `log_prob` is the
    full log-softmax, `predict` the likeliest class.
    Shape: (B, D), (B,) → () the mean loss; weight (C, D), bias (C,), both from U(±1/√D)

    in_features: D
    num_classes: C
    num_samples: K
    loss: `sampled_softmax_loss`, `importance_sampling_loss`, `noise_contrastive_loss` or `negative_sampling_loss`
    proposal: from which the classes are drawn; `FixedProposal(num_classes)` by default
    bias: whether there is a b

    >>> layer = nn.SampledSoftmax(8, 1000, num_samples=20)
    >>> layer(weft.randn(5, 8), weft.arange(5)).shape
    weft.Size([])
    >>> layer.log_prob(weft.randn(5, 8)).shape
    weft.Size([5, 1000])
    """

    random_in_training = True

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        num_samples: int,
        loss: Callable[[SampledScores], Tensor] = sampled_softmax_loss,
        proposal: Module | None = None,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.num_classes, self.num_samples = in_features, num_classes, num_samples
        self.loss = loss
        self.proposal = FixedProposal(num_classes) if proposal is None else proposal
        self.weight = Parameter(weft.empty(num_classes, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(weft.empty(num_classes, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_features)
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        if input.ndim != 2 or input.shape[0] != target.shape[0] or target.ndim != 1:
            raise ShapeError(
                f"SampledSoftmax: expected input (B, {self.in_features}) and target (B,), got {tuple(input.shape)} and "
                f"{tuple(target.shape)}"
            )
        classes = self.proposal.draw(self.num_samples)
        scores = self.scores(input, target, classes)
        loss = self.loss(scores).mean()
        if self.training:
            self.proposal.observe(classes, scores.drawn.detach())
        return loss

    def scores(self, input: Tensor, target: Tensor, classes: Tensor) -> SampledScores:
        """The scores of the targets and of given classes. Shape: (B, D), (B,), (K,) → those of `SampledScores`"""
        of_target = (input * F.embedding(target, self.weight)).sum(-1)  # (B,)
        drawn = F.linear(input, F.embedding(classes, self.weight))  # (B, K)
        if self.bias is not None:
            of_target, drawn = of_target + self.bias[target], drawn + self.bias[classes]
        log_q = self.proposal.log_prob
        return SampledScores(of_target, drawn, log_q(target), log_q(classes), classes == target.unsqueeze(-1))

    def log_prob(self, input: Tensor) -> Tensor:
        """log p of every class. Shape: (*, D) → (*, C)"""
        return F.linear(input, self.weight, self.bias).log_softmax(-1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class. Shape: (*, D) → (*)"""
        return F.linear(input, self.weight, self.bias).argmax(-1)

    def extra_repr(self) -> str:
        loss = getattr(self.loss, "__name__", self.loss)
        return f"in_features={self.in_features}, num_classes={self.num_classes}, num_samples={self.num_samples}, loss={loss}"
