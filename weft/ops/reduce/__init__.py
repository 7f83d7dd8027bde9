"""Many elements to one, running or at once: sums, extremes, norms, statistics, order."""
