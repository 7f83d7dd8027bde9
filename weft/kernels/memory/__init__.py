"""Reading and writing at places, running sums, sparse products, random numbers."""
