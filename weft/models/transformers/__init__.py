"""The text transformers of Hugging Face's folders, a file for each family, and what they share."""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "albert": (
        *("AlbertConfig", "AlbertForMaskedLM", "AlbertForPreTraining", "AlbertForQuestionAnswering"),
        *("AlbertForSequenceClassification", "AlbertForTokenClassification", "AlbertModel"),
    ),
    "bart": (
        *("BartConfig", "BartForConditionalGeneration", "BartForSequenceClassification", "BartModel"),
        *("MarianConfig", "MarianMTModel", "MarianModel"),
    ),
    "bert": (
        *("BertConfig", "BertForMaskedLM", "BertForNextSentencePrediction", "BertForPreTraining"),
        *("BertForQuestionAnswering", "BertForSequenceClassification", "BertForTokenClassification", "BertModel"),
        *("BertLMHeadModel", "pre_training_loss"),
    ),
    "blocks": ("attention_maps",),
    "distilbert": (
        *("DistilBertConfig", "DistilBertForMaskedLM", "DistilBertForQuestionAnswering", "DistilBertModel"),
        *("DistilBertForSequenceClassification", "DistilBertForTokenClassification"),
    ),
    "electra": (
        *("ElectraConfig", "ElectraForMaskedLM", "ElectraForPreTraining", "ElectraForQuestionAnswering"),
        *("ElectraForSequenceClassification", "ElectraForTokenClassification", "ElectraModel"),
    ),
    "experts": (
        *(
            f"{name}{part}"
            for name in ("Mixtral", "Qwen2Moe", "Qwen3Moe")
            for part in ("Config", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "Model")
        ),
    ),
    "gemma": (
        *("GemmaConfig", "GemmaForCausalLM", "GemmaForSequenceClassification", "GemmaForTokenClassification"),
        "GemmaModel",
    ),
    "gpt": (
        *("GPT2Config", "GPT2ForSequenceClassification", "GPT2ForTokenClassification", "GPT2LMHeadModel", "GPT2Model"),
    ),
    "gpt_neo": ("GPTNeoConfig", "GPTNeoForCausalLM", "GPTNeoForSequenceClassification", "GPTNeoModel"),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", "GPTNeoXForSequenceClassification", "GPTNeoXModel"),
    "llama": (
        *(
            f"{name}{part}"
            for name in ("Llama", "Mistral", "Qwen2", "Qwen3")
            for part in ("Config", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "Model")
        ),
    ),
    "mamba": ("MambaConfig", "MambaForCausalLM", "MambaModel"),
    "mpnet": (
        *("MPNetConfig", "MPNetForMaskedLM", "MPNetForQuestionAnswering", "MPNetForSequenceClassification"),
        *("MPNetForTokenClassification", "MPNetModel"),
    ),
    "opt": ("OPTConfig", "OPTForCausalLM", "OPTForSequenceClassification", "OPTModel"),
    "phi": (*("PhiConfig", "PhiForCausalLM", "PhiForSequenceClassification", "PhiForTokenClassification", "PhiModel"),),
    "phi3": (
        *("Phi3Config", "Phi3ForCausalLM", "Phi3ForSequenceClassification", "Phi3ForTokenClassification"),
        "Phi3Model",
    ),
    "roberta": (
        *("RobertaConfig", "RobertaForMaskedLM", "RobertaForQuestionAnswering", "RobertaForSequenceClassification"),
        *("RobertaForTokenClassification", "RobertaModel"),
    ),
    "t5": ("T5Config", "T5EncoderModel", "T5ForConditionalGeneration", "T5Model"),
    "whisper": ("WhisperConfig", "WhisperForConditionalGeneration", "WhisperModel"),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
