"""Seeds the generators of a rank before its script begins, for `lockstep validate --seed`. A later seed of
the script's own wins."""

import os
import random


# In which torchrun, Open MPI, MPICH and Slurm say which rank a process is.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def seed_of_process(first):
    """That of this rank, as far as its launcher says which one it is."""
    given = (os.environ[name] for name in _RANKS if os.environ.get(name, "").isdigit())
    return first + int(next(given, 0))


def seed_python(seed):
    random.seed(seed)


def seed_numpy(module, seed):
    """`module`: numpy.random."""
    module.seed(seed)


def seed_torch(module, seed):
    """`module`: torch."""
    module.manual_seed(seed)
