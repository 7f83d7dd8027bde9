"""Sample calls of every operation, one table a file of `weft/ops`."""
