"""From nodes to kernels: which have kernels of their own, which join them, and the loops they become."""
