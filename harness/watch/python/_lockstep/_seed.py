"""Seeds the generators of a rank before its script begins, for `lockstep validate --seed`. A later seed of
the script's own wins."""

import os
import random


def seed_of_process(first):
    """That of this rank, as far as its launcher says which one it is."""
    rank = os.environ.get("RANK", "")
    return first + (int(rank) if rank.isdigit() else 0)


def seed_python(seed):
    random.seed(seed)


def seed_numpy(module, seed):
    """`module`: numpy.random."""
    module.seed(seed)


def seed_torch(module, seed):
    """`module`: torch."""
    module.manual_seed(seed)
