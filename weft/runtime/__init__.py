"""What computing stands on: threads of the linear-algebra library (later: the pool of native workers)."""
