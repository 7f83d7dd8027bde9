"""Looking inside: passes, kernels, times, and what the machine could do at best."""
