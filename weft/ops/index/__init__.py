"""Elements chosen and written by index, mask or search."""
