"""Several processes that compute together: who they are, what they wait for, and arrays that travel between them.

MPI carries everything (mpi4py, imported when a second process is there); this room knows arrays, no tensors.
"""
