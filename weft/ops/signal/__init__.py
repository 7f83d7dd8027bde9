"""Fourier transforms, spectrograms, and the windows that go with them."""
