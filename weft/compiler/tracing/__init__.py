"""From a Python function to a graph: what it computes, reads, writes, draws and decides."""
