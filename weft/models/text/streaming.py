"""Texts while they are written: streamers that hand out whole words, and strings at which writing stops.

A streamer has `put(tokens)`, called with the beginnings (B, T) first and then with every new token (B,), and `end()`.

>>> streamer = TextStreamer(model.tokenizer, skip_prompt=True)
>>> model.generate(tokens, streamer=streamer, stop_strings=["\\n\\n"])  # prints as it goes
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import weft

from ...errors import ArgumentError, OptionError, ShapeError
from ...tensor import Tensor

__all__ = ["StopStrings", "Streamer", "TextIteratorStreamer", "TextStreamer"]

WHOLE = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2CEAF), (0x2F800, 0x2FA1F))  # Han characters


class Streamer(Protocol):
    """What `generate` tells of tokens as it writes them."""

    def put(self, value: Tensor) -> None: ...

    def end(self) -> None: ...


class TextStreamer:
    """Prints what is written as soon as it is whole words: up to the last space, line, or Han character.

    tokenizer: whatever has `decode(ids, **decode_kwargs)`. skip_prompt: without the beginning. One text at a time.
    """

    def __init__(self, tokenizer: Any, skip_prompt: bool = False, **decode_kwargs: Any) -> None:
        self.tokenizer, self.skip_prompt, self.decode_kwargs = tokenizer, skip_prompt, decode_kwargs
        self.tokens: list[int] = []  # of the line so far
        self.told = 0  # characters of it that have been handed out
        self.begun = False

    def put(self, value: Tensor) -> None:
        if value.ndim > 1 and len(value) > 1:
            raise ShapeError(f"{type(self).__name__}: expected one text at a time, got {len(value)}")
        first, self.begun = not self.begun, True
        if first and self.skip_prompt:
            return
        self.tokens += value.reshape(-1).tolist()
        text = self._text()
        whole = len(text) if self._is_whole(text) else text.rfind(" ") + 1
        self.on_finalized_text(text[self.told : whole])
        self.told = max(self.told, whole)
        if text.endswith("\n"):
            self.tokens, self.told = [], 0

    def end(self) -> None:
        """Hand out what is left."""
        rest = self._text()[self.told :] if self.tokens else ""
        self.tokens, self.told, self.begun = [], 0, False
        self.on_finalized_text(rest, stream_end=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """What is done with text that no later token changes; a line ends with the stream."""
        print(text, flush=True, end="\n" if stream_end else "")

    def _text(self) -> str:
        return self.tokenizer.decode(self.tokens, **self.decode_kwargs)

    @staticmethod
    def _is_whole(text: str) -> bool:
        return text.endswith("\n") or (bool(text) and any(a <= ord(text[-1]) <= b for a, b in WHOLE))


class TextIteratorStreamer(TextStreamer):
    """The pieces of text one after another, for a thread that reads while another one writes.

    timeout: seconds to wait for a piece; `queue.Empty` after that.

    >>> streamer = TextIteratorStreamer(model.tokenizer)
    >>> threading.Thread(target=model.generate, args=(tokens,), kwargs={"streamer": streamer}).start()
    >>> for piece in streamer: ...
    """

    def __init__(
        self, tokenizer: Any, skip_prompt: bool = False, timeout: float | None = None, **decode_kwargs: Any
    ) -> None:
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.text_queue: queue.Queue[str | None] = queue.Queue()
        self.timeout = timeout

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        self.text_queue.put(text, timeout=self.timeout)
        if stream_end:
            self.text_queue.put(None, timeout=self.timeout)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        piece = self.text_queue.get(timeout=self.timeout)
        if piece is None:
            raise StopIteration
        return piece


class StopStrings:
    """Which rows have written one of these strings, in the tokens after the beginning; it may span several tokens.

    Only the last tokens are decoded, as many as the longest string can have, so a text of any length costs the same.
    """

    def __init__(self, tokenizer: Any, strings: str | Sequence[str], prompt: int) -> None:
        self.strings = [strings] if isinstance(strings, str) else list(strings)
        if not self.strings or not all(isinstance(string, str) and string for string in self.strings):
            raise OptionError(f"stop_strings: expected a string or several, none of them empty, got {strings!r:.80}")
        if not hasattr(tokenizer, "decode"):
            raise ArgumentError(f"stop_strings: expected a tokenizer with decode, got {type(tokenizer).__name__}")
        self.tokenizer, self.prompt = tokenizer, prompt
        self.most = 4 * max(len(string.encode()) for string in self.strings) + 8  # tokens: some have no character

    def __call__(self, tokens: Tensor) -> Tensor:
        """(B, T) → (B,) bool"""
        begin = max(self.prompt, tokens.shape[1] - self.most)
        texts = [self.tokenizer.decode(row) for row in tokens[:, begin:].tolist()]
        return weft.tensor([any(string in text for string in self.strings) for text in texts])
