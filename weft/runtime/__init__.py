"""What computing stands on: threads and the pool of native workers, memory, settings, the cache of machine code."""
