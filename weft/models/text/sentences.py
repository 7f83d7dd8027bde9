"""Sentences as vectors: an encoder, pooling over its tokens, and a norm, as sentence-transformers writes them in folders.

(Reimers and Gurevych, 2019.) Vectors of sentences that mean the same point the same way: u · v is their cosine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import weft

from ... import nn
from ...errors import OptionError
from ...io.atomic import Path
from ...io.bounded import load_json
from ...io.errors import HeaderError
from ...tensor import Tensor
from ..pretrained.huggingface import body_architecture, from_pretrained, read_weights

__all__ = ["SentenceEncoder", "pool"]

Pooling = Callable[[Tensor, Tensor], Tensor]


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask).sum(1) / mask.sum(1).clamp(min=1e-9)


def _max(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(mask == 0, -1e9).amax(1)


def _root_mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask).sum(1) / mask.sum(1).clamp(min=1e-9).sqrt()


def _weighted_mean(x: Tensor, mask: Tensor) -> Tensor:
    return _mean(x, mask * weft.arange(1, x.shape[1] + 1)[:, None])


def _last(x: Tensor, mask: Tensor) -> Tensor:
    place = (weft.arange(x.shape[1]) * mask.squeeze(-1)).argmax(-1)  # (B,)
    return x[weft.arange(len(x)), place]


# by the names of 1_Pooling/config.json, in the order in which several are joined
POOLINGS: dict[str, Pooling] = {
    "cls_token": lambda x, mask: x[:, 0],
    "max_tokens": _max,
    "mean_tokens": _mean,
    "mean_sqrt_len_tokens": _root_mean,
    "weightedmean_tokens": _weighted_mean,
    "lasttoken": _last,
}


def pool(x: Tensor, mask: Tensor, modes: Sequence[str] = ("mean_tokens",)) -> Tensor:
    """One vector for each row, from the tokens with mask 1; several modes are joined. (B, T, C), (B, T) → (B, modes · C)

    modes: cls_token, max_tokens, mean_tokens, mean_sqrt_len_tokens, weightedmean_tokens, lasttoken.
    """
    unknown = [mode for mode in modes if mode not in POOLINGS]
    if unknown or not modes:
        raise OptionError(f"pool: expected modes among {', '.join(POOLINGS)}, got {list(modes)}")
    mask = mask.unsqueeze(-1).to(x.dtype)  # (B, T, 1)
    return weft.cat([POOLINGS[mode](x, mask) for mode in modes], -1)


class SentenceEncoder(nn.Module):
    """normalise(dense(pool(encoder(tokens)))): texts as vectors.

    modes: see `pool`. max_length: longer texts are cut to so many tokens. lower: texts go in in lower case.

    Example:
        >>> model = SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
        >>> a, b, c = model.encode(["A cat sits.", "A kitten is sitting.", "Stocks fell."])
        >>> (a @ b).item() > (a @ c).item()
        True
    """

    def __init__(
        self,
        encoder: nn.Module,
        tokenizer: Any,
        modes: Sequence[str] = ("mean_tokens",),
        dense: nn.Module | None = None,
        normalize: bool = True,
        max_length: int | None = None,
        lower: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.dense = encoder, dense
        self.modes, self.normalize, self.max_length, self.lower = tuple(modes), normalize, max_length, lower
        self.__dict__["tokenizer"] = tokenizer

    @classmethod
    def from_pretrained(cls, folder: Path, **changes: Any) -> Self:
        """The model of a folder of sentence-transformers (modules.json), or of an encoder's: mean of tokens, norm 1."""
        path = os.fspath(folder)
        steps = [(_kind(row), os.path.join(path, row.get("path", ""))) for row in _modules(path)]
        body = next((place for kind, place in steps if kind == "Transformer"), path)
        encoder = from_pretrained(body, **{"architecture": body_architecture(body), **changes})
        poolings = [_modes(place) for kind, place in steps if kind == "Pooling"] or [["mean_tokens"]]
        rest = [(kind, place) for kind, place in steps if kind not in ("Transformer", "Pooling")]
        unknown = [kind for kind, _ in rest if kind not in PARTS]
        if unknown or len(poolings) > 1:
            raise OptionError(
                f"{path}: modules.json has parts that are not supported: {', '.join(unknown or ['Pooling'])}"
            )
        normalize = not steps or (bool(rest) and rest[-1][0] == "Normalize")
        parts = [PARTS[kind](place) for kind, place in (rest[:-1] if steps and normalize else rest)]
        dense = nn.Sequential(*parts) if parts else None
        file = os.path.join(body, "sentence_bert_config.json")
        reading = load_json(file) if os.path.isfile(file) else {}
        lower = bool(reading.get("do_lower_case"))
        most = _most_tokens(encoder.config, reading.get("max_seq_length"))
        return cls(encoder, encoder.tokenizer, poolings[0], dense, normalize, most, lower).eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Shape: (B, T), (B, T) → (B, D)"""
        found = self.encoder(input_ids, attention_mask)
        x = pool(found if isinstance(found, Tensor) else found[0], attention_mask, self.modes)
        x = x if self.dense is None else self.dense(x)
        return nn.functional.normalize(x, dim=-1) if self.normalize else x

    def encode(self, texts: str | Sequence[str], batch_size: int = 32) -> Tensor:
        """The vectors of texts, computed in batches of similar length; one text gives one vector. N of str → (N, D)"""
        if isinstance(texts, str):
            return self.encode([texts], batch_size)[0]
        texts, rows = [text.lower() if self.lower else text for text in texts], []
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        with weft.no_grad():
            for start in range(0, len(order), batch_size):
                chosen = [texts[i] for i in order[start : start + batch_size]]
                batch = self.tokenizer.batch(chosen, max_length=self.max_length)
                rows.append(self(batch.data, batch.mask))
            if not rows:
                return weft.zeros(0, self(weft.tensor([[0]]), weft.tensor([[1]])).shape[1])
            return weft.cat(rows)[weft.tensor(order).argsort()]


class Normalize(nn.Module):
    """x / |x|. Shape: (B, C) → (B, C)"""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=-1)


# ------------------------------------------------------------------------------------------- files


def _most_tokens(config: Any, asked: int | None) -> int | None:
    """How many tokens of a text are read: no more than the encoder has positions for."""
    room = getattr(config, "most_tokens", getattr(config, "max_position_embeddings", None))
    return min(asked, room) if asked and room else asked or room


def _modules(folder: str) -> list[dict[str, Any]]:
    file = os.path.join(folder, "modules.json")
    if not os.path.isfile(file):
        return []
    rows = load_json(file)
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "type" in row for row in rows):
        raise HeaderError(f"{file}: expected a list of parts, each with a type and a path")
    return rows


def _kind(row: dict[str, Any]) -> str:
    return row["type"].rpartition(".")[2]


def _modes(folder: str) -> list[str]:
    """The poolings of 1_Pooling/config.json: a flag each, or, in newer files, one name."""
    fields = load_json(os.path.join(folder, "config.json"))
    flags = [mode for mode in POOLINGS if fields.get(f"pooling_mode_{mode}")]
    named = fields.get("pooling_mode")
    return flags or [{"cls": "cls_token", "lasttoken": "lasttoken"}.get(named, f"{named}_tokens")]


def _dense(folder: str) -> nn.Module:
    """φ(W x + b) after the pooling."""
    fields = load_json(os.path.join(folder, "config.json"))
    name = fields.get("activation_function", "torch.nn.modules.linear.Identity").rpartition(".")[2]
    if name not in ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid"):
        raise OptionError(f"{folder}: activation_function {name} is not supported")
    linear = nn.Linear(fields["in_features"], fields["out_features"], bias=fields.get("bias", True))
    linear.load_state_dict({key.removeprefix("linear."): value for key, value in read_weights(folder).items()})
    return nn.Sequential(linear, getattr(nn, name)())


def _layer_norm(folder: str) -> nn.Module:
    norm = nn.LayerNorm(load_json(os.path.join(folder, "config.json"))["dimension"])
    norm.load_state_dict({key.removeprefix("norm."): value for key, value in read_weights(folder).items()})
    return norm


# what may come after the pooling
PARTS: dict[str, Callable[[str], nn.Module]] = {
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Normalize": lambda folder: Normalize(),
    "Dropout": lambda folder: nn.Identity(),  # vectors are made without
}
