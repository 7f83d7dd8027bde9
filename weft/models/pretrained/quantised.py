"""Weights that GPTQ (Frantar et al., 2023) or AWQ (Lin et al., 2023) have quantised, as the numbers that they stand for.

Of each matrix W (out, in) a file has `qweight`, `qzeros` and `scales`, with several integers of a few bits in each int32:
    W[o, i] = scales[g, o] · (q[i, o] − zero[g, o]),   g the group of input i.
GPTQ packs along the inputs and stores zero − 1 (checkpoint_format "gptq"), or zero ("gptq_v2"); `g_idx` names the groups if
they are not runs of group_size. AWQ packs along the outputs, in the order 0, 2, 4, 6, 1, 3, 5, 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import weft

from ...errors import OptionError
from ...io.bounded import brief
from ...io.errors import HeaderError, LayoutError
from ...tensor import Tensor

__all__ = ["dequantised"]

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which of eight outputs lies in which four bits of an int32, in AWQ's files


def dequantised(where: str, settings: Any, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a file with float32 matrices in place of quantised ones; as they are without settings.

    settings: quantization_config of config.json: quant_method "gptq" (2, 4 or 8 bits) or "awq" (4 bits).
    """
    if not settings:
        return dict(state)
    if not isinstance(settings, Mapping):
        raise HeaderError(f"{where}: quantization_config: expected an object, found {brief(settings)}")
    method, bits = str(settings.get("quant_method")).lower(), settings.get("bits", 4)
    if method not in ("gptq", "awq") or bits not in ((4,) if method == "awq" else (2, 4, 8)):
        raise OptionError(
            f"{where}: quantised weights are read of quant_method 'gptq' (2, 4 or 8 bits) and 'awq' (4 bits), got "
            f"{brief(settings.get('quant_method'))} with {brief(bits)} bits; take the checkpoint in bfloat16 or float32"
        )
    found = {}
    for key, value in state.items():
        name, _, part = key.rpartition(".")
        if part == "qweight":
            found[f"{name}.weight"] = _matrix(where, name, settings, state, method, bits)
        elif part not in ("qzeros", "scales", "g_idx") or f"{name}.qweight" not in state:
            found[key] = value
    return found


def _matrix(
    where: str, name: str, settings: Mapping[str, Any], state: Mapping[str, Tensor], method: str, bits: int
) -> Tensor:
    """W of one layer. → (out, in) float32"""
    try:
        packed, zeros, scales = (state[f"{name}.{part}"].numpy() for part in ("qweight", "qzeros", "scales"))
    except KeyError as missing:
        raise LayoutError(f"{where}: {name}.qweight is there without {missing}") from None
    if not (packed.ndim == zeros.ndim == scales.ndim == 2 and packed.dtype == zeros.dtype == np.int32):
        raise LayoutError(f"{where}: {name}: expected int32 matrices qweight and qzeros, and a matrix of scales")
    quanta = _columns(packed, ORDER) if method == "awq" else _unpacked(packed.T, bits).T  # (in, out)
    centres = _columns(zeros, ORDER) if method == "awq" else _unpacked(zeros, bits)  # (groups, out)
    if method == "gptq" and settings.get("checkpoint_format", "gptq") == "gptq":
        centres = (centres + 1) & (2**bits - 1)
    groups = _groups(where, name, settings, state, quanta.shape[0], len(scales))
    if scales.shape != centres.shape or quanta.shape[1] != scales.shape[1]:
        raise LayoutError(
            f"{where}: {name}: qweight of {quanta.shape} integers does not go with zeros {centres.shape} and scales "
            f"{scales.shape}"
        )
    values = scales.astype(np.float32)[groups] * (quanta - centres[groups]).astype(np.float32)  # (in, out)
    return weft.from_numpy(np.ascontiguousarray(values.T))


def _groups(
    where: str, name: str, settings: Mapping[str, Any], state: Mapping[str, Tensor], inputs: int, count: int
) -> np.ndarray:
    """The number of the group of every input. → (in,)"""
    if f"{name}.g_idx" in state:
        groups = state[f"{name}.g_idx"].numpy()
    else:
        size = settings.get("group_size", 128)
        size = inputs if size == -1 else size
        if type(size) is not int or size < 1:
            raise HeaderError(f"{where}: group_size: expected a positive number or −1, found {brief(size)}")
        groups = np.arange(inputs) // size
    if groups.shape != (inputs,) or (inputs and not (0 <= groups.min() and groups.max() < count)):
        raise LayoutError(f"{where}: {name}: {count} groups of scales do not go with {inputs} inputs")
    return groups


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The integers of every int32, the lowest bits first. Shape: (R, C) → (R, C · 32 / bits) int32"""
    shifts = np.arange(0, 32, bits, dtype=np.int32)
    parts = (packed[..., None] >> shifts) & (2**bits - 1)  # (R, C, 32 / bits)
    return parts.reshape(packed.shape[0], -1)


def _columns(packed: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Eight integers of every int32, put back into their order. Shape: (R, C) → (R, 8 C) int32"""
    parts = _unpacked(packed, 4).reshape(packed.shape[0], -1, 8)
    found = np.empty_like(parts)
    found[..., list(order)] = parts
    return found.reshape(packed.shape[0], -1)
