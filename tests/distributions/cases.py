"""Distributions to compare with PyTorch: how to build each, and values at which to compare.

`build(D, t)` works with either library: D is its `distributions` module, t makes a float64 tensor of it.
"""

from __future__ import annotations

import numpy as np
import torch

import weft

PAIR = [[4.0, 1.2], [1.2, 2.0]]
BATCH_OF_MATRICES = [PAIR, [[1.0, -0.3], [-0.3, 0.5]]]
FACTOR = [[1.5, 0.0], [-0.4, 0.8]]


def of_weft(data):
    return weft.tensor(data, dtype=weft.float64)


def of_torch(data):
    return torch.tensor(data, dtype=torch.float64)


def array(x):
    return x.detach().numpy() if hasattr(x, "detach") else np.asarray(x)


# name: (build, values)
CASES = {
    "Bernoulli probs": (lambda D, t: D.Bernoulli(t([0.1, 0.6, 1.0])), [0.0, 1.0, 1.0]),
    "Bernoulli logits": (lambda D, t: D.Bernoulli(logits=t([-2.0, 0.3, 40.0])), [1.0, 0.0, 1.0]),
    "Beta": (lambda D, t: D.Beta(t([0.5, 2.0, 3.0]), t([0.7, 1.0, 5.0])), [0.1, 0.5, 0.9]),
    "Binomial": (lambda D, t: D.Binomial(7, t([0.1, 0.5, 0.8])), [0.0, 3.0, 7.0]),
    "Binomial logits": (lambda D, t: D.Binomial(t([3.0, 5.0, 9.0]), logits=t([-1.0, 0.5, 2.0])), [0.0, 3.0, 9.0]),
    "Categorical": (lambda D, t: D.Categorical(t([[0.2, 0.3, 0.5], [1.0, 1.0, 2.0]])), [2.0, 0.0]),
    "Categorical logits": (lambda D, t: D.Categorical(logits=t([[0.2, -0.3, 5.0], [1.0, 1.0, 2.0]])), [2.0, 1.0]),
    "Cauchy": (lambda D, t: D.Cauchy(t([0.0, 1.0]), t([0.5, 2.0])), [0.3, -4.0]),
    "Chi2": (lambda D, t: D.Chi2(t([0.5, 3.0])), [0.3, 4.0]),
    "ContinuousBernoulli": (lambda D, t: D.ContinuousBernoulli(t([0.1, 0.45, 0.7])), [0.3, 0.9, 0.2]),
    "ContinuousBernoulli logits": (lambda D, t: D.ContinuousBernoulli(logits=t([-3.0, 0.0, 0.4])), [0.3, 0.9, 0.2]),
    "Dirichlet": (lambda D, t: D.Dirichlet(t([[0.5, 2.0, 3.0], [4.0, 1.5, 1.0]])), [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
    "Exponential": (lambda D, t: D.Exponential(t([0.5, 2.0])), [0.3, 4.0]),
    "FisherSnedecor": (lambda D, t: D.FisherSnedecor(t([0.5, 5.0]), t([1.5, 6.0])), [0.3, 4.0]),
    "Gamma": (lambda D, t: D.Gamma(t([0.5, 2.0, 30.0]), t([1.5, 0.3, 4.0])), [0.3, 4.0, 7.0]),
    "GeneralizedPareto": (
        lambda D, t: D.GeneralizedPareto(t([0.0, 1.0, 0.5]), t([1.0, 2.0, 0.5]), t([-0.4, 0.0, 0.3])),
        [0.3, 4.0, 0.7],
    ),
    "Geometric": (lambda D, t: D.Geometric(t([0.1, 0.6])), [3.0, 0.0]),
    "Geometric logits": (lambda D, t: D.Geometric(logits=t([-1.0, 0.6])), [3.0, 0.0]),
    "Gumbel": (lambda D, t: D.Gumbel(t([0.0, 1.0]), t([0.5, 2.0])), [0.3, -1.0]),
    "HalfCauchy": (lambda D, t: D.HalfCauchy(t([0.5, 2.0])), [0.3, 4.0]),
    "HalfNormal": (lambda D, t: D.HalfNormal(t([0.5, 2.0])), [0.3, 4.0]),
    "Independent": (
        lambda D, t: D.Independent(D.Normal(t([[0.0, 1.0], [2.0, 3.0]]), t([0.5, 2.0])), 1),
        [[0.3, 4.0], [1.0, 2.0]],
    ),
    "InverseGamma": (lambda D, t: D.InverseGamma(t([2.5, 4.0]), t([1.5, 0.3])), [0.3, 4.0]),
    "Kumaraswamy": (lambda D, t: D.Kumaraswamy(t([0.5, 2.0]), t([1.5, 3.0])), [0.3, 0.8]),
    "LKJCholesky": (lambda D, t: D.LKJCholesky(2, t([0.5, 1.0, 3.0])), [[1.0, 0.0], [0.6, 0.8]]),
    "LKJCholesky 3": (
        lambda D, t: D.LKJCholesky(3, t(1.7)),
        [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.3, -0.5, 0.66**0.5]],
    ),
    "Laplace": (lambda D, t: D.Laplace(t([0.0, 1.0]), t([0.5, 2.0])), [0.3, -4.0]),
    "LogNormal": (lambda D, t: D.LogNormal(t([0.0, 1.0]), t([0.5, 0.7])), [0.3, 4.0]),
    "LogisticNormal": (
        lambda D, t: D.LogisticNormal(t([[0.0, 1.0], [0.3, -1.0]]), t([0.5, 0.7])),
        [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]],
    ),
    "LowRankMultivariateNormal": (
        lambda D, t: D.LowRankMultivariateNormal(
            t([[0.5, 1.0, 0.0], [1.0, 0.0, 0.0]]), t([[1.0], [0.4], [-1.0]]), t([0.3, 0.5, 2.0])
        ),
        [[0.1, 0.2, 0.4], [1.0, -1.0, 0.5]],
    ),
    "MixtureSameFamily": (
        lambda D, t: D.MixtureSameFamily(
            D.Categorical(t([[0.3, 0.7], [0.5, 0.5]])), D.Normal(t([[0.0, 2.0], [1.0, 3.0]]), t([1.0, 0.5]))
        ),
        [0.3, 4.0],
    ),
    "MixtureSameFamily vectors": (
        lambda D, t: D.MixtureSameFamily(
            D.Categorical(t([0.3, 0.7])), D.Independent(D.Normal(t([[0.0, 2.0], [1.0, 3.0]]), t([1.0, 0.5])), 1)
        ),
        [0.3, 4.0],
    ),
    "Multinomial": (lambda D, t: D.Multinomial(5, t([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])), [[1.0, 2.0, 2.0]] * 2),
    "MultivariateNormal": (
        lambda D, t: D.MultivariateNormal(t([0.5, 1.0]), t(BATCH_OF_MATRICES)),
        [[0.1, 0.2], [1.0, -1.0]],
    ),
    "MultivariateNormal precision": (
        lambda D, t: D.MultivariateNormal(t([[0.5, 1.0], [0.0, 0.0]]), precision_matrix=t(PAIR)),
        [[0.1, 0.2], [1.0, -1.0]],
    ),
    "MultivariateNormal scale_tril": (
        lambda D, t: D.MultivariateNormal(t([0.5, 1.0]), scale_tril=t([[2.0, 0.0], [-1.0, 0.5]])),
        [1.0, -1.0],
    ),
    "NegativeBinomial": (lambda D, t: D.NegativeBinomial(t([3.0, 0.5]), t([0.1, 0.6])), [3.0, 0.0]),
    "NegativeBinomial logits": (lambda D, t: D.NegativeBinomial(t([3.0, 6.5]), logits=t([-1.0, 0.6])), [3.0, 9.0]),
    "Normal": (lambda D, t: D.Normal(t([0.0, 1.0]), t([0.5, 2.0])), [0.3, -4.0]),
    "OneHotCategorical": (
        lambda D, t: D.OneHotCategorical(t([[0.2, 0.3, 0.5], [1.0, 1.0, 2.0]])),
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    ),
    "OneHotCategoricalStraightThrough": (
        lambda D, t: D.OneHotCategoricalStraightThrough(logits=t([0.2, 0.3, 0.5])),
        [1.0, 0.0, 0.0],
    ),
    "Pareto": (lambda D, t: D.Pareto(t([0.2, 1.0]), t([1.5, 2.5])), [0.3, 4.0]),
    "Poisson": (lambda D, t: D.Poisson(t([0.5, 20.0])), [3.0, 17.0]),
    "RelaxedBernoulli": (lambda D, t: D.RelaxedBernoulli(t(0.7), t([0.1, 0.6])), [0.3, 0.9]),
    "RelaxedOneHotCategorical": (
        lambda D, t: D.RelaxedOneHotCategorical(t(0.7), t([[0.2, 0.3, 0.5], [1.0, 1.0, 2.0]])),
        [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]],
    ),
    "StudentT": (lambda D, t: D.StudentT(t([1.5, 3.0, 30.0]), t([0.0, 1.0, 2.0]), t(2.0)), [0.3, -4.0, 2.5]),
    "TransformedDistribution": (
        lambda D, t: D.TransformedDistribution(
            D.Normal(t([0.0, 1.0]), t([0.5, 2.0])), [D.TanhTransform(), D.AffineTransform(t([1.0, 2.0]), t(-3.0))]
        ),
        [0.3, 4.0],
    ),
    "TransformedDistribution vectors": (
        lambda D, t: D.TransformedDistribution(
            D.Normal(t([[0.0, 1.0], [0.5, 1.0]]), t(1.0)), [D.ExpTransform(), D.StickBreakingTransform()]
        ),
        [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1]],
    ),
    "Uniform": (lambda D, t: D.Uniform(t([0.0, -4.5]), t([0.5, 2.0])), [0.3, -4.0]),
    "VonMises": (lambda D, t: D.VonMises(t([0.0, 1.0]), t([0.5, 20.0])), [0.3, 1.4]),
    "Weibull": (lambda D, t: D.Weibull(t([0.5, 2.0]), t([1.5, 3.0])), [0.3, 4.0]),
    "Wishart": (lambda D, t: D.Wishart(t([4.0, 5.5]), t(PAIR)), PAIR),
    "Wishart precision": (lambda D, t: D.Wishart(t(4.0), precision_matrix=t(BATCH_OF_MATRICES)), BATCH_OF_MATRICES),
    "Wishart scale_tril": (lambda D, t: D.Wishart(t(4.0), scale_tril=t(FACTOR)), PAIR),
}
