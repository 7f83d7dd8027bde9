"""Supervised models, one file each: classical ones, images, sequences, Transformers, and between images and words.

Classical ones that have a closed form (or a Newton iteration) offer it beside training by gradients.
"""

from ...runtime.lazy import later as _later

_NAMES: dict[str, tuple[str, ...]] = {
    "alex_net": ("AlexNet", "alexnet"),
    "captioning": ("Captioner", "SequenceToImage", "coverage_penalty", "small_encoder"),
    "checkpoints": ("from_torchvision",),
    "convnext": (*("CNBlockConfig", "ConvNeXt", "convnext_tiny", "convnext_small", "convnext_base", "convnext_large"),),
    "densenet": ("DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"),
    "google_net": ("GoogLeNet", "GoogLeNetOutputs", "googlenet"),
    "lenet": ("LeNet5", "LeNet5Original"),
    "mobilenet": ("MobileNetV1", "MobileNetV2", "mobilenet_v1", "mobilenet_v2"),
    "resnet": (
        *("BasicBlock", "Bottleneck", "ResNet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
        *("resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2"),
    ),
    "resnet_hf": ("ResNetConfig", "ResNetForImageClassification", "ResNetModel"),
    "resnet_small": (
        *("CifarResNet", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "resnet1202"),
        *("PreActBlock", "PreActBottleneck", "PreActResNet", "preact_resnet18", "preact_resnet34", "preact_resnet50"),
        *("preresnet20", "preresnet56", "preresnet110", "preresnet164", "preresnet1001"),
        *("wide_resnet", "wide_resnet16_8", "wide_resnet28_10", "wide_resnet40_4"),
    ),
    "vgg": ("VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"),
    "vit": (
        *("VisionTransformer", "interpolate_embeddings", "vit_ti_16", "vit_s_16", "vit_b_16", "vit_b_32"),
        *("vit_l_16", "vit_l_32", "vit_h_14"),
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
    "albert": (
        *("AlbertConfig", "AlbertForMaskedLM", "AlbertForPreTraining", "AlbertForQuestionAnswering"),
        *("AlbertForSequenceClassification", "AlbertForTokenClassification", "AlbertModel"),
    ),
    "distilbert": (
        *("DistilBertConfig", "DistilBertForMaskedLM", "DistilBertForQuestionAnswering", "DistilBertModel"),
        *("DistilBertForSequenceClassification", "DistilBertForTokenClassification"),
    ),
    "electra": (
        *("ElectraConfig", "ElectraForMaskedLM", "ElectraForPreTraining", "ElectraForQuestionAnswering"),
        *("ElectraForSequenceClassification", "ElectraForTokenClassification", "ElectraModel"),
    ),
    "mpnet": (
        *("MPNetConfig", "MPNetForMaskedLM", "MPNetForQuestionAnswering", "MPNetForSequenceClassification"),
        *("MPNetForTokenClassification", "MPNetModel"),
    ),
    "opt": ("OPTConfig", "OPTForCausalLM", "OPTForSequenceClassification", "OPTModel"),
    "gpt_neo": ("GPTNeoConfig", "GPTNeoForCausalLM", "GPTNeoForSequenceClassification", "GPTNeoModel"),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", "GPTNeoXForSequenceClassification", "GPTNeoXModel"),
    "gpt": (
        *("GPT2Config", "GPT2ForSequenceClassification", "GPT2ForTokenClassification", "GPT2LMHeadModel", "GPT2Model"),
    ),
    "gemma": (
        *("GemmaConfig", "GemmaForCausalLM", "GemmaForSequenceClassification", "GemmaForTokenClassification"),
        "GemmaModel",
    ),
    "phi": (*("PhiConfig", "PhiForCausalLM", "PhiForSequenceClassification", "PhiForTokenClassification", "PhiModel"),),
    "llama": (
        *(
            f"{name}{part}"
            for name in ("Llama", "Mistral", "Qwen2", "Qwen3")
            for part in ("Config", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "Model")
        ),
    ),
    "roberta": (
        *("RobertaConfig", "RobertaForMaskedLM", "RobertaForQuestionAnswering", "RobertaForSequenceClassification"),
        *("RobertaForTokenClassification", "RobertaModel"),
    ),
    "outputs": (
        *("AlbertForPreTrainingOutput", "BaseModelOutput", "BaseModelOutputWithPast"),
        *("BaseModelOutputWithPooling", "BertForPreTrainingOutput", "CausalLMOutputWithPast"),
        *("DeiTForImageClassificationWithTeacherOutput", "ElectraForPreTrainingOutput"),
        *("ImageClassifierOutput", "MaskedLMOutput", "ModelOutput", "NextSentencePredictorOutput"),
        *("QuestionAnsweringModelOutput", "Seq2SeqLMOutput", "Seq2SeqModelOutput"),
        *("Seq2SeqSequenceClassifierOutput", "SequenceClassifierOutput", "SequenceClassifierOutputWithPast"),
        "TokenClassifierOutput",
    ),
    "sentences": ("SentenceEncoder",),
    "t5": ("T5Config", "T5EncoderModel", "T5ForConditionalGeneration", "T5Model"),
    "transformer_blocks": ("attention_maps",),
    "vit_hf": (
        *("DeiTConfig", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher", "DeiTModel"),
        *("ViTConfig", "ViTForImageClassification", "ViTModel"),
    ),
    "cache": ("compiled_steps", "fixed_capacity"),
    "decoding": ("beam_search", "generate", "greedy_search", "recomputing", "sample"),
    "generation": ("GenerationConfig",),
    "descent": ("descend",),
    "linear_models": (
        *("LinearRegression", "LogisticRegression", "SoftmaxRegression"),
        *("minimum_norm", "normal_equations", "qr_least_squares"),
    ),
    "mlp": ("MLP", "rectifier_network"),
    "output_codes": ("CodedPerceptron", "binary_code", "exhaustive_code", "least_distance", "one_hot_code"),
    "perceptron": ("Perceptron", "PerceptronHistory", "margin", "mistake_bound"),
    "polynomial": ("BasisRegression", "PolynomialRegression", "chebyshev", "gaussians", "monomials", "random_relu"),
    "anomalies": ("AnomalyDetector",),
    "deepar": ("DeepAR", "GaussianLikelihood", "NegativeBinomialLikelihood", "StudentTLikelihood"),
    "intermediate": ("IntermediateClassifier", "intermediate_loss"),
    "markov": ("MarkovModel",),
    "recurrent_models": (
        *("RecurrentEncoder", "RecurrentForecaster", "RecurrentLanguageModel", "SequenceClassifier", "SequenceTagger"),
    ),
    "seq2seq": ("BahdanauDecoder", "LuongDecoder", "PlainDecoder", "Seq2Seq", "teacher_forcing_share"),
    "tcn": ("TCN",),
    "translation": ("TranslationTransformer",),
    "wavenet": ("WaveNet", "mu_law_decode", "mu_law_encode"),
    "word2vec": ("Word2Vec", "cbow_windows", "skipgram_pairs", "subsample"),
    "word_vectors": ("WordVectors",),
}

__all__ = [name for names in _NAMES.values() for name in names]

__getattr__, __dir__ = _later(__name__, (), _NAMES)
