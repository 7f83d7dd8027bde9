"""Rules of products, convolutions, pooling, normalisation, attention and recurrences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from .builder import Builder, producer, writes
from .sizes import Repeated, Size
from .unify import Step, Var


@writes("Matmul")
def matmul(b: Builder, step: Step, x: str, y: str) -> str:
    return b.emit("MatMul", [x, y])


@writes("Linear Affine")
def affine(b: Builder, step: Step, x: str, weight: str, *bias: str) -> str:
    """x Wᵀ + b."""
    if step.inputs[0].rank == 2:
        return b.emit("Gemm", [x, weight, *bias], transB=1)
    y = b.emit("MatMul", [x, b.emit("Transpose", [weight], perm=[1, 0])])
    return b.emit("Add", [y, bias[0]]) if bias else y


@writes("Convolve")
def convolve(b: Builder, step: Step, x: str, w: str, *bias: str) -> str:
    p = step.params
    sides = [int(n) for n in p["padding"]]
    return b.emit(
        "Conv",
        [x, w, *bias],
        dilations=[int(n) for n in p["dilation"]],
        group=int(p["groups"]),
        kernel_shape=[int(n) for n in step.inputs[1].shape[2:]],
        pads=[*sides, *sides],
        strides=[int(n) for n in p["stride"]],
    )


@writes("ConvolveTransposed")
def convolve_transposed(b: Builder, step: Step, y: str, w: str, *bias: str) -> str:
    p = step.params
    extra = [_output_padding(node) for node in step.nodes]
    if any(e != extra[0] for e in extra):
        raise UnsupportedError(f"onnx.export: {step.line}: output padding that depends on a dynamic size")
    sides = [int(n) for n in p["padding"]]
    return b.emit(
        "ConvTranspose",
        [y, w, *bias],
        dilations=[int(n) for n in p["dilation"]],
        group=int(p["groups"]),
        kernel_shape=[int(n) for n in step.inputs[1].shape[2:]],
        output_padding=extra[0],
        pads=[*sides, *sides],
        strides=[int(n) for n in p["stride"]],
    )


def _output_padding(node: Any) -> list[int]:
    p, (y, w) = node.params, node.inputs[:2]
    return [
        length - ((n - 1) * s - 2 * pad + d * (k - 1) + 1)
        for length, n, s, pad, d, k in zip(
            p["lengths"], y.shape[2:], p["stride"], p["padding"], p["dilation"], w.shape[2:], strict=True
        )
    ]


@writes("MaxPool LargestInWindow")
def max_pool(b: Builder, step: Step, x: str) -> str:
    p = step.params
    floor = []
    for node in step.nodes:
        lengths = node.inputs[0].shape[2:]
        windows = zip(
            lengths,
            node.params["size"],
            node.params["stride"],
            node.params["padding"],
            node.params["dilation"],
            strict=True,
        )
        floor.append(
            tuple((n + 2 * pad - d * (k - 1) - 1) // s + 1 for n, k, s, pad, d in windows)
            == tuple(node.params["counts"])
        )
    sides = [int(n) for n in p["padding"]]
    return b.emit(
        "MaxPool",
        [x],
        ceil_mode=0 if all(floor) else 1,
        dilations=[int(n) for n in p["dilation"]],
        kernel_shape=[int(n) for n in p["size"]],
        pads=[*sides, *sides],
        strides=[int(n) for n in p["stride"]],
    )


@writes("Softmax LogSoftmax")
def softmax(b: Builder, step: Step, x: str) -> str:
    return b.emit(step.title, [x], axis=int(step.params["dim"]) % max(step.inputs[0].rank, 1))


@writes("RowNormalize")
def row_normalize(b: Builder, step: Step, x: str, *parameters: str) -> str:
    """LayerNormalization, or the root mean square alone."""
    have, p = step.inputs[0], step.params
    width, axis = int(p["width"]), have.rank
    while axis > 0 and math.prod(have.shape[axis:]) != width:  # type: ignore[arg-type]
        axis -= 1
    sizes = have.shape[axis:]
    given = [b.reshaped(n, v.shape, sizes) for n, v in zip(parameters, step.inputs[1:], strict=True)]
    scale = given[0] if given else b.constant(np.ones([int(n) for n in sizes]), have.dtype)  # type: ignore[arg-type]
    if p["centre"]:
        return b.emit("LayerNormalization", [x, scale, *given[1:]], axis=axis - have.rank, epsilon=float(p["eps"]))
    if b.opset >= 23:
        y = b.emit("RMSNormalization", [x, scale], axis=axis - have.rank, epsilon=float(p["eps"]))
    else:
        square = b.emit("Mul", [x, x])
        axes = list(range(axis, have.rank))
        mean = (
            b.emit("ReduceMean", [square, b.ints(axes)], keepdims=1)
            if b.opset >= 18
            else b.emit("ReduceMean", [square], axes=axes, keepdims=1)
        )
        root = b.emit("Sqrt", [b.emit("Add", [mean, b.scalar(p["eps"], have)])])
        y = b.emit("Div", [x, root])
        y = b.emit("Mul", [y, scale]) if given else y
    return b.emit("Add", [y, given[1]]) if len(given) > 1 else y


@writes("ChannelNormalize")
def channel_normalize(b: Builder, step: Step, x: str, *parameters: str) -> str:
    """Statistics of each example over groups of channels: an InstanceNormalization of the groups as channels."""
    have, groups, eps = step.inputs[0], int(step.params["groups"]), float(step.params["eps"])
    if not groups:
        raise UnsupportedError(
            f"onnx.export: {step.line}: normalisation by the statistics of the batch; export the model in eval mode"
        )
    channels = have.shape[1]
    if groups == channels and len(parameters) == 2:
        return b.emit("InstanceNormalization", [x, *parameters], epsilon=eps)
    if b.opset >= 21 and len(parameters) == 2:
        return b.emit("GroupNormalization", [x, *parameters], epsilon=eps, num_groups=groups)
    ones = b.constant(np.ones(groups), have.dtype)
    zeros = b.constant(np.zeros(groups), have.dtype)
    grouped = b.emit("Reshape", [x, b.ints([0, groups, -1])])
    y = b.emit("InstanceNormalization", [grouped, ones, zeros], epsilon=eps)
    y = b.emit("Reshape", [y, b.emit("Shape", [x])])
    form = b.ints([-1, *[1] * (have.rank - 2)])
    for name, op_type in zip(parameters, ("Mul", "Add"), strict=False):
        y = b.emit(op_type, [y, b.emit("Reshape", [name, form])])
    return y


@writes("Attention")
def attention(b: Builder, step: Step, q: str, k: str, v: str, *mask: str) -> str:
    """softmax(q kᵀ · scale + mask) v; a query that sees no key gets 0."""
    query, key = step.inputs[:2]
    scale, causal = step.params["scale"], bool(step.params["causal"])
    if b.opset >= 23 and query.rank == 4 and not (mask and causal):
        return b.emit("Attention", [q, k, v, *mask], is_causal=int(causal), scale=float(scale))
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = b.emit("MatMul", [b.emit("Mul", [q, b.scalar(scale, query)]), b.emit("Transpose", [k], perm=order)])
    seen = [mask[0]] if mask and step.inputs[3].dtype == np.dtype(bool) else []
    if mask and not seen:
        scores = b.emit("Add", [scores, b.cast(mask[0], step.inputs[3].dtype, query.dtype)])
    if causal:
        seen.append(_not_after(b, query.shape[-2], key.shape[-2]))
    visible = seen[0] if len(seen) == 1 else b.emit("And", seen) if seen else None
    if visible is not None:
        scores = b.emit("Where", [visible, scores, b.scalar(-math.inf, query)])
    weights = b.emit("Softmax", [scores], axis=-1)
    if visible is not None:
        weights = b.emit("Where", [visible, weights, b.scalar(0, query)])
    return b.emit("MatMul", [weights, v])


def _not_after(b: Builder, queries: Any, keys: Any) -> str:
    """(L, S): key j is not after query i."""
    key = ("causal", queries, keys)
    if key not in b.shared:
        zero, one = b.constant(0, np.int64), b.constant(1, np.int64)
        rows = b.emit("Range", [zero, b._whole(queries), one])
        columns = b.emit("Range", [zero, b._whole(keys), one])
        b.shared[key] = b.emit("LessOrEqual", [columns, b.emit("Unsqueeze", [rows, b.ints([1])])])
    return b.shared[key]


# --------------------------------------------------------------------------------------- recurrences


def _input_of(b: Builder, var: Var, name: str) -> tuple[str, Var, str, str | None]:
    """The rows that the input weights were applied to, those weights and their bias; else the identity."""
    step = producer(var, "Affine") or producer(var, "Linear")
    if step is not None:
        names = [b.names[v] for v in step.inputs]
        return names[0], step.inputs[0], names[1], names[2] if len(names) > 2 else None
    return name, var, b.constant(np.eye(int(var.shape[1])), var.dtype), None  # type: ignore[arg-type]


def _gates(b: Builder, name: str, order: list[int], width: int) -> str:
    """Gates in ONNX's order along dimension 0."""
    if order == sorted(order):
        return name
    parts = b.emit("Split", [name, b.ints([width] * len(order))], outputs=len(order), axis=0)
    return b.emit("Concat", [parts[k] for k in order], axis=0)


def _recurrence(b: Builder, step: Step, op_type: str, order: list[int], weight: str, **options: Any) -> list[str]:
    """One direction of an RNN, LSTM or GRU over (T·B, …) rows, as ONNX has them: (T, B, …)."""
    names = [b.names[v] for v in step.inputs]
    sizes, hidden = step.params["batch_sizes"], step.inputs[1]
    if not isinstance(sizes, Repeated) and len(set(sizes)) > 1:
        raise UnsupportedError(f"onnx.export: {step.line}: packed sequences of different lengths")
    count = sizes.count if isinstance(sizes, Repeated) else len(sizes)
    batch, width = sizes[0], int(hidden.shape[1])  # type: ignore[arg-type]
    rows, var, w, bias = _input_of(b, step.inputs[0], names[0])
    lift = lambda name: b.emit("Unsqueeze", [name, b.ints([0])])
    x = b.reshaped(rows, var.shape, (count, batch, var.shape[1]))
    zeros = b.constant(np.zeros(len(order) * width), hidden.dtype)
    outer = options.pop("bias", None)
    inner = zeros if bias is None else _gates(b, bias, order, width)
    both = b.emit("Concat", [inner, zeros if outer is None else _gates(b, outer, order, width)], axis=0)
    given = [x, lift(_gates(b, w, order, width)), lift(_gates(b, weight, order, width)), lift(both), ""]
    states = [lift(name) for name in options.pop("states")]
    direction = "reverse" if step.params["reverse"] else "forward"
    made = b.emit(
        op_type, [*given, *states], outputs=1 + len(states), direction=direction, hidden_size=width, **options
    )
    y = b.reshaped(made[0], (count, 1, batch, width), step.output.shape)
    return [y, *(b.emit("Squeeze", [name, b.ints([0])]) for name in made[1:])]


@writes("LstmRecurrence")
def lstm(b: Builder, step: Step, x: str, hidden: str, cell: str, weight: str) -> list[str]:
    return _recurrence(b, step, "LSTM", [0, 3, 1, 2], weight, states=[hidden, cell])


@writes("GruRecurrence")
def gru(b: Builder, step: Step, x: str, hidden: str, weight: str, *bias: str) -> list[str]:
    outer = bias[0] if bias else None
    return _recurrence(b, step, "GRU", [1, 0, 2], weight, states=[hidden], bias=outer, linear_before_reset=1)


@writes("TanhRecurrence")
def rnn(b: Builder, step: Step, x: str, hidden: str, weight: str) -> list[str]:
    names = ["Relu" if step.params["relu"] else "Tanh"]
    return _recurrence(b, step, "RNN", [0], weight, states=[hidden], activations=names)


# ---------------------------------------------------------------------------------------- resampling


@writes("Resample")
def resample(b: Builder, step: Step, x: str) -> str:
    """Lines as weighted sums: a product with the matrix of weights, the line last."""
    have, axis = step.inputs[0], int(step.params["dim"]) % step.inputs[0].rank
    if isinstance(have.shape[axis], Size) or len({id(node.params["taps"]) for node in step.nodes}) > 1:
        raise UnsupportedError(f"onnx.export: {step.line}: resampling of a dynamic length")
    matrix = step.params["taps"].matrix(have.dtype, step.params["transposed"]).toarray()  # (outputs, length)
    order = [k for k in range(have.rank) if k != axis] + [axis]
    moved = b.emit("Transpose", [x], perm=order) if axis != have.rank - 1 else x
    y = b.emit("MatMul", [moved, b.constant(matrix.T.copy(), have.dtype)])
    return b.emit("Transpose", [y], perm=[order.index(k) for k in range(have.rank)]) if axis != have.rank - 1 else y
