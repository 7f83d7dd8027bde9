"""The layers and losses that PyTorch has, a file for each family."""
