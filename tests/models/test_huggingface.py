"""Models of `weft.models.from_pretrained` beside transformers': outputs, gradients, steps compiled, files back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import optim
from weft.io import load_file
from weft.models import from_pretrained
from weft.models.pretrained.families import FAMILIES
from weft.models.pretrained.huggingface import _respelled, _spellings
from weft.models.transformers.blocks import ACTIVATIONS, Visible

from . import hf_cases
from .hf_cases import CASES, Case, inputs, save, tensors_of, to_weft, weighted

pytestmark = hf_cases.needs_transformers


def gradients_in_file(theirs: Any, folder: Path) -> dict[str, weft.Tensor]:
    """Their gradients under the names that their files have: saved as if they were weights."""
    import torch

    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
    theirs.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    import torch

    case = CASES[name]
    theirs = save(case, tmp_path)
    ours = from_pretrained(tmp_path)
    arrays, masks = inputs(case.inputs)
    loss, expected = weighted(
        theirs(**{key: torch.tensor(value) for key, value in arrays.items()}), masks, torch.tensor
    )
    own_loss, found = weighted(ours(**to_weft(arrays)), masks, weft.tensor)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-5)
    loss.backward()
    own_loss.backward()
    truth = gradients_in_file(theirs, tmp_path / "gradients")
    back = [(here, there) for there, here in ours.renamed]
    for parameter, names in _spellings(ours):
        if not parameter.requires_grad:
            continue
        key = [name for name in (_respelled(name, back) for name in names) if name in truth][-1]
        grad = np.zeros(parameter.shape, np.float32) if parameter.grad is None else parameter.grad.numpy()
        np.testing.assert_allclose(grad, truth[key].numpy(), atol=5e-5, rtol=1e-4, err_msg=key)


SMALL = {"num_hidden_layers": 1, "n_layers": 1, "n_layer": 1, "num_layers": 1, "attention_types": None}
TRAINED = (
    "bert-pre-training",
    "roberta-masked",
    "distilbert-masked",
    "electra-discriminator",
    "albert-pre-training",
    "mpnet-masked",
    "gpt2",
    "gpt_neox",
    "opt-350m",
    "llama",
    "mistral",
    "bart",
    "marian",
    "t5",
    "t5-v1.1",
    "resnet",
    "vit",
    "mixtral",
    "mamba",
    "swin",
)


@pytest.mark.parametrize("name", TRAINED)
def test_ten_compiled_steps_are_those_of_eager_code(name: str) -> None:
    case = CASES[name]
    arrays, _ = inputs(case.inputs)

    def trained(compiled: bool) -> tuple[list[float], dict[str, weft.Tensor]]:
        weft.manual_seed(0)
        model = fresh(case)
        optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        def step(**given: weft.Tensor) -> weft.Tensor:
            loss = sum((x**2).mean() for x in tensors_of(model(**given))[:2])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = weft.compile(step) if compiled else step
        return [run(**to_weft(arrays)).item() for _ in range(10)], model.state_dict()

    (slow, before), (fast, after) = trained(False), trained(True)
    assert slow[-1] < slow[0]
    np.testing.assert_allclose(fast, slow, rtol=1e-4, atol=1e-5)
    for key in before:
        np.testing.assert_allclose(after[key].numpy(), before[key].numpy(), atol=1e-4, err_msg=key)


def fresh(case: Case) -> Any:
    """Weft's model with one layer and initial weights."""
    cls = getattr(weft.models.supervised, case.name)
    fields = {**case.config, **{key: value for key, value in SMALL.items() if key in case.config}}
    return cls(cls.config_class.from_dict(fields))


@pytest.mark.parametrize(
    "name",
    [
        *("bert-classes", "bert-untied", "roberta-masked", "xlm-roberta", "camembert", "distilbert", "gpt2", "llama"),
        *("electra-generator", "albert-masked", "mpnet", "gpt_neo", "gpt_neox", "opt", "bart", "resnet", "t5", "vit"),
        *("gemma", "phi", "phi-scaled", "gpt2-tokens", "llama-longrope", "mistral", "qwen2", "qwen3", "marian", "mt5"),
        *("phi3-partial", "phi3-long", "mixtral", "qwen2_moe", "qwen3_moe", "mamba", "whisper", "deit", "swin"),
        *("clip", "clip-text", "clip-image-vectors", "siglip", "siglip-text", "siglip-image", "convnext", "swin-body"),
    ],
)
def test_saved_folders_are_read_by_transformers(name: str, tmp_path: Path) -> None:
    import torch

    case = CASES[name]
    save(case, tmp_path / "theirs")
    ours = from_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    library = hf_cases.load_transformers()
    theirs, report = getattr(library, case.name).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (
        load_file(tmp_path / "ours/model.safetensors").keys() == load_file(tmp_path / "theirs/model.safetensors").keys()
    )
    arrays, masks = inputs(case.inputs)
    _, expected = weighted(theirs(**{key: torch.tensor(value) for key, value in arrays.items()}), masks, torch.tensor)
    _, found = weighted(ours(**to_weft(arrays)), masks, weft.tensor)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5, rtol=1e-5)


def test_every_family_is_among_those_that_go_back_and_forth() -> None:
    """The list above leaves no model_type out: whoever adds a family adds a case."""
    [marks] = [mark for mark in test_saved_folders_are_read_by_transformers.pytestmark if mark.name == "parametrize"]
    library, seen = hf_cases.load_transformers(), set()
    for name in marks.args[1]:
        seen.add(getattr(library, CASES[name].config_name).model_type)
    assert seen | {"clip_vision_model"} == set(FAMILIES)


def test_distances_of_places_are_added_as_published() -> None:
    """transformers 5 no longer has them: the formulas of Shaw et al. and Huang et al., term by term."""
    import math

    import torch

    for kind in ("relative_key", "relative_key_query"):
        weft.manual_seed(0)
        config = weft.models.supervised.BertConfig.from_dict({**hf_cases.BERT, "position_embedding_type": kind})
        model = weft.models.supervised.BertModel(config).eval()
        attention = model.encoder["layer"][0].attention["self"]
        table = torch.tensor(attention.distance_embedding.weight.detach().numpy())
        assert table.shape == (39, 4)
        x = np.random.default_rng(0).standard_normal((2, 6, 16)).astype(np.float32)
        q, k, v = (
            torch.tensor(part(weft.tensor(x)).detach().numpy()).reshape(2, 6, 4, 4).transpose(1, 2)
            for part in (attention.query, attention.key, attention.value)
        )
        scores = torch.zeros(2, 4, 6, 6)
        for i in range(6):
            for j in range(6):
                d = table[i - j + 19]
                scores[:, :, i, j] = (q[:, :, i] * k[:, :, j]).sum(-1) + q[:, :, i] @ d
                if kind == "relative_key_query":
                    scores[:, :, i, j] += k[:, :, j] @ d
        expected = ((scores / math.sqrt(4)).softmax(-1) @ v).transpose(1, 2).reshape(2, 6, 16)
        found = attention(weft.tensor(x), Visible(None)).detach()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-6)
    with pytest.raises(weft.errors.OptionError, match="absolute"):
        weft.models.supervised.AlbertConfig(position_embedding_type="relative_key")


def test_folders_of_distances_go_back_and_forth(tmp_path: Path) -> None:
    """The keys are those of transformers 4: bert.encoder.layer.N.attention.self.distance_embedding.weight."""
    fields = {**hf_cases.BERT, "position_embedding_type": "relative_key"}
    model = weft.models.supervised.BertForMaskedLM(weft.models.supervised.BertConfig.from_dict(fields)).eval()
    model.save_pretrained(tmp_path)
    key = "bert.encoder.layer.1.attention.self.distance_embedding.weight"
    assert load_file(tmp_path / "model.safetensors")[key].shape == (39, 4)
    tokens = weft.tensor(inputs("tokens")[0]["input_ids"])
    np.testing.assert_array_equal(from_pretrained(tmp_path)(tokens).logits.detach(), model(tokens).logits.detach())


def test_large_models_are_written_in_shards(tmp_path: Path) -> None:
    import torch

    theirs = save(CASES["llama"], tmp_path / "theirs")
    ours = from_pretrained(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours", max_shard_size="5KB")
    assert len(list((tmp_path / "ours").glob("model-*-of-*.safetensors"))) > 3
    assert not (tmp_path / "ours/model.safetensors").exists()
    tokens = inputs("tokens")[0]["input_ids"]
    expected = theirs(torch.tensor(tokens)).logits.detach().numpy()
    again = hf_cases.load_transformers().LlamaForCausalLM.from_pretrained(tmp_path / "ours")
    np.testing.assert_array_equal(again(torch.tensor(tokens)).logits.detach().numpy(), expected)
    np.testing.assert_allclose(
        from_pretrained(tmp_path / "ours")(weft.tensor(tokens)).logits.detach(), expected, atol=1e-5
    )
    ours.save_pretrained(tmp_path / "ours")  # in one again: no old shard is left to be read
    assert not list((tmp_path / "ours").glob("model-*")) and not list((tmp_path / "ours").glob("*.index.json"))


@pytest.mark.parametrize(
    "name", ["bert-masked", "gpt2", "gpt_neox", "bart", "t5", "vit", "deit-teacher", "swin", "clip", "mamba"]
)
def test_the_names_that_transformers_has_in_memory_are_read(name: str, tmp_path: Path) -> None:
    """torch.save(model.state_dict()) writes them, and tied matrices under all their names."""
    import torch

    theirs = save(CASES[name], tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    arrays, masks = inputs(CASES[name].inputs)
    _, expected = weighted(theirs(**{key: torch.tensor(value) for key, value in arrays.items()}), masks, torch.tensor)
    _, found = weighted(from_pretrained(tmp_path)(**to_weft(arrays)), masks, weft.tensor)
    np.testing.assert_allclose(found[0], expected[0], atol=2e-5)


PADDED = np.array([[0, 0, 0, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15], [0, 0, 0, 0, 0, 0, 30]])


@pytest.mark.parametrize(
    "name",
    [
        *("opt", "opt-350m", "gpt_neo", "gpt_neox", "gemma", "phi", "bart", "marian"),
        *("phi3-long", "mixtral", "mamba"),
    ],
)
def test_other_families_write_what_transformers_writes(name: str, tmp_path: Path) -> None:
    import torch

    theirs, mask = save(CASES[name], tmp_path), (PADDED != 0).astype(np.int64)
    settings = {"pad_token_id": 0, "eos_token_id": 2, "forced_eos_token_id": None, "bad_words_ids": [[7], [30]]}
    if CASES[name].inputs == "tokens":
        del settings["bad_words_ids"]
    for key, value in settings.items():
        setattr(theirs.generation_config, key, value)
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    for options in ({}, {"num_beams": 3}):
        expected = theirs.generate(
            torch.tensor(PADDED), attention_mask=torch.tensor(mask), do_sample=False, max_new_tokens=6, **options
        )
        expected = expected.numpy()
        if name == "phi3-long":  # beams of theirs go on with the end token after an end where the padding token is 0
            after = np.cumsum((expected == 2) & (np.arange(expected.shape[1]) >= PADDED.shape[1]), 1)
            expected[(after > 0) & (np.roll(after, 1, 1) > 0)] = 0
        for way in ({}, {"use_cache": False}, {"compiled": True}):
            found = ours.generate(weft.tensor(PADDED), weft.tensor(mask), max_new_tokens=6, **options, **way)
            np.testing.assert_array_equal(found.numpy(), expected, err_msg=str({**options, **way}))


def test_whisper_writes_the_most_probable_tokens(tmp_path: Path) -> None:
    """Against a loop over the model of transformers, whose own generate adds tokens of language and time."""
    import torch

    theirs = save(CASES["whisper"], tmp_path)
    sounds = inputs("sounds")[0]["input_features"]
    ours = from_pretrained(tmp_path)
    ours.generation_config.begin_suppress_tokens = None
    start = np.array([[1, 7], [1, 8], [1, 9]])
    written = torch.tensor(start)
    with torch.no_grad():
        for _ in range(6):
            scores = theirs(torch.tensor(sounds), decoder_input_ids=written).logits[:, -1]
            written = torch.cat([written, scores.argmax(-1, keepdim=True)], 1)
    options = {"max_new_tokens": 6, "eos_token_id": None}
    for way in ({}, {"use_cache": False}, {"compiled": True}):
        found = ours.generate(weft.tensor(sounds), decoder_input_ids=weft.tensor(start), **options, **way)
        np.testing.assert_array_equal(found.numpy(), written.numpy(), err_msg=str(way))
    first = written[:, 2].tolist()
    barred = ours.generate(
        weft.tensor(sounds), decoder_input_ids=weft.tensor(start), begin_suppress_tokens=first, **options
    )
    assert not set(barred[:, 2].tolist()) & set(first)


def test_experts_that_see_their_tokens_alone_answer_as_all_of_them(tmp_path: Path) -> None:
    save(CASES["qwen2_moe"], tmp_path)
    model, tokens = from_pretrained(tmp_path), weft.tensor(inputs("tokens")[0]["input_ids"])
    compiled = weft.compile(lambda x: model(x, use_cache=False).logits)
    np.testing.assert_allclose(compiled(tokens).detach(), model(tokens).logits.detach(), atol=1e-5)
    with pytest.raises(weft.errors.OptionError, match="num_experts_per_tok"):
        weft.models.supervised.MixtralConfig(num_local_experts=2, num_experts_per_tok=3)


def test_a_bert_that_reads_from_left_to_right_writes(tmp_path: Path) -> None:
    import torch

    theirs, mask = save(CASES["bert-decoder"], tmp_path), (PADDED != 0).astype(np.int64)
    ours = from_pretrained(tmp_path)
    for options in ({"eos_token_id": 2}, {"eos_token_id": None, "num_beams": 3}):
        options["max_new_tokens"] = 6
        expected = theirs.generate(torch.tensor(PADDED), attention_mask=torch.tensor(mask), do_sample=False, **options)
        found = ours.generate(weft.tensor(PADDED), weft.tensor(mask), **options)
        np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=str(options))
    both_ways = from_pretrained(tmp_path, is_decoder=False)
    with pytest.raises(weft.errors.OptionError, match="is_decoder"):
        both_ways.generate(weft.tensor(PADDED))


@pytest.mark.parametrize("forced", [(None, 2), (5, None), (5, [2, 9]), (2, 2)])
def test_forced_tokens_are_those_of_transformers(forced: tuple[Any, Any], tmp_path: Path) -> None:
    import torch

    theirs, given = save(CASES["bart"], tmp_path), {"attention_mask": (PADDED != 0).astype(np.int64)}
    settings = theirs.generation_config
    settings.forced_bos_token_id, settings.forced_eos_token_id = forced
    theirs.save_pretrained(tmp_path)
    ours = from_pretrained(tmp_path)
    assert (ours.config.forced_bos_token_id, ours.config.forced_eos_token_id) == forced
    for options in ({}, {"num_beams": 3}, {"max_new_tokens": 1}, {"max_new_tokens": 2, "repetition_penalty": 1.7}):
        options = {"max_new_tokens": 6, **options}
        torch_mask = torch.tensor(given["attention_mask"])
        expected = theirs.generate(torch.tensor(PADDED), attention_mask=torch_mask, do_sample=False, **options)
        for way in ({}, {"use_cache": False}, {"compiled": True}):
            found = ours.generate(weft.tensor(PADDED), **to_weft(given), **options, **way)
            np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=str({**options, **way}))


def test_forced_tokens_without_a_file_of_generation_and_for_other_models(tmp_path: Path) -> None:
    save(CASES["marian"], tmp_path)
    (tmp_path / "generation_config.json").unlink()
    ours, tokens = from_pretrained(tmp_path), weft.tensor(PADDED)
    assert ours.config.forced_eos_token_id == 0  # config.json's
    drawn = ours.generate(tokens, max_new_tokens=4, do_sample=True, top_p=0.9, top_k=3, forced_bos_token_id=7)
    np.testing.assert_array_equal(drawn[:, 1], 7)
    assert all({0, 2} & set(row) for row in drawn.tolist())  # every row has ended
    model = fresh(CASES["gpt2"]).eval()
    options = {"max_new_tokens": 3, "eos_token_id": None, "forced_eos_token_id": 9}
    np.testing.assert_array_equal(model.generate(tokens, **options)[:, -1], 9)
    free, barred = (model.generate(tokens, **options, **more) for more in ({}, {"forced_bos_token_id": 7}))
    np.testing.assert_array_equal(free, barred)  # a beginning of seven tokens has its first


@pytest.mark.parametrize(
    ("fields", "shape", "options"),
    [
        ({"image_size": [8, 12], "patch_size": [4, 2]}, (2, 3, 8, 12), {}),
        ({"image_size": 12, "num_channels": 1}, (2, 1, 12, 12), {}),
        ({"image_size": 8, "patch_size": 2}, (1, 3, 12, 6), {"interpolate_pos_encoding": True}),
        ({"pooler_output_size": 10, "pooler_act": "relu"}, (2, 3, 8, 8), {}),
    ],
)
def test_images_of_other_sizes(
    fields: dict[str, Any], shape: tuple[int, ...], options: dict[str, bool], tmp_path: Path
) -> None:
    import torch

    theirs = save(Case("ViTModel", {**hf_cases.VIT, **fields}), tmp_path)
    images = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected, found = theirs(torch.tensor(images), **options), from_pretrained(tmp_path)(weft.tensor(images), **options)
    for a, b in zip(found, (expected.last_hidden_state, expected.pooler_output), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=2e-5)


ROPES: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown kind": ("Llama", {"rope_parameters": {"rope_type": "spiral"}}, "longrope, got 'spiral'"),
    "a share of Llama's features": ("Llama", {"partial_rotary_factor": 0.5}, "must be 1, got 0.5"),
    "an odd share": ("Phi", {"partial_rotary_factor": 0.4}, "0.4 of head_dim 8 are 3"),
    "nothing to turn": ("Phi", {"rope_parameters": {"partial_rotary_factor": 0}}, "are 0"),
    "more than all": ("Phi", {"partial_rotary_factor": 1.5}, "are 12"),
    "no long factors": ("Phi", {"rope_scaling": {"type": "longrope", "short_factor": [1, 2]}}, "'long_factor'"),
    "too few": ("Phi", {"rope_scaling": {**hf_cases.LONG, "long_factor": [1]}}, "needs 2 factors"),
    "both ways": (
        "Gemma",
        {"num_key_value_heads": 4, "use_bidirectional_attention": True},
        "use_bidirectional_attention",
    ),
    "groups do not divide": ("Phi", {"num_key_value_heads": 3}, "num_key_value_heads 3"),
}


@pytest.mark.parametrize("name", ROPES)
def test_configs_that_cannot_be_say_why(name: str) -> None:
    family, fields, words = ROPES[name]
    with pytest.raises(weft.errors.OptionError, match=words):
        fresh(Case(f"{family}Model", {**hf_cases.PHI, **fields}))


@pytest.mark.parametrize("length", [5, 6])
def test_the_original_context_may_stand_beside_longrope(length: int) -> None:
    """transformers takes the field of the config before that of rope_parameters; a text of its length is still short."""
    config = weft.models.supervised.LlamaConfig.from_dict(
        {**hf_cases.LLAMA, "original_max_position_embeddings": 5, "rope_scaling": {**hf_cases.LONG, "factor": 0.5}}
    )
    found, factor = config.rotary.frequencies(length)
    np.testing.assert_allclose(found, [1.0, 0.01 / 1.5] if length == 5 else [0.5, 0.01 / 3.5], rtol=1e-6)
    assert factor == 1


def test_buckets_of_distances_are_those_of_t5() -> None:
    import torch

    theirs = hf_cases.load_transformers().models.t5.modeling_t5.T5Attention._relative_position_bucket
    places = np.arange(-1500, 1500)
    for both in (True, False):
        for buckets, most in ((32, 128), (8, 10), (64, 256)):
            expected = theirs(torch.tensor(places), both, buckets, most).numpy()
            found = weft.nn.relative_position_bucket(weft.tensor(places), both, buckets, most).numpy()
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("BertModel", 109_482_240),
        ("DistilBertModel", 66_362_880),
        ("GPT2LMHeadModel", 124_439_808),
        ("ElectraModel", 13_483_008),
        ("AlbertModel", 11_683_584),
        ("MPNetModel", 109_484_928),
        ("OPTForCausalLM", 125_239_296),
        ("GPTNeoForCausalLM", 125_198_592),
        ("BartModel", 139_420_416),
        ("GPTNeoXForCausalLM", 70_426_624),
        ("T5ForConditionalGeneration", 60_506_624),
    ],
)
def test_default_sizes_have_the_published_number_of_parameters(name: str, published: int) -> None:
    cls = getattr(weft.models.supervised, name)
    with weft.nn.init.skipping():
        assert sum(p.numel() for p in cls(cls.config_class()).parameters()) == published


def test_attention_maps_are_those_of_transformers(tmp_path: Path) -> None:
    import torch

    case = Case("LlamaForCausalLM", {**hf_cases.LLAMA, "attn_implementation": "eager"})
    theirs = save(case, tmp_path)
    ours = from_pretrained(tmp_path)
    tokens = inputs("tokens")[0]["input_ids"]
    theirs.set_attn_implementation("eager")
    expected = theirs(torch.tensor(tokens), output_attentions=True).attentions
    with weft.models.supervised.attention_maps() as maps:
        ours(weft.tensor(tokens))
    assert [tuple(m.shape) for m in maps] == [(3, 4, 7, 7)] * 2
    for a, b in zip(maps, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), atol=1e-5)
    ours(weft.tensor(tokens))
    assert len(maps) == 2  # nothing is kept outside the block


def test_activations_are_those_of_their_names() -> None:
    hf_cases.load_transformers()
    import torch
    from transformers.activations import ACT2FN

    x = np.linspace(-12, 12, 1001, dtype=np.float32)
    for name, function in ACTIVATIONS.items():
        expected = ACT2FN[name](torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(function(weft.from_numpy(x)).numpy(), expected, atol=1e-6, rtol=1e-6, err_msg=name)
