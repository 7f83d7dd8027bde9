"""`weft fine-tune`: the language model of a local folder learns from texts by LoRA, and is written as a folder again."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .machine import AsJson
from .output import Misuse, deliver, labelled

if TYPE_CHECKING:
    from rich.console import Console

__all__: list[str] = []

HELD_OUT = 10  # one text of so many is kept to validate


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("fine-tune", rich_help_panel="Training")(fine_tune)


def fine_tune(
    model: Annotated[Path, typer.Argument(help="A folder of a language model as Hugging Face lays it out.")],
    texts: Annotated[
        Path, typer.Argument(help="A .txt (texts between empty lines), .jsonl, .csv, .parquet or datasets folder.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    field: Annotated[str, typer.Option(help="The column of the texts.")] = "text",
    rank: Annotated[int, typer.Option(min=1, help="Of the changes of the weights.")] = 8,
    alpha: Annotated[float, typer.Option(help="Their scale is alpha / rank.")] = 16.0,
    epochs: Annotated[int, typer.Option(min=1, help="How often all texts are seen.")] = 1,
    lr: Annotated[float, typer.Option(help="Step size of AdamW.")] = 2e-4,
    batch_size: Annotated[int, typer.Option(min=1, help="Blocks of a step.")] = 8,
    block_size: Annotated[int, typer.Option(min=2, help="Tokens of a block.")] = 128,
    layers: Annotated[str | None, typer.Option(help="Patterns of the layers, such as '*q_proj,*v_proj'.")] = None,
    seed: Annotated[int, typer.Option(help="Of the order of blocks and of the first changes.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train the language model of a folder on texts by LoRA, and write the result as a folder that transformers reads.

    One text in ten is held out; the loss of its tokens is shown before and after. Beside the model lies
    adapter.safetensors, the changes alone. Nothing is downloaded.

    Example: weft fine-tune SmolLM-135M diary.txt -o my-model --epochs 2
    """
    from ..models.pretrained import fine_tuning

    read = _texts(texts, field)
    kept = read[HELD_OUT - 1 :: HELD_OUT]
    used = [text for i, text in enumerate(read) if i % HELD_OUT != HELD_OUT - 1]
    options: dict[str, Any] = {"rank": rank, "alpha": alpha, "epochs": epochs, "lr": lr, "batch_size": batch_size}
    options |= {"seed": seed, "progress": not as_json, "run_folder": False}
    patterns = None if layers is None else [pattern.strip() for pattern in layers.split(",")]
    before = _loss(model, kept, block_size) if kept else None
    fine_tuning.fine_tune(model, used, output, patterns=patterns, block_size=block_size, **options)
    after = _loss(output, kept, block_size) if kept else None
    told = {
        "output": str(output),
        "texts": len(used),
        "held_out": len(kept),
        "loss_before": before,
        "loss_after": after,
    }
    deliver(told, as_json, lambda console: _show(console, told))


def _texts(path: Path, field: str) -> list[str]:
    """The texts of a file or folder."""
    from ..data import from_hf, from_parquet

    if not path.exists():
        raise Misuse(f"there is no {path}")
    if path.is_dir() or path.suffix == ".parquet":
        rows = from_hf(path) if path.is_dir() else from_parquet(path)
        rows = next(iter(rows.values())) if isinstance(rows, dict) else rows
        found = [row.get(field) for row in (rows[i] for i in range(len(rows)))]
    elif path.suffix == ".txt":
        lines = path.read_text(encoding="utf-8").splitlines()
        found = [
            "\n".join(part) for empty, part in itertools.groupby(lines, lambda line: not line.strip()) if not empty
        ]
    elif path.suffix in (".jsonl", ".json"):
        found = [json.loads(line).get(field) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    elif path.suffix == ".csv":
        import csv

        with open(path, newline="", encoding="utf-8") as file:
            found = [row.get(field) for row in csv.DictReader(file)]
    else:
        raise Misuse(f"{path}: expected .txt, .jsonl, .csv, .parquet or a folder")
    made = [text for text in found if isinstance(text, str) and text]
    if not made:
        raise Misuse(
            f"{path} has no texts" + ("" if path.suffix == ".txt" else f" in a column {field!r}; give --field")
        )
    return made


def _loss(folder: Path, texts: list[str], block_size: int) -> float:
    """The mean loss of the tokens of texts: −log p in nats."""
    import weft

    from ..models import from_pretrained

    model = from_pretrained(folder).eval()
    total, count = 0.0, 0
    with weft.no_grad():
        for text in texts:
            tokens = weft.tensor(list(model.tokenizer.encode(text))[: block_size + 1]).unsqueeze(0)
            if tokens.shape[1] > 1:
                total += float(model(tokens, labels=tokens).loss) * (tokens.shape[1] - 1)
                count += tokens.shape[1] - 1
    return total / count if count else math.nan


def _show(console: Console, told: dict[str, Any]) -> None:
    rows = [("written to", told["output"]), ("texts", f"{told['texts']}, {told['held_out']} held out")]
    if told["loss_before"] is not None:
        rows.append(("loss of a token", f"{told['loss_before']:.4f} before, {told['loss_after']:.4f} after"))
    console.print(labelled(rows))
