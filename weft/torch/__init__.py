"""Programs written for PyTorch, run as they are: `import torch` is answered by Weft while this is switched on.

    $ weft run train.py --epochs 3          or          $ python -m weft.torch train.py --epochs 3

    >>> import weft.torch
    >>> with weft.torch.installed():
    ...     import torch
    ...     print(torch.ones(2).sum().item())
    2.0

`install` puts a finder before Python's own: `torch`, `torch.nn`, `torch.utils.data` … (and `torchvision`, `torchaudio`)
become modules whose names are Weft's. `uninstall` takes it away and puts back what was there. Nothing of this happens
unless it is asked for. `missing` lists the names that were asked for and are not there, each with the line that asked.
"""

from ..runtime.lazy import later as _later

__all__ = ["install", "installed", "is_installed", "missing", "report", "run", "uninstall"]

__getattr__, __dir__ = _later(
    __name__,
    (),
    {
        "finder": ("install", "installed", "is_installed", "uninstall"),
        "wanting": ("missing", "report"),
        "script": ("run",),
    },
)
