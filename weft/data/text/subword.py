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
from ...io.errors import FileFormatError
from ...tensor import Tensor
from .tokenizers import ROLES, Encoding, Special, Tokenizer, file_of, room_for, special_tokens, texts_only
from .vocabulary import Path, as_list, write_json

__all__ = ["BPETokenizer", "SubwordTokenizer", "WordPieceTokenizer"]

BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
WELL_KNOWN = {
    **{token: role for role, token in BERT.items()},
    **{f"<{role}>": role for role in ROLES},
    **{"<s>": "bos", "</s>": "eos", "<|endoftext|>": "eos", "<|begin_of_text|>": "bos", "<|end_of_text|>": "eos"},
}


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

        Older folders with vocab.json and merges.txt (byte-level BPE) or vocab.txt (BERT's WordPiece) are read, too.
        Roles of special tokens come from tokenizer_config.json and special_tokens_map.json, else from their spelling.
        """
        folder = os.fspath(path)
        if not os.path.isdir(folder):
            backend = _backend_from(folder)
            return cls(backend, _roles(backend, {}))
        config = _config(folder)
        backend = _backend_in(folder, config)
        return cls(backend, _roles(backend, config))

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
        library, special = _library(), special_tokens(special)
        backend = library.Tokenizer(library.models.BPE(unk_token=None if byte_level else special.get("unk")))
        options = (_byte_level if byte_level else _word_ends)(library, backend)
        if lower:
            backend.normalizer = library.normalizers.Lowercase()
        trainer = partial(library.trainers.BpeTrainer, min_frequency=min_frequency, show_progress=False, **options)
        backend = (_trained if byte_level else _trained_marked)(backend, trainer, texts, vocab_size, special)
        _surround(library, backend, special.get("bos"), special.get("eos"))
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
        library, special = _library(), special_tokens(special)
        if "unk" not in special:
            raise OptionError(f"WordPieceTokenizer: expected a special token with the role unk, got {list(special)}")
        backend = library.Tokenizer(library.models.WordPiece(unk_token=special["unk"]))
        _bert(library, backend, lower)
        trainer = partial(library.trainers.WordPieceTrainer, min_frequency=min_frequency, show_progress=False)
        backend = _trained_marked(backend, trainer, texts, vocab_size, special)
        _surround(library, backend, special.get("cls"), special.get("sep"))
        return cls(backend, special)


# ------------------------------------------------------------------------------------------- pipelines


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError("subword tokenisers need the package tokenizers: pip install 'weft[text]'") from error
    return tokenizers


def _byte_level(library: Any, backend: Any) -> dict[str, Any]:
    """GPT-2's pipeline: every byte is a character of an alphabet of 256, a space belongs to the word after it."""
    backend.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = library.decoders.ByteLevel()
    return {"initial_alphabet": library.pre_tokenizers.ByteLevel.alphabet()}


def _word_ends(library: Any, backend: Any) -> dict[str, Any]:
    """The pipeline of Sennrich et al.: words between spaces, their last piece marked."""
    backend.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    backend.decoder = library.decoders.BPEDecoder(suffix="</w>")
    return {"end_of_word_suffix": "</w>"}


def _bert(library: Any, backend: Any, lower: bool) -> None:
    backend.normalizer = library.normalizers.BertNormalizer(lowercase=lower)
    backend.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    backend.decoder = library.decoders.WordPiece()


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
    return _library().Tokenizer.from_str(json.dumps(state))


def _surround(library: Any, backend: Any, before: str | None, after: str | None) -> None:
    """Put a token before each text and one after it, and after the second of a pair."""
    added = [token for token in (before, after) if token is not None]
    if not added:
        return
    first, second = (f"{before} " if before else ""), (f" {after}" if after else "")
    backend.post_processor = library.processors.TemplateProcessing(
        single=f"{first}$A{second}",
        pair=f"{first}$A{second} $B:1{second and second + ':1'}",
        special_tokens=[(token, backend.token_to_id(token)) for token in dict.fromkeys(added)],
    )


def _as_encoding(e: Any) -> Encoding:
    return Encoding(e.ids, e.tokens, e.offsets, e.type_ids, [bool(flag) for flag in e.special_tokens_mask])


# ------------------------------------------------------------------------------------------- files


def _backend_in(folder: str, config: Mapping[str, Any]) -> Any:
    """The tokeniser of a folder: tokenizer.json, or the files of older models."""
    whole, vocabulary, merges, words = (
        os.path.join(folder, name) for name in ("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt")
    )
    if os.path.isfile(whole):
        return _backend_from(whole)
    library = _library()
    if os.path.isfile(vocabulary) and os.path.isfile(merges):
        backend = library.Tokenizer(_read(library.models.BPE.from_file, vocabulary, merges))
        _byte_level(library, backend)
        return backend
    if os.path.isfile(words):
        backend = library.Tokenizer(_read(library.models.WordPiece.from_file, words, unk_token=BERT["unk"]))
        _bert(library, backend, config.get("do_lower_case", True))
        _surround(library, backend, BERT["cls"], BERT["sep"])
        backend.add_special_tokens([token for token in BERT.values() if backend.token_to_id(token) is not None])
        return backend
    raise FileNotFoundError(
        f"{folder}: expected tokenizer.json, or vocab.json with merges.txt, or vocab.txt, found none of them"
    )


def _backend_from(path: str) -> Any:
    with open(path, "rb"):  # a missing file raises its usual error
        return _read(_library().Tokenizer.from_file, path)


def _read(read: Any, *paths: str, **options: Any) -> Any:
    try:
        return read(*paths, **options)
    except Exception as error:  # the library raises plain Exceptions
        raise FileFormatError(f"{paths[0]}: cannot be read as a tokeniser ({error})") from None


def _config(folder: str) -> dict[str, Any]:
    """What tokenizer_config.json and special_tokens_map.json say."""
    merged: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                text = file.read()
            try:
                merged.update(json.loads(text))
            except (ValueError, TypeError) as error:
                raise FileFormatError(f"{path}: expected a JSON object, got something else ({error})") from None
    return merged


def _roles(backend: Any, config: Mapping[str, Any]) -> dict[str, str]:
    """role → token of the special tokens, from the configuration, else by their spelling."""
    named = {role: config.get(f"{role}_token") for role in ROLES}
    named = {role: token.get("content") if isinstance(token, dict) else token for role, token in named.items()}
    given = {role: token for role, token in named.items() if token and backend.token_to_id(token) is not None}
    if given:
        return given
    added = [token.content for token in backend.get_added_tokens_decoder().values()]
    return {WELL_KNOWN[token]: token for token in added if token in WELL_KNOWN}
