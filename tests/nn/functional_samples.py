"""Calls of the non-spatial functions of `weft.nn.functional`, for the generated tests.

`T()` arguments of kind 'float' are differentiated; 'fixed' ones are not.
"""

from __future__ import annotations

from tests.ops.samples.base import S, T

X = T((3, 4))
FIXED = T((3, 4), kind="fixed")
PROBABILITY = T((3, 4), 0.05, 0.95)
POSITIVE = T((3, 4), 0.2, 2.0)
SIGNS = T((3,), 0.5, 1.5, "fixed")
CLASSES = T((3,), 0, 4, "index")
REDUCTIONS = ("none", "mean", "sum")
GRID = T((2, 4, 3))
HEADS = dict(q=T((1, 2, 3, 4)), k=T((1, 2, 4, 4)), v=T((1, 2, 4, 2)))


def elementwise(*args: object, **kwargs: object) -> list[S]:
    return [S(X, *args, **kwargs), S(T(()), *args, **kwargs), S(T((0, 3)), *args, **kwargs)]


def reductions(*args: object, **kwargs: object) -> list[S]:
    return [S(*args, **kwargs, reduction=r) for r in REDUCTIONS]


def heads(bias: bool = True, **kwargs: object) -> S:
    """A call of multi_head_attention_forward: 2 heads of width 2, 2 queries, 3 keys, 2 examples."""
    options = dict(bias_k=None, bias_v=None, add_zero_attn=False) | kwargs
    return S(
        T((2, 2, 4)),
        T((3, 2, 4)),
        T((3, 2, 4)),
        4,
        2,
        options.pop("in_proj_weight", T((12, 4), -0.7, 0.7)),
        T((12,)) if bias else None,
        options.pop("bias_k"),
        options.pop("bias_v"),
        options.pop("add_zero_attn"),
        0.0,
        T((4, 4)),
        T((4,)) if bias else None,
        **options,
    )


SAMPLES: dict[str, list[S]] = {
    "relu": elementwise(),
    "relu6": elementwise(),
    "elu": [*elementwise(), S(X, 0.7)],
    "selu": elementwise(),
    "celu": [*elementwise(), S(X, 1.7)],
    "leaky_relu": [*elementwise(), S(X, 0.2)],
    "prelu": [S(X, T((4,))), S(X, T((1,))), S(T((2, 3, 4)), T((3,))), S(T(()), T((1,))), S(T((5,)), T((1,)))],
    "rrelu": [S(X), S(X, 0.1, 0.3)],
    "glu": [S(X), S(T((4, 3)), 0), S(T((2, 0, 4)), -1)],
    "gelu": [*elementwise(), *elementwise(approximate="tanh")],
    "logsigmoid": elementwise(),
    "hardshrink": [*elementwise(), S(X, 1.1)],
    "hardsigmoid": [*elementwise(), S(T((4, 4), -5, 5))],
    "hardswish": [*elementwise(), S(T((4, 4), -5, 5))],
    "hardtanh": [*elementwise(), S(X, -0.5, 1.2)],
    "mish": elementwise(),
    "silu": elementwise(),
    "softplus": [*elementwise(), S(X, 2.0), S(T((4, 4), -30, 30), 0.8, 10.0)],
    "softshrink": [*elementwise(), S(X, 0.2)],
    "softsign": elementwise(),
    "tanh": elementwise(),
    "sigmoid": elementwise(),
    "tanhshrink": elementwise(),
    "threshold": [S(X, 0.1, 20.0), S(T(()), -0.1, 3.0)],
    "softmax": [S(X, 1), S(GRID, 0), S(X, -1)],
    "log_softmax": [S(X, 1), S(GRID, 0)],
    "softmin": [S(X, 1), S(GRID, -2)],
    "normalize": [S(X), S(X, 1.0, 0), S(X, 3.0, -1)],
    "one_hot": [S(CLASSES), S(T((2, 3), 0, 4, "index"), 6)],
    "batch_norm": [
        S(T((5, 3)), None, None, training=True),
        S(T((3, 2, 4)), None, None, T((2,)), T((2,)), True, 0.1, 1e-3),
        S(T((3, 2, 4)), T((2,), kind="fixed"), T((2,), 0.5, 2, "fixed"), T((2,)), T((2,))),
    ],
    "instance_norm": [S(T((2, 3, 4))), S(T((2, 3, 2, 3)), None, None, T((3,)), T((3,)), True, 0.1, 1e-3)],
    "layer_norm": [S(X, (4,)), S(T((2, 3, 4)), (3, 4), T((3, 4)), T((3, 4))), S(X, (4,), T((4,)), None, 1e-3)],
    "group_norm": [S(T((2, 4, 3)), 2), S(T((2, 4)), 2, T((4,)), T((4,))), S(T((2, 6, 2, 2)), 3, T((6,)), None, 1e-3)],
    "rms_norm": [S(X, (4,)), S(T((2, 3, 4)), (3, 4), T((3, 4))), S(X, (4,), T((4,)), 1e-2)],
    "mse_loss": [*reductions(X, X), S(X, X, weight=POSITIVE), S(X, X, weight=POSITIVE, reduction="sum")],
    "l1_loss": [*reductions(X, X), S(X, X, weight=POSITIVE)],
    "smooth_l1_loss": [*reductions(X, X), S(X, X, beta=0.3), S(X, X, beta=0.0)],
    "huber_loss": [*reductions(X, X), S(X, X, delta=0.3), S(X, X, weight=POSITIVE)],
    "binary_cross_entropy": [*reductions(PROBABILITY, PROBABILITY), S(PROBABILITY, PROBABILITY, T((4,), 0.1, 1))],
    "binary_cross_entropy_with_logits": [
        *reductions(X, PROBABILITY),
        S(X, PROBABILITY, T((4,), 0.1, 1), pos_weight=T((4,), 0.1, 3)),
    ],
    "cross_entropy": [
        *reductions(X, CLASSES),
        *reductions(X, CLASSES, T((4,), 0.1, 1, "fixed"), label_smoothing=0.2, ignore_index=1),
        *reductions(T((2, 4, 3)), T((2, 3), 0, 4, "index"), label_smoothing=0.1),
        *reductions(X, T((3, 4), 0, 1), label_smoothing=0.1),
        S(T((2, 4, 3, 2)), T((2, 4, 3, 2), 0, 1), T((4,), 0.1, 1, "fixed")),
        S(T((4,)), T((), 0, 4, "index")),
        S(T((4,)), T((4,), 0, 1)),
    ],
    "linear_cross_entropy": [
        S(X, T((5, 4)), T((3,), 0, 5, "index"), linear_bias=T((5,)), label_smoothing=0.1),
        S(X, T((5, 2, 4)), T((3, 2), 0, 5, "index"), reduction="none", ignore_index=1),
        S(T((4,)), T((5, 4)), T((), 0, 5, "index")),
    ],
    "nll_loss": [
        *reductions(X, CLASSES),
        *reductions(X, CLASSES, T((4,), 0.1, 1, "fixed"), ignore_index=2),
        *reductions(T((2, 4, 3, 2)), T((2, 3, 2), 0, 4, "index"), ignore_index=0),
        S(T((4,)), T((), 0, 4, "index")),
    ],
    "kl_div": [
        *reductions(X, PROBABILITY),
        *reductions(X, X, log_target=True),
        S(X, PROBABILITY, reduction="batchmean"),
    ],
    "gaussian_nll_loss": [
        *reductions(X, X, POSITIVE),
        S(X, X, T((3,), 0.2, 2.0), full=True),
        S(X, X, T((3, 1), 0.2, 2.0)),
        S(X, X, 0.7),
    ],
    "poisson_nll_loss": [
        *reductions(X, POSITIVE),
        S(POSITIVE, T((3, 4), 0.2, 4.0), log_input=False, full=True),
    ],
    "hinge_embedding_loss": reductions(X, T((3, 4), 0.5, 1.5, "fixed")),
    "cosine_embedding_loss": [*reductions(X, X, SIGNS), S(T((4,)), T((4,)), T((), 1, 2, "index"), 0.1)],
    "margin_ranking_loss": [*reductions(T((3,)), T((3,)), SIGNS), S(X, X, FIXED, 0.3)],
    "multi_margin_loss": [
        *reductions(X, CLASSES),
        S(X, CLASSES, 2, 0.7, T((4,), 0.1, 1, "fixed")),
        S(T((4,)), T((), 0, 4, "index")),
    ],
    "multilabel_margin_loss": [*reductions(X, T((3, 4), -1, 4, "index")), S(T((4,)), T((4,), -1, 4, "index"))],
    "multilabel_soft_margin_loss": [*reductions(X, PROBABILITY), S(X, PROBABILITY, T((4,), 0.1, 1))],
    "soft_margin_loss": reductions(X, FIXED),
    "triplet_margin_loss": [*reductions(X, X, X), S(X, X, X, 0.5, 1, swap=True), S(T((4,)), T((4,)), T((4,)))],
    "triplet_margin_with_distance_loss": [*reductions(X, X, X), S(X, X, X, margin=0.5, swap=True)],
    "cosine_similarity": [S(X, X), S(T((2, 1, 4)), T((3, 4)), -1), S(T((2, 3, 4)), T((3, 1)), 1)],
    "pairwise_distance": [S(X, X), S(X, T((4,)), 1.0, 1e-3, True), S(X, X, 3.0)],
    "pdist": [S(X), S(X, 1.0), S(X, 3.0), S(T((1, 3)))],
    "linear": [S(X, T((2, 4))), S(T((2, 3, 4)), T((5, 4)), T((5,))), S(T((4,)), T((5, 4)), T((5,)))],
    "bilinear": [S(X, T((3, 2)), T((5, 4, 2)), T((5,))), S(T((4,)), T((2,)), T((3, 4, 2)))],
    "scaled_dot_product_attention": [
        S(*HEADS.values()),
        S(*HEADS.values(), T((3, 4), kind="bool")),
        S(*HEADS.values(), T((2, 3, 4))),
        S(*HEADS.values(), is_causal=True, scale=0.3),
        S(T((4, 3, 4)), T((2, 2, 4)), T((2, 2, 2)), enable_gqa=True),
        S(T((5, 4)), T((6, 4)), T((6, 2))),
    ],
    "multi_head_attention_forward": [
        heads(),
        heads(need_weights=False),
        heads(bias=False, average_attn_weights=False),
        heads(bias_k=T((1, 1, 4)), bias_v=T((1, 1, 4)), add_zero_attn=True, attn_mask=T((2, 3))),
        heads(attn_mask=T((4, 2, 3)), key_padding_mask=T((2, 3))),
        heads(
            in_proj_weight=None,
            use_separate_proj_weight=True,
            q_proj_weight=T((4, 4)),
            k_proj_weight=T((4, 4)),
            v_proj_weight=T((4, 4)),
        ),
        heads(static_k=T((4, 5, 2)), static_v=T((4, 5, 2))),
    ],
    "embedding": [
        S(T((2, 3), 0, 5, "index"), T((5, 4))),
        S(T((), 0, 5, "index"), T((5, 4))),
    ],
    "embedding_bag": [
        *(S(T((3, 4), 0, 5, "index"), T((5, 2), distinct=True), mode=m) for m in ("sum", "mean", "max")),
        *(S(T((3, 4), 0, 5, "index"), T((5, 2), distinct=True), mode=m, padding_idx=1) for m in ("sum", "mean", "max")),
        S(T((3, 4), 0, 5, "index"), T((5, 2)), mode="sum", per_sample_weights=T((3, 4))),
    ],
}

# drawn at random, or not functions of tensors alone: tested by hand
UNSAMPLED = ("alpha_dropout", "ctc_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
UNSAMPLED += ("gumbel_softmax",)
UNSAMPLED += ("hinge_loss", "swiglu")  # PyTorch has neither: test_layers_loss.py, test_layers_activation.py
