"""Models, a folder for each family: a model is an `nn.Module` that is read from top to bottom.

`classical` has closed forms beside the trained solution, `vision`, `sequences`, `text` and `transformers` the networks;
`weft.models.supervised` offers them all. `generative` is what models of data promise, `energy` those that are given by
an energy, `autoregressive` those that factorise, `flows` noise through invertible maps, `autoencoders` those that find
codes, `variational` those with hidden causes and a bound, `adversarial` games of two networks,
`diffusion` scores and ways back from noise, `graphs` networks over vertices and edges,
`fewlabels` what is made of poor labels; `weft.models.evaluate` says how good one is.
`weft.models.from_pretrained` is the door to weights from other places, `AutoTokenizer` to their tokenisers.
"""

from ..runtime.lazy import later as _later

_ROOMS = (
    *(
        "adversarial",
        "autoencoders",
        "autoregressive",
        "classical",
        "diffusion",
        "energy",
        "fewlabels",
        "flows",
        "generative",
        "graphs",
        "pretrained",
        "sequences",
        "supervised",
        "text",
        "transformers",
        "variational",
        "vision",
    ),
)

__getattr__, __dir__ = _later(
    __name__,
    _ROOMS,
    {
        "generative.evaluation": ("evaluate",),
        "pretrained.auto_tokenizer": ("AutoTokenizer", "PretrainedTokenizer"),
        "pretrained.batch_encoding": ("BatchEncoding",),
        "pretrained.chat_templates": ("TemplateError", "render_chat"),
        "pretrained.fine_tuning": ("fine_tune",),
        "pretrained.huggingface": ("from_pretrained",),
    },
)
