"""Products, systems, factorisations, spectra; sparse matrices."""
