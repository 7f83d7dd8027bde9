"""Tokenisers of Hugging Face folders: tokenizer.json, or the files of older models.

vocab.json, merges.txt         bytes merged (GPT-2, RoBERTa, BART, OPT)
vocab.txt                      WordPiece (BERT, DistilBERT, ELECTRA, MPNet)
spiece.model, tokenizer.model  SentencePiece (T5, ALBERT, XLM-RoBERTa, CamemBERT, Llama)
source.spm, vocab.json         SentencePiece with other numbers (Marian: the language that is read)

What goes around a text depends on the model: tokenizer_class of tokenizer_config.json names it, or config.json does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import MissingFileError
from ...io.bounded import load_json
from ...io.errors import FileFormatError
from .patterns import check_patterns
from .pipelines import bert, byte_level, library_of_tokenizers, surround
from .sentencepiece import CONTROL, Piece, SentencePieceModel, read_sentencepiece
from .tokenizers import ROLES

__all__ = ["backend_from", "backend_in", "read_config", "roles_of"]

NEVER = -1e6  # the score of pieces that are not to be found in texts
SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "sentencepiece.model")
BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
ENDS = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
WELL_KNOWN = {
    **{token: role for role, token in BERT.items()},
    **{f"<{role}>": role for role in ROLES},
    **{"<s>": "bos", "</s>": "eos", "<|endoftext|>": "eos", "<|begin_of_text|>": "bos", "<|end_of_text|>": "eos"},
}


@dataclass(frozen=True)
class Style:
    """The special tokens of a model by role, and which roles go before and after a text."""

    special: Mapping[str, str]
    before: str | None = None
    after: str | None = None
    doubled: bool = False  # two separators between the texts of a pair


STYLES = {
    "bert": Style(BERT, "cls", "sep"),
    "mpnet": Style({**ROBERTA, "unk": "[UNK]"}, "cls", "sep", doubled=True),
    "gpt2": Style({role: "<|endoftext|>" for role in ("unk", "bos", "eos")}),
    "roberta": Style(ROBERTA, "cls", "sep", doubled=True),
    "xlmroberta": Style(ROBERTA, "cls", "sep", doubled=True),
    "camembert": Style(ROBERTA, "cls", "sep", doubled=True),
    "albert": Style({**BERT, "pad": "<pad>", "unk": "<unk>"}, "cls", "sep"),
    "t5": Style({role: ENDS[role] for role in ("pad", "unk", "eos")}, None, "eos"),
    "marian": Style({role: ENDS[role] for role in ("pad", "unk", "eos")}, None, "eos"),
    "llama": Style(ENDS, "bos"),
}
SAME = {"distilbert": "bert", "electra": "bert", "bart": "roberta", "longformer": "roberta", "mt5": "t5"}
SAME |= {"opt": "gpt2", "mistral": "llama"}


def backend_in(folder: str, config: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """The tokeniser of a folder, and the config with the special tokens that its model has by itself."""
    whole = os.path.join(folder, "tokenizer.json")
    if os.path.isfile(whole):
        return backend_from(whole), config
    library, names = library_of_tokenizers(), ("vocab.json", "merges.txt", "vocab.txt", "source.spm", *SENTENCEPIECE)
    files = {name: os.path.join(folder, name) for name in names if os.path.isfile(os.path.join(folder, name))}
    pieces = next((files[name] for name in SENTENCEPIECE if name in files), None)
    if "vocab.json" in files and "merges.txt" in files:
        backend, kind = _bytes(library, files, config)
    elif "vocab.txt" in files:
        backend, kind = _words(library, files["vocab.txt"], config)
    elif "source.spm" in files and "vocab.json" in files:
        backend, kind = _marian(library, files), "marian"
    elif pieces is not None:
        backend, kind = _pieces(library, pieces, folder, config)
    else:
        raise MissingFileError(
            f"{folder}: expected tokenizer.json, or vocab.json with merges.txt, or vocab.txt, or vocab.json with source.spm, "
            f"or one of {', '.join(SENTENCEPIECE)}, found none of them"
        )
    style = STYLES[_kind(folder, config) or kind]
    config = {**{f"{role}_token": token for role, token in style.special.items()}, **config}
    _add_tokens(library, backend, folder, config)
    _surround(library, backend, style, config)
    return backend, config


def _kind(folder: str, config: Mapping[str, Any]) -> str | None:
    """The name of the style that the folder asks for, None if it says nothing or something unknown."""
    file = os.path.join(folder, "config.json")
    model = _json(file).get("model_type") if os.path.isfile(file) else None
    named = re.sub(r"Tokenizer(Fast)?$", "", config.get("tokenizer_class") or "")
    names = [re.sub("[-_]", "", (name or "").lower()) for name in (named, model)]
    return next((SAME.get(name, name) for name in names if SAME.get(name, name) in STYLES), None)


# ------------------------------------------------------------------------------------------- kinds of files


def _bytes(library: Any, files: Mapping[str, str], config: Mapping[str, Any]) -> tuple[Any, str]:
    model = _read(library.models.BPE.from_file, files["vocab.json"], files["merges.txt"])
    backend = library.Tokenizer(model)
    byte_level(library, backend, bool(config.get("add_prefix_space")))
    return backend, "roberta" if _has(backend, "<s>", "</s>", "<mask>") else "gpt2"


def _words(library: Any, file: str, config: Mapping[str, Any]) -> tuple[Any, str]:
    unknown = _text(config.get("unk_token")) or BERT["unk"]
    backend = library.Tokenizer(_read(library.models.WordPiece.from_file, file, unk_token=unknown))
    options = {"strip_accents": config.get("strip_accents")}
    options["handle_chinese_chars"] = config.get("tokenize_chinese_chars", True)
    bert(library, backend, config.get("do_lower_case", True), **options)
    return backend, "mpnet" if _has(backend, "<s>", "</s>") and not _has(backend, "[CLS]") else "bert"


def _pieces(library: Any, file: str, folder: str, config: Mapping[str, Any]) -> tuple[Any, str]:
    model = read_sentencepiece(file)
    kind = _kind(folder, config) or ("t5" if model.kind == 1 else "llama")
    pieces, unknown = _renumbered(model, kind, config)
    backend = model.backend(library, pieces, unknown)
    if kind == "albert":
        backend.normalizer = library.normalizers.Sequence([*_albert(library, config), backend.normalizer])
    return backend, kind


def _marian(library: Any, files: Mapping[str, str]) -> Any:
    """The pieces of the language that is read with the numbers of vocab.json; others are there for decoding."""
    model, numbers = read_sentencepiece(files["source.spm"]), _json(files["vocab.json"])
    known = {piece.text: piece for piece in model.pieces}
    texts = sorted(numbers, key=numbers.__getitem__)
    if "<unk>" not in numbers or [numbers[text] for text in texts] != list(range(len(texts))):
        raise FileFormatError(f"{files['vocab.json']}: expected <unk> and the numbers 0, 1, 2 … without gaps")
    special = {text: Piece(text, 0.0, CONTROL) for text in ("<pad>", "</s>", "<unk>")}
    pieces = [special.get(text) or known.get(text, Piece(text, NEVER)) for text in texts]
    return model.backend(library, pieces, numbers["<unk>"])


def _renumbered(model: SentencePieceModel, kind: str, config: Mapping[str, Any]) -> tuple[list[Piece], int]:
    """The pieces in the order of the model's table of words, and the number of the unknown one.

    T5 has places for blanks at the end; XLM-RoBERTa and CamemBERT begin as fairseq's vocabularies do.
    """
    special = [Piece(token, 0.0, CONTROL) for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    if kind == "t5":
        count = config.get("extra_ids", 100)
        return model.pieces + [Piece(f"<extra_id_{i}>", 0.0, CONTROL) for i in reversed(range(count))], model.unknown
    if kind == "xlmroberta":
        return [*special[:4], *model.pieces[3:], special[4]], 3
    if kind == "camembert":
        unused = [Piece("<s>NOTUSED"), special[1], Piece("</s>NOTUSED"), special[3], Piece("<unk>NOTUSED", -100.0)]
        return [*unused, *model.pieces[1:], special[4]], 3
    return model.pieces, model.unknown


def _albert(library: Any, config: Mapping[str, Any]) -> list[Any]:
    norms = library.normalizers
    steps = [norms.Replace("``", '"'), norms.Replace("''", '"')]
    if not config.get("keep_accents", False):
        steps += [norms.NFKD(), norms.StripAccents()]
    return steps + [norms.Lowercase()] * bool(config.get("do_lower_case", True))


# ------------------------------------------------------------------------------------------- tokens


def _add_tokens(library: Any, backend: Any, folder: str, config: Mapping[str, Any]) -> None:
    """Special tokens of the vocabulary are found in texts as they stand; tokens of added_tokens.json are appended."""
    file = os.path.join(folder, "added_tokens.json")
    added = {number: {"content": token} for token, number in (_json(file) if os.path.isfile(file) else {}).items()}
    added |= {int(number): token for number, token in (config.get("added_tokens_decoder") or {}).items()}
    special = {_text(config.get(f"{role}_token")): role for role in ROLES}
    special |= {_text(token): "extra" for token in config.get("additional_special_tokens") or ()}
    for number, fields in sorted(added.items()):
        token = fields["content"]
        options = {name: fields[name] for name in ("lstrip", "rstrip", "single_word", "normalized") if name in fields}
        if fields.get("special") or token in special:
            backend.add_special_tokens([library.AddedToken(token, **{"normalized": False, **options})])
        else:
            backend.add_tokens([library.AddedToken(token, **options)])
        if backend.token_to_id(token) != number:
            raise FileFormatError(
                f"{folder}: the added token {token!r} should have number {number}, but gets {backend.token_to_id(token)}"
            )
    known = [token for token in special if token and token not in _contents(backend) and _has(backend, token)]
    for token in known:  # a blank takes the space before it along, as a word would
        blank = special[token] == "mask" and token == ROBERTA["mask"]
        backend.add_special_tokens([library.AddedToken(token, lstrip=blank, normalized=False)])


def _surround(library: Any, backend: Any, style: Style, config: Mapping[str, Any]) -> None:
    before, after = (_text(config.get(f"{role}_token")) if role else None for role in (style.before, style.after))
    if style.before in ("bos", None) and "add_bos_token" in config:
        before = _text(config.get("bos_token")) if config["add_bos_token"] else None
    if style.after in ("eos", None) and "add_eos_token" in config:
        after = _text(config.get("eos_token")) if config["add_eos_token"] else None
    kept = [token if token and _has(backend, token) else None for token in (before, after)]
    surround(library, backend, *kept, doubled=style.doubled)


def roles_of(backend: Any, config: Mapping[str, Any]) -> dict[str, str]:
    """role → token of the special tokens, from the configuration, else by their spelling."""
    named = {role: _text(config.get(f"{role}_token")) for role in ROLES}
    given = {role: token for role, token in named.items() if token and _has(backend, token)}
    return given or {WELL_KNOWN[token]: token for token in _contents(backend) if token in WELL_KNOWN}


def _contents(backend: Any) -> list[str]:
    return [token.content for token in backend.get_added_tokens_decoder().values()]


def _has(backend: Any, *tokens: str) -> bool:
    return all(backend.token_to_id(token) is not None for token in tokens)


def _text(token: Any) -> str | None:
    """A token of a configuration, which may be written with its options."""
    return token.get("content") if isinstance(token, dict) else token


# ------------------------------------------------------------------------------------------- reading


def backend_from(path: str) -> Any:
    check_patterns(load_json(path), path)  # a missing file raises its usual error
    return _read(library_of_tokenizers().Tokenizer.from_file, path)


def read_config(folder: str) -> dict[str, Any]:
    """What tokenizer_config.json and special_tokens_map.json say."""
    paths = (os.path.join(folder, name) for name in ("special_tokens_map.json", "tokenizer_config.json"))
    return {name: value for path in paths if os.path.isfile(path) for name, value in _json(path).items()}


def _read(read: Any, *paths: str, **options: Any) -> Any:
    try:
        return read(*paths, **options)
    except Exception as error:  # the library raises plain Exceptions
        raise FileFormatError(f"{paths[0]}: cannot be read as a tokeniser ({error})") from None


def _json(path: str) -> dict[str, Any]:
    try:
        return dict(load_json(path))
    except (ValueError, TypeError) as error:
        raise FileFormatError(f"{path}: expected a JSON object, got something else ({error})") from None
