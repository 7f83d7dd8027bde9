"""Native code of linear systems: triangular ones, by substitution."""
