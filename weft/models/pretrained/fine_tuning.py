"""Fine-tuning the language model of a local folder by LoRA: texts in, a folder out that other programs read.

Texts are joined with the end token and cut into blocks. Only the low-rank changes of the named weights are trained
(`weft.train.methods.lora`); at the end they are added to the weights, so the folder that is written is an ordinary one.

>>> model = fine_tune("SmolLM-135M", ["Dear diary, …", "…"], "my-model", rank=8, epochs=2)
>>> model.generate(model.tokenizer.tensor("Dear").unsqueeze(0), max_new_tokens=20)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import weft

from ... import optim
from ...data import DataLoader, TensorDataset
from ...errors import OptionError
from ...io.atomic import Path
from ...io.safetensors import save_file
from ...nn.module import Module
from ...nn.modules.linear import Linear
from ...tensor import Tensor
from ...train import Task, Trainer
from ...train.methods.lora import add_lora, lora_state_dict, remove_lora
from ...train.methods.parts import Patterns
from .huggingface import from_pretrained

__all__ = ["FineTuning", "fine_tune", "token_blocks"]

# queries and values, as in the paper; the names that families have for them
USUAL = ("q_proj", "v_proj", "query", "value", "qkv_proj", "query_key_value", "in_proj", "q_lin", "v_lin")


class FineTuning(Task):
    """The loss of the next tokens, of the parameters that are not frozen, by AdamW."""

    def __init__(self, model: Module, lr: float = 2e-4, weight_decay: float = 0.0) -> None:
        super().__init__()
        self.model, self.lr, self.weight_decay = model, lr, weight_decay

    def training_step(self, batch: tuple[Tensor, ...]) -> Tensor:
        loss = self._loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, ...]) -> None:
        self.log("val_loss", self._loss(batch))

    def _loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        (tokens,) = batch
        return self.model(tokens, labels=tokens, return_dict=True).loss

    def configure_optimizers(self) -> Any:
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        return optim.AdamW(trained, self.lr, weight_decay=self.weight_decay)


def token_blocks(tokenizer: Any, texts: Iterable[str], length: int, end: int | None) -> Tensor:
    """All texts, each followed by the end token if there is one, cut into blocks; what is left over goes. → (N, length)"""
    stream: list[int] = []
    for text in texts:
        stream += [int(number) for number in tokenizer.encode(text)]
        stream += [] if end is None else [end]
    count = len(stream) // length
    if not count:
        raise OptionError(f"fine_tune: the texts have {len(stream)} tokens, less than a block of {length}")
    return weft.tensor(stream[: count * length]).reshape(count, length)


def fine_tune(
    folder: Path,
    texts: Iterable[str],
    output: Path | None = None,
    *,
    validation: Iterable[str] | None = None,
    patterns: Patterns | None = None,
    rank: int = 8,
    alpha: float | None = 16.0,
    block_size: int = 128,
    batch_size: int = 8,
    epochs: int = 1,
    lr: float = 2e-4,
    seed: int = 0,
    tokenizer: Any = None,
    **trainer: Any,
) -> Any:
    """The language model of a folder, trained further on texts by LoRA, with the changes added to its weights.

    output: where the model is written, as `save_pretrained` does, and beside it adapter.safetensors, the changes alone.
    patterns: names of the layers that are changed, queries and values unless given. tokenizer: the folder's unless given.
    trainer: options of `weft.train.Trainer` (run_folder, max_steps, progress, …).
    """
    model = from_pretrained(folder)
    end = model.config.eos_token_id
    end = end[0] if isinstance(end, list) else end
    tokenizer = model.tokenizer if tokenizer is None else tokenizer
    weft.manual_seed(seed)
    names = add_lora(model, _usual(model) if patterns is None else patterns, rank, alpha)
    parts = [None if part is None else token_blocks(tokenizer, part, block_size, end) for part in (texts, validation)]
    loaders = [
        None if part is None else DataLoader(TensorDataset(part), min(batch_size, len(part)), shuffle=not number)
        for number, part in enumerate(parts)
    ]
    task = FineTuning(model.train(), lr)
    Trainer(epochs, **{"seed": seed, **trainer}).fit(task, *(part for part in loaders if part is not None))
    changes = {key: value.clone() for key, value in lora_state_dict(model).items()}
    remove_lora(model.eval())
    for parameter in model.parameters():
        parameter.requires_grad = True
    if output is not None:
        model.save_pretrained(output)
        about = {"rank": str(rank), "alpha": str(rank if alpha is None else alpha), "layers": ",".join(names)}
        save_file(changes, os.path.join(output, "adapter.safetensors"), about)
    return model


def _usual(model: Module) -> list[str]:
    """The names of linear layers that make queries and values."""
    found = [
        name for name, part in model.named_modules() if isinstance(part, Linear) and name.rpartition(".")[2] in USUAL
    ]
    if not found:
        raise OptionError(f"fine_tune: {type(model).__name__} has no layers of the usual names; give patterns")
    return found
