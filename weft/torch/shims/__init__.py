"""Names of PyTorch's that have no use in Weft but for programs that ask for them."""
