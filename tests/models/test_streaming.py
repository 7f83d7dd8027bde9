"""Streamers and stop strings: pieces and texts beside those of transformers, and what a text is cut at."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError
from weft.models.supervised import GPT2Config, GPT2LMHeadModel
from weft.models.text import TextIteratorStreamer, TextStreamer

from . import hf_cases

PIECES = ["Hel", "lo", " wor", "ld", ",", " 中", "文", "!", "\n", "next", " line", "", " x"]


class Pieces:
    """A tokeniser whose token i is piece i."""

    def decode(self, ids: Any, skip_special_tokens: bool = False, **options: Any) -> str:
        return "".join(PIECES[int(i) % len(PIECES)] for i in ids)


class Kept:
    """The pieces that a streamer hands out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.heard: list[tuple[str, bool]] = []

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self.heard.append((text, stream_end))


@hf_cases.needs_transformers
@pytest.mark.parametrize("skip", [False, True])
def test_pieces_are_those_of_transformers(skip: bool) -> None:
    import torch

    library = hf_cases.load_transformers()
    theirs = type("Theirs", (Kept, library.TextStreamer), {})(Pieces(), skip_prompt=skip)
    ours = type("Ours", (Kept, TextStreamer), {})(Pieces(), skip_prompt=skip)
    for seed in range(20):
        tokens = np.random.default_rng(seed).integers(0, len(PIECES), 12)
        for streamer, tensor in ((theirs, torch.tensor), (ours, weft.tensor)):
            streamer.put(tensor(tokens[None, :4]))
            for token in tokens[4:]:
                streamer.put(tensor(token[None]))
            streamer.end()
    assert ours.heard == theirs.heard


def model() -> GPT2LMHeadModel:
    weft.manual_seed(0)
    sizes = {"vocab_size": len(PIECES), "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    made = GPT2LMHeadModel(GPT2Config.from_dict({**sizes, "eos_token_id": None, "bos_token_id": None})).eval()
    for parameter in made.parameters():
        parameter.data = parameter.data + 0.5 * weft.randn(*parameter.shape)
    return made


def test_what_is_streamed_is_what_is_returned(capsys: pytest.CaptureFixture[str]) -> None:
    gpt, start = model(), weft.tensor([[0, 1, 2]])
    for options in ({}, {"compiled": True}, {"do_sample": True, "temperature": 3.0}):
        streamer = TextIteratorStreamer(Pieces(), skip_prompt=True, timeout=60)
        found: list[weft.Tensor] = []
        writer = threading.Thread(
            target=lambda s=streamer, o=options, f=found: f.append(
                gpt.generate(start, max_new_tokens=12, streamer=s, **o)
            )
        )
        writer.start()
        text = "".join(streamer)
        writer.join()
        assert text == Pieces().decode(found[0][0, 3:].tolist())
    gpt.generate(start, max_new_tokens=3, streamer=TextStreamer(Pieces()))
    printed = capsys.readouterr().out
    assert printed == Pieces().decode(gpt.generate(start, max_new_tokens=3)[0].tolist()) + "\n"


def test_texts_end_with_the_token_that_completes_a_string() -> None:
    gpt, start = model(), weft.tensor([[0, 1], [3, 4]])
    whole = gpt.generate(
        start, max_new_tokens=20, do_sample=True, temperature=5.0, generator=weft.Generator().manual_seed(1)
    )
    texts = [Pieces().decode(row[2:].tolist()) for row in whole]
    stop = texts[0][3:6]  # across tokens
    again = gpt.generate(
        start,
        max_new_tokens=20,
        do_sample=True,
        temperature=5.0,
        generator=weft.Generator().manual_seed(1),
        stop_strings=[stop, "never"],
        tokenizer=Pieces(),
        pad_token_id=11,
    )
    for row, full in zip(again.tolist(), whole.tolist(), strict=True):
        written = next((n for n in range(1, 21) if stop in Pieces().decode(full[2 : 2 + n])), 20)
        assert row[2 : 2 + written] == full[2 : 2 + written]
        assert set(row[2 + written :]) <= {11}
    config = type(gpt.generation_config)(stop_strings="ld", max_new_tokens=20)
    assert gpt.generate(start, generation_config=config, tokenizer=Pieces()).shape[1] <= 22


@hf_cases.needs_transformers
def test_stop_strings_stop_where_transformers_stops(tmp_path: Path) -> None:
    """With a tokeniser of the folder, made here: one token for each of forty letters."""
    import torch

    tokenizers = pytest.importorskip("tokenizers")
    theirs = hf_cases.save(hf_cases.CASES["llama-tied"], tmp_path)
    letters = [chr(ord("A") + i) for i in range(40)]
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({letter: i for i, letter in enumerate(letters)}, "A"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    backend.decoder = tokenizers.decoders.Fuse()
    library = hf_cases.load_transformers()
    tokenizer = library.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="A")
    tokenizer.save_pretrained(tmp_path)
    ours, start = weft.models.from_pretrained(tmp_path), np.array([[5, 6, 7]])
    options = {"max_new_tokens": 15, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    whole = theirs.generate(torch.tensor(start), **options)[0, 3:].tolist()
    for first, size in ((0, 1), (2, 2), (3, 3)):
        stop = "".join(letters[i] for i in whole[first : first + size])
        expected = theirs.generate(torch.tensor(start), stop_strings=[stop], tokenizer=tokenizer, **options)
        found = ours.generate(weft.tensor(start), stop_strings=[stop], **options)
        np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=stop)


def test_what_cannot_be_streamed_says_why() -> None:
    gpt, two = model(), weft.tensor([[0, 1], [3, 4]])
    with pytest.raises(ShapeError, match="one text at a time"):
        gpt.generate(two, streamer=TextStreamer(Pieces()))
    with pytest.raises(OptionError, match="num_beams=1"):
        gpt.generate(two[:1], streamer=TextStreamer(Pieces()), num_beams=2)
    with pytest.raises(OptionError, match="none of them empty"):
        gpt.generate(two, stop_strings=[""], tokenizer=Pieces())
    with pytest.raises(OptionError, match="not loaded from a folder"):
        gpt.generate(two, stop_strings="x")
    with pytest.raises(TypeError, match="with decode"):
        gpt.generate(two, stop_strings="x", tokenizer=3)
