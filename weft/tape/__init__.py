"""What is recorded while tensors are computed, and how it runs backward: nodes, modes, saved values.

Operations stand on it; `weft.autograd` has the public names and the transforms of functions.
"""
