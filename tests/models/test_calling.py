"""Hugging Face's way to call: labels, hidden states, attention, caches and outputs beside transformers' own."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import OptionError, ShapeError
from weft.models import from_pretrained
from weft.models.pretrained.huggingface import _respelled, _spellings
from weft.models.pretrained.outputs import CausalLMOutputWithPast, ModelOutput
from weft.models.supervised import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from .hf_cases import BERT, CASES, GPT2, Case, inputs, needs_transformers, save, to_weft
from .test_huggingface import gradients_in_file

TOKENS = weft.tensor([[3, 4, 5, 6], [7, 8, 9, 10]])


def labels_for(name: str, arrays: dict[str, np.ndarray], classes: int) -> dict[str, np.ndarray]:
    """Labels of the right kind for a case of `hf_cases`, −100 at padding; none for models without a head."""
    random, head = np.random.default_rng(5), CASES[name].name
    if head in ("CLIPModel", "SiglipModel"):
        return {}  # texts and images are each other's: return_loss
    batch = len(next(iter(arrays.values())))
    many = random.integers(0, classes, batch)
    if head == "WhisperForConditionalGeneration":
        return {"labels": np.where(random.random((3, 5)) < 0.8, random.integers(0, 40, (3, 5)), -100)}
    if head.endswith(("Model", "ModelWithProjection", "WithTeacher")) and not head.endswith(("LMHeadModel", "MTModel")):
        return {}
    if "QuestionAnswering" in head:
        return {"start_positions": random.integers(0, 5, batch), "end_positions": np.array([[3], [9], [6]])}
    if head.endswith(("SequenceClassification", "ImageClassification", "NextSentencePrediction")):
        return {"labels": many}
    places = arrays.get("decoder_attention_mask", arrays["attention_mask"])
    if "ElectraForPreTraining" in head:
        return {"labels": random.integers(0, 2, places.shape)}
    count = classes if "TokenClassification" in head else 40
    tokens = np.where(places == 1, random.integers(0, count, places.shape), -100)
    if "ForPreTraining" in head:
        second = "sentence_order_label" if "Albert" in head else "next_sentence_label"
        return {"labels": tokens, second: many % 2}
    return {"labels": tokens}


def valid(value: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """A hidden state or weights with zeros where queries are padding."""
    if mask is None or value.ndim < 3 or value.shape[0] != len(mask):
        return value
    rows = mask[:, :, None] if value.ndim == 3 else mask[:, None, :, None]
    return value * rows if rows.shape[-2] == value.shape[-2] else value


def parts_of(value: Any) -> list[Any]:
    """The tensors in a result: one, one for each layer, those of an output inside of an output, or states."""
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    elif hasattr(value, "layers"):
        value = [states[0] for layer in value.layers for states in (layer.conv_states, layer.recurrent_states)]
    return [x for part in value for x in parts_of(part)] if isinstance(value, (tuple, list)) else [value]


SAMPLE = list({case.name: name for name, case in reversed(CASES.items())}.values())  # one case of every class


@needs_transformers
@pytest.mark.parametrize("name", SAMPLE)
def test_all_results_and_the_gradients_of_the_loss_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    import torch

    case = CASES[name]
    theirs = save(case, tmp_path)
    ours = from_pretrained(tmp_path)
    arrays, _ = inputs(case.inputs)
    if "decoder_input_ids" in arrays:
        del arrays["decoder_input_ids"]
    labels = labels_for(name, arrays, ours.config.num_labels)
    if not labels and "decoder" in "".join(inputs(case.inputs)[0]):
        arrays = inputs(case.inputs)[0]
    asked = {"output_hidden_states": True, "output_attentions": True}
    if case.inputs == "texts and images":
        asked["return_loss"] = True  # text i belongs to image i
        arrays = {key: value[:2] for key, value in arrays.items()}
    if not name.startswith(("resnet", "convnext", "mamba")):
        theirs.set_attn_implementation("eager")
    given = {**arrays, **labels}
    expected = theirs(**{key: torch.tensor(value) for key, value in given.items()}, **asked)
    found = ours(**to_weft(given), **asked)
    nothing = {key for key, value in expected.items() if isinstance(value, tuple) and not value}  # no cross-attention
    # theirs drops the cache where there are labels; ours has none for a BERT that writes
    apart = {"past_key_values"} if case.name.startswith(("Bart", "Marian", "BertLMHead", "WhisperFor")) else set()
    assert [k for k in found.keys() if k not in apart] == [k for k in expected.keys() if k not in apart | nothing]
    masks = {"encoder": arrays.get("attention_mask"), "decoder": arrays.get("decoder_attention_mask")}
    for key, value in expected.items():
        if key == "past_key_values" or key in nothing:
            continue
        kind = "encoder" if key.startswith("encoder") or "decoder" not in "".join(arrays) else "decoder"
        for a, b in zip(parts_of(found[key]), parts_of(value), strict=True):
            a, b = (valid(x.detach().numpy(), masks[kind]) for x in (a, b))
            np.testing.assert_allclose(a, b, atol=3e-5, rtol=2e-5, err_msg=key)
    images = case.inputs.endswith("images") and case.inputs != "texts and images"
    if "loss" not in found or images:
        return
    expected.loss.backward()
    found.loss.backward()
    truth, back = gradients_in_file(theirs, tmp_path / "gradients"), [(here, there) for there, here in ours.renamed]
    for parameter, names in _spellings(ours):
        if parameter.requires_grad:
            key = [name for name in (_respelled(name, back) for name in names) if name in truth][-1]
            grad = np.zeros(parameter.shape, np.float32) if parameter.grad is None else parameter.grad.numpy()
            np.testing.assert_allclose(grad, truth[key].numpy(), atol=5e-5, rtol=2e-4, err_msg=key)


CAUSAL = ("gpt2", "gpt_neo-body", "gpt_neox", "opt", "llama", "qwen3", "gemma", "phi", "gpt2-classes")


@needs_transformers
@pytest.mark.parametrize("name", CAUSAL)
def test_a_text_read_in_two_calls_is_read_as_transformers_does(name: str, tmp_path: Path) -> None:
    """past_key_values have their shapes and values; a second call goes on from them."""
    import torch

    theirs = save(CASES[name], tmp_path)
    ours = from_pretrained(tmp_path)
    tokens = inputs("tokens")[0]["input_ids"]
    mask = np.ones_like(tokens)
    mask[0, :2] = 0  # padding on the left
    first, second = (slice(0, 4), slice(0, 4)), (slice(4, 7), slice(0, 7))
    past = own = None
    for places, seen in (first, second):
        expected = theirs(
            torch.tensor(tokens[:, places]),
            attention_mask=torch.tensor(mask[:, seen]),
            past_key_values=past,
            use_cache=True,
        )
        found = ours(weft.tensor(tokens[:, places]), weft.tensor(mask[:, seen]), past_key_values=own, use_cache=True)
        past, own = expected.past_key_values, found.past_key_values
        assert own.get_seq_length() == past.get_seq_length() == seen.stop
        for layer, truth in zip(own.layers, past.layers, strict=True):
            for a, b in ((layer.keys, truth.keys), (layer.values, truth.values)):
                assert tuple(a.shape) == tuple(b.shape)
                np.testing.assert_allclose(a.detach().numpy()[1:], b.detach().numpy()[1:], atol=3e-5)
        np.testing.assert_allclose(found[0].detach().numpy()[1:], expected[0].detach().numpy()[1:], atol=3e-5)


@needs_transformers
@pytest.mark.parametrize("name", ["t5", "bart", "marian-body"])
def test_an_encoded_source_and_a_cache_go_into_the_next_call(name: str, tmp_path: Path) -> None:
    import torch

    theirs = save(CASES[name], tmp_path)
    ours, arrays = from_pretrained(tmp_path), inputs("source and target")[0]
    source = {key: arrays[key] for key in ("input_ids", "attention_mask")}
    target, past, own, encoded, own_encoded = arrays["decoder_input_ids"], None, None, None, None
    for places in (slice(0, 3), slice(3, 5)):
        given = {"attention_mask": source["attention_mask"], "decoder_input_ids": target[:, places]}
        if encoded is None:
            given["input_ids"] = source["input_ids"]
        expected = theirs(
            **{key: torch.tensor(value) for key, value in given.items()},
            past_key_values=past,
            encoder_outputs=encoded,
            use_cache=True,
        )
        found = ours(**to_weft(given), past_key_values=own, encoder_outputs=own_encoded, use_cache=True)
        past, encoded = expected.past_key_values, (expected.encoder_last_hidden_state,)
        own, own_encoded = found.past_key_values, (found.encoder_last_hidden_state,)
        np.testing.assert_allclose(found[0].detach(), expected[0].detach(), atol=3e-5)
        for a, b in zip(own, (past.self_attention_cache, past.cross_attention_cache), strict=True):
            assert [tuple(x.keys.shape) for x in a.layers] == [tuple(x.keys.shape) for x in b.layers]
            np.testing.assert_allclose(a.layers[-1].values.detach(), b.layers[-1].values.detach(), atol=3e-5)


@needs_transformers
@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"num_labels": 1}, np.array([0.5, -1.0, 2.0], np.float32)),
        ({"num_labels": 3, "problem_type": "regression"}, np.arange(9, dtype=np.float32).reshape(3, 3)),
        ({"num_labels": 3}, np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]], np.float32)),
        ({"num_labels": 3}, np.array([2, -100, 1])),
        ({"num_labels": 3, "problem_type": "single_label_classification"}, np.array([[2], [0], [1]])),
    ],
)
@pytest.mark.parametrize("family", ["Bert", "GPT2"])
def test_kinds_of_problems(family: str, fields: dict[str, Any], labels: np.ndarray, tmp_path: Path) -> None:
    import torch

    sizes = BERT if family == "Bert" else GPT2
    theirs = save(Case(f"{family}ForSequenceClassification", {**sizes, **fields}), tmp_path)
    ours, arrays = from_pretrained(tmp_path), inputs("tokens")[0]
    expected = theirs(**{key: torch.tensor(x) for key, x in arrays.items()}, labels=torch.tensor(labels)).loss
    found = ours(**to_weft(arrays), labels=weft.tensor(labels)).loss
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


# ------------------------------------------------------------------------------------------- the output itself


def gpt2(**changes: Any) -> GPT2LMHeadModel:
    weft.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(**{**GPT2, **changes}))


def test_an_output_is_a_tuple_and_a_mapping() -> None:
    model = gpt2().eval()
    out = model(TOKENS, labels=TOKENS)
    assert list(out.keys()) == ["loss", "logits", "past_key_values"] and len(out) == 3
    assert out[0] is out.loss is out["loss"] and out[1] is out.logits is out.get("logits")
    assert "loss" in out and "hidden_states" not in out and out.hidden_states is None
    assert out.to_tuple() == tuple(out) == out[:] and dict(out)["logits"] is out.logits
    assert {**out}.keys() == out.keys() and [name for name, _ in out.items()] == list(out.keys())
    plain = model(TOKENS)
    assert plain[0] is plain.logits and plain.loss is None and "loss" not in plain
    for words, wrong in (("hidden_states", lambda: plain["hidden_states"]), ("'loss'", lambda: plain["loss"])):
        with pytest.raises(KeyError, match=words):
            wrong()
    with pytest.raises(AttributeError, match=r"no 'argmax'.*out\.logits"):
        plain.argmax(-1)
    with pytest.raises(TypeError, match=r"index out\.logits"):
        plain[0, -1]
    with pytest.raises(AttributeError, match="replace"):
        plain.loss = 0
    with pytest.raises(TypeError, match="expected fields among loss, logits"):
        CausalLMOutputWithPast(score=1)
    assert plain.replace(loss=out.loss)[0] is out.loss and out.replace(loss=None)[0] is out.logits
    for copied in (
        copy.copy(out),
        pickle.loads(pickle.dumps(weft.utils.pytree.tree_map(lambda x: x.detach(), model(TOKENS, use_cache=False)))),
    ):
        assert type(copied) is CausalLMOutputWithPast and copied.logits.shape == (2, 4, 40)
    assert issubclass(CausalLMOutputWithPast, ModelOutput) and "logits=tensor" in repr(plain)


def test_what_a_call_does_not_say_the_config_says() -> None:
    model = gpt2(output_hidden_states=True, output_attentions=True, use_cache=False, return_dict=False).eval()
    logits, hidden, weights = model(TOKENS)
    assert logits.shape == (2, 4, 40) and len(hidden) == 3 and [w.shape for w in weights] == [(2, 4, 4, 4)] * 2
    out = model(TOKENS, output_hidden_states=False, output_attentions=False, use_cache=True, return_dict=True)
    assert list(out.keys()) == ["logits", "past_key_values"]
    again = GPT2Config.from_dict(model.config.to_dict())
    assert (again.output_attentions, again.use_cache, again.return_dict) == (True, False, False)
    assert "use_cache" not in gpt2().config.to_dict()  # the usual words are not written
    assert list(gpt2().train()(TOKENS).keys()) == ["logits"]  # nothing is kept in training unless asked for
    with pytest.raises(TypeError, match="output_states"):
        model(TOKENS, output_states=True)


def test_dropout_of_attention_reaches_the_weights_that_are_shown() -> None:
    model = gpt2(attn_pdrop=0.5).train()
    weights = model(TOKENS, output_attentions=True).attentions[0].detach().numpy()
    seen = np.tril(np.ones((4, 4), bool))
    assert (weights[..., ~seen] == 0).all() and 0.2 < (weights[..., seen] == 0).mean() < 0.8


@pytest.mark.parametrize("kind", [weft.float64, weft.bfloat16])
def test_the_loss_of_other_types_and_of_nothing(kind: weft.dtype) -> None:
    model = gpt2().eval()
    truth = model(TOKENS, labels=TOKENS).loss.item()
    loss = model.to(kind)(TOKENS, labels=TOKENS).loss
    assert loss.dtype is (weft.float64 if kind is weft.float64 else weft.float32)
    assert loss.item() == pytest.approx(truth, rel=1e-6 if kind is weft.float64 else 1e-2)
    assert np.isnan(model(TOKENS, labels=weft.full_like(TOKENS, -100)).loss.item())  # as PyTorch's mean of nothing
    assert model(TOKENS[:0]).logits.shape == (0, 4, 40)


def test_wrong_labels_are_named() -> None:
    with pytest.raises(ShapeError, match=r"labels: expected \(2, 4\)"):
        gpt2()(TOKENS, labels=TOKENS[:, :3])
    with pytest.raises(ShapeError, match=r"expected \(B, T\)"):
        gpt2()(TOKENS, labels=TOKENS[0])
    classifier = BertForSequenceClassification(BertConfig(**BERT, problem_type="guess"))
    with pytest.raises(OptionError, match="regression, single_label_classification"):
        classifier(TOKENS, labels=weft.tensor([0, 1]))
    t5 = weft.models.supervised.T5ForConditionalGeneration(weft.models.supervised.T5Config())
    with pytest.raises(OptionError, match="decoder_input_ids"):
        t5(TOKENS)
    with pytest.raises(OptionError, match="input_ids or encoder_outputs"):
        t5(decoder_input_ids=TOKENS)


# ------------------------------------------------------------------------------------------- compiled


@pytest.mark.parametrize("training", [False, True])
def test_compiled_calls_return_the_same_output(training: bool) -> None:
    model = gpt2().train(training)
    compiled = weft.compile(model)
    asked = {"labels": TOKENS, "output_hidden_states": True, "output_attentions": True, "use_cache": True}
    found, expected = compiled(TOKENS, **asked), model(TOKENS, **asked)
    assert type(found) is type(expected) and found.keys() == expected.keys()
    flat, truth = (weft.utils.pytree.tree_leaves(out) for out in (found, expected))
    for a, b in zip(flat, truth, strict=True):
        if isinstance(a, weft.Tensor):
            np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-5)
    grads = []
    for out in (found, expected):
        model.zero_grad()
        out.loss.backward()
        grads.append({name: p.grad.numpy().copy() for name, p in model.named_parameters()})
    for name in grads[0]:
        np.testing.assert_allclose(grads[0][name], grads[1][name], atol=1e-5, err_msg=name)
