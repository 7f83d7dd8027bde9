"""From kernels to one native call: order, memory, the table of steps."""
