"""Says who each rank is, and lets the ranks agree on a sum; needs mpi4py."""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank = world.Get_rank()
size = world.Get_size()
library = MPI.Get_library_version().split("\n", 1)[0].strip("\0 ")
total = world.allreduce(rank)
assert total == size * (size - 1) // 2, (total, size)
# One write: print() writes a line in two parts if Python does not buffer.
sys.stdout.write(f"rank {rank} of {size} sum {total} library {library}\n")
sys.stdout.flush()
