"""LLVM text and machine code: the builder, its values, loads and stores, loops, and the way to addresses."""
