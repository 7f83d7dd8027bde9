"""Several processes over MPI: calls of all ranks, training together, faults, checkpoints."""
