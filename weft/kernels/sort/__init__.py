"""Lines put in order: whole, the first few, medians, places in sorted lines, histograms."""
