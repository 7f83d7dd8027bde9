"""Native code of signal processing: Fourier transforms of lines."""
