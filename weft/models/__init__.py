"""Models, a folder for each field: a model is an `nn.Module` that is read from top to bottom.

`weft.models.supervised` holds the classical ones, with closed forms beside the trained solution, and the networks of
vision and language. `weft.models.from_pretrained` is the door to weights from other places, `AutoTokenizer` to their
tokenisers.
"""

from typing import Any as _Any

from ..runtime.lazy import later as _later


def from_pretrained(folder: _Any, **options: _Any) -> _Any:
    """The model of a Hugging Face folder or of torchvision's file; see `weft.io.huggingface.from_pretrained`."""
    from ..io.huggingface import from_pretrained as read

    return read(folder, **options)


__getattr__, __dir__ = _later(
    __name__,
    ("supervised",),
    {
        "auto_tokenizer": ("AutoTokenizer", "PretrainedTokenizer"),
        "batch_encoding": ("BatchEncoding",),
        "chat_templates": ("TemplateError", "render_chat"),
    },
)
