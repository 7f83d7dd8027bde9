"""What computing stands on: threads, the form of native plans, memory, settings, the cache of machine code."""
