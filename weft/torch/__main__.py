"""`python -m weft.torch script.py …`: a PyTorch program on Weft, where the command `weft run` is not at hand."""

import sys

from .script import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
