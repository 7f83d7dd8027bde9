"""The models of models.py in eager code on both sides: Weft's Python, tape and kernels against PyTorch's, in turns.

python bench/models_eager.py [--rounds 9] [--threads 1] [--only lstm] [--json FILE]
"""

from __future__ import annotations

import functools

import models
from turns import run

if __name__ == "__main__":
    programs = functools.partial(models.programs, compiled=False)
    run("training step, eager", __doc__, programs, rounds=9, seconds=0.2, processor=True)
