"""Subword tokenisers over Hugging Face's `tokenizers` (extra `text`): training, and the files of any model.

BPETokenizer        merges of the most frequent pairs (Sennrich et al., 2016), of bytes (Radford et al., 2019)
WordPieceTokenizer  BERT's: greedy longest pieces, ## inside words (Schuster and Nakajima, 2012)
SubwordTokenizer    whatever a `tokenizer.json` describes: BPE, WordPiece, Unigram, WordLevel
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import OptionError
from ...io.atomic import replacing
from ...tensor import Tensor
from . import pipelines
from .folders import BERT, backend_from, backend_in, read_config, roles_of
from .tokenizers import Encoding, Special, Tokenizer, file_of, room_for, special_tokens, texts_only
from .vocabulary import Path, as_list, write_json

__all__ = ["BPETokenizer", "SubwordTokenizer", "WordPieceTokenizer"]


class SubwordTokenizer(Tokenizer):
    """A tokeniser of the `tokenizers` library under Weft's interface; `backend` is the library's object.

    Special tokens written out in a text are recognised, as in the library. Padding and truncation that a file asks for
    are switched off: `batch` pads, `max_length` cuts.
    """

    model: str | None = None  # the kind of model a class is for; None: any

    def __init__(self, backend: Any, special: Special = ()) -> None:
        self.backend, self.special = backend, special_tokens(special)
        found = type(backend.model).__name__
        if self.model not in (None, found):
            raise OptionError(
                f"{type(self).__name__}: expected a {self.model} model, got {found}; use SubwordTokenizer"
            )
        backend.no_padding()
        backend.no_truncation()

    @classmethod
    def load(cls, path: Path) -> SubwordTokenizer:
        """The tokeniser of a `tokenizer.json`, or of a folder with one, as Hugging Face models have.

        Older folders with vocab.json and merges.txt (byte-level BPE), vocab.txt (BERT's WordPiece) or a model of
        SentencePiece are read, too (`folders`). Roles of special tokens come from tokenizer_config.json and
        special_tokens_map.json, else from their spelling.
        """
        folder = os.fspath(path)
        if not os.path.isdir(folder):
            backend = backend_from(folder)
            return cls(backend, roles_of(backend, {}))
        backend, config = backend_in(folder, read_config(folder))
        return cls(backend, roles_of(backend, config))

    def encoding(self, text: str, add_special_tokens: bool = True) -> Encoding:
        return _as_encoding(self.backend.encode(text, add_special_tokens=add_special_tokens))

    def encode_pair(self, first: str, second: str, add_special_tokens: bool = True) -> Encoding:
        """Two texts as one sequence with segments 0 and 1, joined as the model asks (BERT: [CLS] a [SEP] b [SEP])."""
        return _as_encoding(self.backend.encode(first, second, add_special_tokens=add_special_tokens))

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = True, max_length: int | None = None
    ) -> list[list[int]]:
        texts = list(texts_only(texts))
        if max_length is None:
            return [e.ids for e in self.backend.encode_batch(texts, add_special_tokens=add_special_tokens)]
        added = self.backend.num_special_tokens_to_add(False) if add_special_tokens else 0
        room = room_for(max_length, added, type(self).__name__)
        plain = self.backend.encode_batch(texts, add_special_tokens=False)
        for encoding in plain:
            encoding.truncate(room)
        return [self.backend.post_process(e, add_special_tokens=add_special_tokens).ids for e in plain]

    def decode(self, ids: Iterable[int] | Tensor, skip_special_tokens: bool = True) -> str:
        return self.backend.decode(as_list(ids), skip_special_tokens=skip_special_tokens)

    def token_to_id(self, token: str) -> int | None:
        return self.backend.token_to_id(token)

    def id_to_token(self, number: int) -> str | None:
        return self.backend.id_to_token(number) if number >= 0 else None

    def __len__(self) -> int:
        return self.backend.get_vocab_size(with_added_tokens=True)

    def save(self, path: Path) -> None:
        """Write tokenizer.json, and, into a folder, tokenizer_config.json with the roles of special tokens.

        Both are Hugging Face's formats: other programs read them.
        """
        file = file_of(path)
        with replacing(file) as out:
            out.write(self.backend.to_str(pretty=True).encode())
        if file != os.fspath(path):
            roles = {f"{role}_token": token for role, token in self.special.items()}
            write_json(os.path.join(path, "tokenizer_config.json"), roles)


class BPETokenizer(SubwordTokenizer):
    """Byte-pair encoding: starting from bytes (or characters), the most frequent pair is merged, again and again.

    Example:
        >>> from weft.data.text import BPETokenizer
        >>> tokenizer = BPETokenizer.train(["low lower lowest newer newest"] * 10, vocab_size=300, special=["pad"])
        >>> tokenizer.decode(tokenizer.encode("slow, Größe 🧶"))
        'slow, Größe 🧶'
    """

    model = "BPE"

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 10_000,
        special: Special = ("pad", "unk"),
        min_frequency: int = 2,
        byte_level: bool = True,
        lower: bool = False,
    ) -> BPETokenizer:
        """Merges until there are `vocab_size` tokens or no pair is seen `min_frequency` times.

        byte_level: every text can be written and is decoded exactly. Else words end in </w> and whitespace becomes
        single spaces; characters that were not seen are `unk`. `bos` and `eos` are put around each text.
        """
        library, special = pipelines.library_of_tokenizers(), special_tokens(special)
        backend = library.Tokenizer(library.models.BPE(unk_token=None if byte_level else special.get("unk")))
        options = (pipelines.byte_level if byte_level else pipelines.word_ends)(library, backend)
        if lower:
            backend.normalizer = library.normalizers.Lowercase()
        trainer = partial(library.trainers.BpeTrainer, min_frequency=min_frequency, show_progress=False, **options)
        backend = (_trained if byte_level else _trained_marked)(backend, trainer, texts, vocab_size, special)
        pipelines.surround(library, backend, special.get("bos"), special.get("eos"))
        return cls(backend, special)


class WordPieceTokenizer(SubwordTokenizer):
    """BERT's tokeniser: words and punctuation are cut into the longest known pieces, ##-marked inside a word.

    Texts become [CLS] text [SEP], pairs [CLS] a [SEP] b [SEP].

    Example:
        >>> from weft.data.text import WordPieceTokenizer
        >>> tokenizer = WordPieceTokenizer.train(["play player playing"] * 10, vocab_size=60)
        >>> tokenizer.encoding("Playing").tokens[0], tokenizer.decode(tokenizer.encode("Playing"))
        ('[CLS]', 'playing')
    """

    model = "WordPiece"

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 10_000,
        special: Mapping[str, str] = BERT,
        min_frequency: int = 2,
        lower: bool = True,
    ) -> WordPieceTokenizer:
        """Pieces of words, at most `vocab_size`; lower: in lower case and without accents."""
        library, special = pipelines.library_of_tokenizers(), special_tokens(special)
        if "unk" not in special:
            raise OptionError(f"WordPieceTokenizer: expected a special token with the role unk, got {list(special)}")
        backend = library.Tokenizer(library.models.WordPiece(unk_token=special["unk"]))
        pipelines.bert(library, backend, lower)
        trainer = partial(library.trainers.WordPieceTrainer, min_frequency=min_frequency, show_progress=False)
        backend = _trained_marked(backend, trainer, texts, vocab_size, special)
        pipelines.surround(library, backend, special.get("cls"), special.get("sep"))
        return cls(backend, special)


# ------------------------------------------------------------------------------------------- training


def _trained(backend: Any, trainer: Any, texts: Iterable[str], size: int, special: Mapping[str, str]) -> Any:
    """The tokeniser after training with `size` tokens; one special token may have two roles."""
    tokens = list(dict.fromkeys(special.values()))
    backend.train_from_iterator(texts_only(texts), trainer(vocab_size=size, special_tokens=tokens))
    return backend


def _trained_marked(backend: Any, trainer: Any, texts: Iterable[str], size: int, special: Mapping[str, str]) -> Any:
    """The same for models that mark characters inside or at the end of words (##a, a</w>), the same at each training.

    The library numbers marked characters in the order in which a hash table holds them, which is another one each time,
    and breaks ties between merges by these numbers. So a first training, without merges, finds the marked characters,
    and the second is given them in order, as if they were special. The texts are held in memory.
    """
    texts, kept = list(texts_only(texts)), set(special.values())
    backend.train_from_iterator(texts, trainer(vocab_size=0))
    marked = sorted(token for token in backend.get_vocab() if len(token) > 1 and token not in kept)
    seeds = dict.fromkeys([*special.values(), *marked])
    state = json.loads(_trained(backend, trainer, texts, size, dict(zip(seeds, seeds, strict=True))).to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in kept]
    return pipelines.library_of_tokenizers().Tokenizer.from_str(json.dumps(state))


def _as_encoding(e: Any) -> Encoding:
    return Encoding(e.ids, e.tokens, e.offsets, e.type_ids, [bool(flag) for flag in e.special_tokens_mask])
