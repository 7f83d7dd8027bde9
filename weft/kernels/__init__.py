"""Native kernels: a leaf that knows no tensor, no operation and no graph; each room writes one kind of LLVM code.

`kernel.py` says what a kernel is, `body.py` what pointwise code can join it, `anchor.py` how an operation asks for one.
"""
