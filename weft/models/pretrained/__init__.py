"""Weights, configurations, tokenisers and results as Hugging Face and torchvision have them."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "outputs": (
        *("AlbertForPreTrainingOutput", "BaseModelOutput", "BaseModelOutputWithPast"),
        *("BaseModelOutputWithPooling", "BertForPreTrainingOutput", "CausalLMOutputWithPast"),
        *("DeiTForImageClassificationWithTeacherOutput", "ElectraForPreTrainingOutput"),
        *("CLIPOutput", "MambaCausalLMOutput", "MambaOutput", "TextModelOutput", "VisionModelOutput"),
        *("ImageClassifierOutput", "MaskedLMOutput", "ModelOutput", "NextSentencePredictorOutput"),
        *("QuestionAnsweringModelOutput", "Seq2SeqLMOutput", "Seq2SeqModelOutput"),
        *("Seq2SeqSequenceClassifierOutput", "SequenceClassifierOutput", "SequenceClassifierOutputWithPast"),
        "TokenClassifierOutput",
    ),
    "torchvision": ("from_torchvision",),
    "auto_tokenizer": ("AutoTokenizer", "PretrainedTokenizer"),
    "batch_encoding": ("BatchEncoding",),
    "chat_templates": ("TemplateError", "render_chat"),
    "fine_tuning": ("fine_tune",),
    "huggingface": ("from_pretrained",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
