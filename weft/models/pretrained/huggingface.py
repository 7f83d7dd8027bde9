"""Folders of Hugging Face's transformers: config.json and weights in, models out, and back.

    config.json                                      model_type, architectures, sizes
    model.safetensors, or pytorch_model.bin          the weights; large models in several files with an .index.json
    tokenizer.json, generation_config.json           read where they are

`FAMILIES` lists the model types. Every key of the file must find its place and every weight of the model its key; what
does not fit is listed whole in a `WeightsError`, and then nothing has been loaded.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import MissingFileError, OptionError
from ...io.atomic import Path, replacing
from ...io.bounded import load_json
from ...io.errors import FileFormatError, HeaderError, UnsafeNameError
from ...io.safetensors import save_file
from ...nn import init
from ...nn.module import Module
from ...tensor import Tensor
from ..text.generation import NAMES, TOKENS, GenerationConfig
from .families import FAMILIES
from .gguf import read_gguf
from .quantised import dequantised
from .torchvision import from_torchvision, read_state_dict

if TYPE_CHECKING:
    from .pretrained import Config, PretrainedModel

__all__ = ["FAMILIES", "WeightsError", "from_pretrained", "read_weights", "save_pretrained"]


# what files hold beside weights: tables that can be computed, and a bias that no version of T5 reads
IGNORED = re.compile(
    r"(^|\.)(position_ids|rotary_emb\.inv_freq|(attn|attention)\.(bias|masked_bias)|embeddings\.token_type_ids"
    r"|EncDecAttention\.relative_attention_bias\.weight|(encoder|decoder)\.version)$"
)
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
COMPANIONS = (  # files that belong to a tokeniser or to generation, copied with a model
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("added_tokens.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "source.spm", "target.spm"),
    *("generation_config.json", "preprocessor_config.json"),
)


class WeightsError(FileFormatError):
    """Weights that do not fit the model: the lists missing, unexpected and mis_shaped (key, in the file, in the model)."""

    def __init__(
        self,
        where: str,
        missing: Iterable[str] = (),
        unexpected: Iterable[str] = (),
        mis_shaped: Iterable[tuple[str, tuple[int, ...], tuple[int, ...]]] = (),
    ) -> None:
        self.missing, self.unexpected, self.mis_shaped = list(missing), list(unexpected), list(mis_shaped)
        lines = [f"{where}: the weights do not fit the model"]
        if self.missing:
            lines.append(f"missing keys ({len(self.missing)}): {', '.join(self.missing)}")
        if self.unexpected:
            lines.append(f"unexpected keys ({len(self.unexpected)}): {', '.join(self.unexpected)}")
        if self.mis_shaped:
            told = (
                f"{key} is {found} in the file, {expected} in the model" for key, found, expected in self.mis_shaped
            )
            lines.append(f"mis-shaped ({len(self.mis_shaped)}): {'; '.join(told)}")
        lines.append("check config.json and the architecture; strict=False loads what has the right name and shape")
        super().__init__("\n  ".join(lines))


# ------------------------------------------------------------------------------------------- reading


def from_pretrained(
    folder: Path,
    *,
    architecture: str | type[PretrainedModel] | None = None,
    strict: bool = True,
    dtype: Any = None,
    **changes: Any,
) -> Any:
    """The model of a Hugging Face folder, in evaluation mode, in float32 unless `dtype` says otherwise.

    architecture: the class or its name; that of config.json unless given (its body, with a warning, if that has a head of
    pre-training and the file has not). A head of another architecture that the file does not have starts with fresh
    weights, and a warning says so. Heads that this class does not have are left out. changes: fields of the config, such
    as num_labels=3. strict=False: keys that do not fit are named in a warning instead of an error.
    A file (`resnet18-f37072fd.pth`) is taken as a checkpoint of torchvision; architecture is its name there. A file of
    llama.cpp (`model.gguf`) gives the language model of its architecture (`gguf.ARCHITECTURES`). Weights that GPTQ, AWQ or
    GGUF have quantised are read as the numbers that they stand for.

    >>> model = weft.models.from_pretrained("MiniLM-L6")
    >>> model(model.tokenizer.tensor("Hello").unsqueeze(0)).last_hidden_state.shape
    """
    path = os.fspath(folder)
    if path.endswith(".gguf") and os.path.isfile(path):
        return _from_gguf(path, architecture, strict, dtype, changes)
    if os.path.isfile(path):
        return _from_torchvision(path, architecture, changes)
    fields = _config_fields(path)
    if "model_type" not in fields and "architecture" in fields:  # timm's folders
        return _from_torchvision(os.path.join(path, WEIGHTS[0]), fields["architecture"].split(".")[0], changes)
    cls, as_written = _chosen(path, fields, architecture)
    config = cls.config_class.from_dict({**dict(FAMILIES[fields["model_type"]].defaults), **fields}, **changes)
    config.model_type = fields["model_type"]
    state = dequantised(path, fields.get("quantization_config"), read_weights(path))
    state = {key: value for key, value in state.items() if not IGNORED.search(key)}
    try:
        model = _filled(path, cls, config, state, strict, fresh_head=not as_written)
    except WeightsError as error:
        if architecture is not None or not _lacks_its_head(error, cls, state):
            raise
        body = FAMILIES[config.model_type].classes()[f"{FAMILIES[config.model_type].prefix}Model"]
        warnings.warn(f"{path}: {cls.__name__} in config.json, but no head in the file: {body.__name__}", stacklevel=2)
        model = _filled(path, body, config, state, strict, fresh_head=False)
    model.folder, model.generation_config = path, GenerationConfig.from_dict(_generation_fields(path, fields))
    return (model if dtype is None else model.to(dtype)).eval()


def _from_gguf(file: str, architecture: Any, strict: bool, dtype: Any, changes: dict[str, Any]) -> PretrainedModel:
    fields, state = read_gguf(file)
    cls, as_written = _chosen(file, fields, architecture)
    config = cls.config_class.from_dict(fields, **changes)
    model = _filled(file, cls, config, state, strict, fresh_head=not as_written)
    return (model if dtype is None else model.to(dtype)).eval()


def body_architecture(folder: Path) -> str:
    """The name of the class without a head of a folder's family, of the encoder alone where that is a class."""
    kind = _config_fields(os.fspath(folder)).get("model_type")
    family = FAMILIES.get(kind)
    if family is None:
        raise OptionError(f"{folder}: model_type {kind!r} is not supported; supported are {', '.join(FAMILIES)}")
    encoder = f"{family.prefix}EncoderModel"
    return encoder if encoder in family.classes() else f"{family.prefix}Model"


def _lacks_its_head(error: WeightsError, cls: type[PretrainedModel], state: Mapping[str, Tensor]) -> bool:
    """Whether all would be well but for the head of pre-training, of which the file has nothing: what a body wrote that
    was trained further (most encoders of sentences)."""
    if not cls.__name__.endswith(("ForMaskedLM", "ForPreTraining")):
        return False
    heads = tuple(head for head in cls.heads if not head.startswith(f"{cls.body}."))
    fits = not error.unexpected and not error.mis_shaped
    in_head = [key.startswith(heads) for key in error.missing]
    return bool(heads) and fits and all(in_head) and not any(key.startswith(heads) for key in state)


def _from_torchvision(file: str, name: Any, changes: dict[str, Any]) -> Module:
    return from_torchvision(name or re.split(r"[-.]", os.path.basename(file))[0], file, **changes).eval()


def _config_fields(folder: str) -> dict[str, Any]:
    """config.json, with the tokens that generation_config.json names."""
    if not os.path.isdir(folder):
        raise MissingFileError(f"from_pretrained: there is no folder or file {folder!r}; Weft downloads none")
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise MissingFileError(f"{folder}: expected config.json, found {_listing(folder)}")
    fields = _json(os.path.join(folder, "config.json"))
    generation = os.path.join(folder, "generation_config.json")
    tokens = _json(generation) if os.path.isfile(generation) else {}
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "bad_words_ids")
    found = {name: tokens[name] for name in names if tokens.get(name) is not None}
    if tokens:  # what that file does not force is free, whatever config.json says
        found |= {name: tokens.get(name) for name in ("forced_bos_token_id", "forced_eos_token_id")}
    return {**fields, **found}


def _generation_fields(folder: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """generation_config.json, or, in folders older than that file, what config.json says about writing."""
    file = os.path.join(folder, "generation_config.json")
    if os.path.isfile(file):
        return _json(file)
    return {name: fields[name] for name in NAMES if name not in TOKENS and fields.get(name) is not None}


def _chosen(
    folder: str, fields: Mapping[str, Any], architecture: str | type[PretrainedModel] | None
) -> tuple[type[PretrainedModel], bool]:
    """The class of the model, and whether it is the one that config.json names."""
    kind = fields.get("model_type")
    if kind not in FAMILIES:
        raise OptionError(f"{folder}: model_type {kind!r} is not supported; supported are {', '.join(FAMILIES)}")
    family = FAMILIES[kind]
    written = family.class_name((fields.get("architectures") or [f"{family.prefix}Model"])[0])
    if isinstance(architecture, type):
        if architecture.config_class is not family.classes()[f"{family.prefix}Model"].config_class:
            raise OptionError(f"{folder}: {architecture.__name__} cannot hold a model of type {kind!r}")
        return architecture, architecture.__name__ == written
    wanted = family.class_name(architecture or written)
    if wanted not in family.classes():
        raise OptionError(
            f"{folder}: architecture {architecture or written!r} is not supported for model_type {kind!r}; supported are "
            f"{', '.join(family.classes())}; choose one with architecture=…"
        )
    return family.classes()[wanted], wanted == written


def _filled(
    where: str, cls: type[PretrainedModel], config: Config, state: dict[str, Tensor], strict: bool, fresh_head: bool
) -> PretrainedModel:
    """A model of this class with these weights."""
    options = {}
    if "add_pooling_layer" in inspect.signature(cls).parameters:  # files of models without a pooler have none
        options["add_pooling_layer"] = any(re.search(r"(^|\.)pooler\.", key) for key in state)
    with init.skipping():
        model = cls(config, **options)
    state = _aligned(state, model)
    if apart := _apart(model, state):
        if not config.tie_word_embeddings:
            raise FileFormatError(f"{where}: {', '.join(apart)} are one in {cls.__name__}, but differ in the file")
        config.tie_word_embeddings = False
        return _filled(where, cls, config, state, strict, fresh_head)
    values, missing, mis_shaped = _matched(model, state)
    known = {name for name, _ in _tensors(model)}
    spare = [key for key in state if key.startswith(cls.heads) or key.endswith(cls.optional)]
    unexpected = [key for key in state if key not in known and key not in spare]
    missing = [key for key in missing if not key.endswith(cls.optional)]
    fresh = [key for key in missing if fresh_head and key.startswith(cls.heads)]
    error = WeightsError(where, [key for key in missing if key not in fresh], unexpected, mis_shaped)
    if strict and (error.missing or unexpected or mis_shaped):
        raise error
    if error.missing or unexpected or mis_shaped:
        warnings.warn(str(error), stacklevel=4)
    elif fresh:
        warnings.warn(f"{where}: fresh weights, to be trained, for {', '.join(fresh)}", stacklevel=4)
    if missing or mis_shaped:
        model = cls(config, **options)  # with initial values
    places = dict(_tensors(model))
    for name, value in values.items():
        places[name].data = value.to(places[name].dtype, copy=True)
    return model


def _aligned(state: dict[str, Tensor], model: PretrainedModel) -> dict[str, Tensor]:
    """The state dict with the model's spelling: prefixes added or taken away, gamma and beta renamed."""
    names = {name for name, _ in _tensors(model)}
    for pattern, old in model.newer:
        state = {re.sub(pattern, old, key): value for key, value in state.items()}
    state = {_respelled(key, model.renamed): value for key, value in state.items()}
    prefix = f"{model.body}."
    prefixed = any(key.startswith(prefix) for key in state)
    if model.body in model._modules and not prefixed:
        state = {key if key in names else prefix + key: value for key, value in state.items()}
    elif model.body and model.body not in model._modules and prefixed:
        state = {key.removeprefix(prefix): value for key, value in state.items()}
    return {_modern(key, names): value for key, value in state.items()}


def _respelled(key: str, renamed: Iterable[tuple[str, str]]) -> str:
    """A key with another beginning."""
    return next((new + key.removeprefix(old) for old, new in renamed if key.startswith(old)), key)


def _modern(key: str, names: set[str]) -> str:
    """LayerNorm.gamma and .beta, as TensorFlow has them, as weight and bias."""
    if key in names:
        return key
    return re.sub(r"(?<=[nN]orm)\.(gamma|beta)$", lambda m: ".weight" if m[1] == "gamma" else ".bias", key)


def _tensors(model: Module) -> list[tuple[str, Tensor]]:
    """Parameters and buffers by name; those with two names twice."""
    return [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]


def _spellings(model: Module) -> list[tuple[Tensor, list[str]]]:
    """Every parameter and buffer with all its names, the first being the one that files have."""
    found: dict[int, tuple[Tensor, list[str]]] = {}
    for name, parameter in _tensors(model):
        found.setdefault(id(parameter), (parameter, []))[1].append(name)
    return list(found.values())


def _apart(model: Module, state: Mapping[str, Tensor]) -> list[str]:
    """Names of matrices that differ in the file where the model has one."""
    for _, names in _spellings(model):
        values = {name: state[name] for name in names if name in state and state[name].ndim == 2}
        first = next(iter(values.values()), None)
        if any(value.shape != first.shape or not bool((value == first).all()) for value in list(values.values())[1:]):
            return list(values)
    return []


def _matched(
    model: Module, state: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], list[str], list[tuple[str, tuple[int, ...], tuple[int, ...]]]]:
    """Values by the first name of a parameter; names without one; those of another shape."""
    values, missing, mis_shaped = {}, [], []
    for parameter, names in _spellings(model):
        present = next(
            (name for name in reversed(names) if name in state), None
        )  # the last is that of the layer in use
        if present is None:
            missing.append(names[0])
        elif tuple(state[present].shape) != tuple(parameter.shape):
            mis_shaped.append((present, tuple(state[present].shape), tuple(parameter.shape)))
        else:
            values[names[0]] = state[present]
    return values, missing, mis_shaped


# ------------------------------------------------------------------------------------------- files


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder: one file, or the shards that an index names; safetensors before PyTorch's files."""
    path = os.fspath(folder)
    for name in WEIGHTS:
        whole, index = os.path.join(path, name), os.path.join(path, f"{name}.index.json")
        if os.path.isfile(whole):
            return dict(read_state_dict(whole))
        if os.path.isfile(index):
            return _sharded(path, index)
    raise MissingFileError(f"{path}: expected {' or '.join(WEIGHTS)}, or an .index.json of one; found {_listing(path)}")


def _sharded(folder: str, index: str) -> dict[str, Tensor]:
    """The tensors of every shard, all that the index promises."""
    places = _json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise HeaderError(f"{index}: expected a weight_map from keys to names of files, got {places!r:.80}")
    files = sorted(set(places.values()))
    outside = [file for file in files if os.path.basename(file) != file]
    if outside:
        raise UnsafeNameError(f"{index}: shards must lie in the folder, got {', '.join(outside)}")
    absent = [file for file in files if not os.path.isfile(os.path.join(folder, file))]
    if absent:
        raise MissingFileError(f"{index}: the shards {', '.join(absent)} are not there; found {_listing(folder)}")
    found = {file: read_state_dict(os.path.join(folder, file)) for file in files}
    lost = [key for key, file in places.items() if key not in found[file]]
    if lost:
        raise WeightsError(index, missing=lost)
    return {key: found[file][key] for key, file in places.items()}


def _json(file: str) -> dict[str, Any]:
    fields = load_json(file)
    if not isinstance(fields, dict):
        raise HeaderError(f"{file}: expected a JSON object, found a {type(fields).__name__}")
    return fields


def _listing(folder: str) -> str:
    return ", ".join(sorted(os.listdir(folder))[:12]) or "nothing"


# ------------------------------------------------------------------------------------------- writing


def save_pretrained(model: PretrainedModel, folder: Path, max_shard_size: int | str = "5GB") -> None:
    """Write config.json and model.safetensors; a tied matrix is written once. The files of a tokeniser come along.

    max_shard_size: bytes, or a number with KB, MB or GB; what is larger is written in several files with an index.
    """
    path, most = os.fspath(folder), _bytes(max_shard_size)
    os.makedirs(path, exist_ok=True)
    family = FAMILIES[model.config.model_type]
    fields = {"architectures": [family.architecture(type(model).__name__)], **model.config.to_dict()}
    with replacing(os.path.join(path, "config.json")) as file:
        file.write(json.dumps(fields, indent=2).encode())
    back = [(here, there) for there, here in model.renamed]
    tensors = {
        _respelled(name, back): p.detach() for p, names in _spellings(model) for name in _written(model, p, names)
    }
    _write_weights(tensors, path, most)
    for name in COMPANIONS if model.folder is not None and not os.path.samefile(model.folder, path) else ():
        if os.path.isfile(os.path.join(model.folder, name)):
            shutil.copyfile(os.path.join(model.folder, name), os.path.join(path, name))
    if written := model.generation_config.to_dict():
        with replacing(os.path.join(path, "generation_config.json")) as file:
            file.write(json.dumps(written, indent=2).encode())


def _bytes(size: int | str) -> int:
    """5_000_000_000 of "5GB"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?B)", size, re.IGNORECASE) if isinstance(size, str) else None
    value = int(float(found[1]) * UNITS[found[2].upper()]) if found else size
    if not isinstance(value, int) or value < 1:
        raise OptionError(f"max_shard_size: expected bytes, or a number with KB, MB or GB such as '5GB', got {size!r}")
    return value


def _write_weights(tensors: dict[str, Tensor], folder: str, most: int) -> None:
    """One file, or shards of at most so many bytes each (a larger tensor alone) with an index; older files go."""
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors.items():
        if shards[-1] and sum(map(_size, shards[-1].values())) + _size(tensor) > most:
            shards.append({})
        shards[-1][name] = tensor
    index, single = os.path.join(folder, f"{WEIGHTS[0]}.index.json"), len(shards) == 1
    names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    names = [WEIGHTS[0]] if single else names
    for name, shard in zip(names, shards, strict=True):
        save_file(shard, os.path.join(folder, name), {"format": "pt"})
    if not single:
        places = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
        total = sum(map(_size, tensors.values()))
        with replacing(index) as file:
            file.write(json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2).encode())
    stale = {file for file in os.listdir(folder) if SHARD.fullmatch(file)} - set(names)
    stale |= {os.path.basename(index)} if single else {WEIGHTS[0]}
    for file in stale:
        if os.path.isfile(os.path.join(folder, file)):
            os.unlink(os.path.join(folder, file))


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _written(model: PretrainedModel, parameter: Tensor, names: list[str]) -> list[str]:
    """The names that a file has for a parameter: the first, but all of a bias that other programs may not tie."""
    return names if parameter.ndim == 1 and not model.config.tie_word_embeddings else names[:1]
