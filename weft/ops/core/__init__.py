"""What an operation is: kinds, the register, operands, writes into memory, loops and branches."""
