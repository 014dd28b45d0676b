"""What this process is in its job: which rank, whether it has joined the world, whether another Python process
started it."""

import atexit
import json
import os
import sys

from _lockstep import _files

_KIB = 1024
_EXITING = 4  # PF_EXITING of Linux


def has_joined():
    """Whether this process has joined a world of torch.distributed."""
    distributed = sys.modules.get("torch.distributed")
    return getattr(distributed, "is_initialized", lambda: False)()


def rank_and_world():
    """Rank and size of the world: of torch.distributed, else of the launcher; else a single process."""
    if has_joined():
        distributed = sys.modules["torch.distributed"]
        return distributed.get_rank(), distributed.get_world_size()
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdigit() and world.isdigit():
        return int(rank), int(world)
    return 0, 1


def knows_rank():
    """Whether this process knows its rank, or is a single one. One that multiprocessing started may join
    a world later."""
    return has_joined() or "RANK" in os.environ or not is_child()


def is_child():
    """Whether multiprocessing started this process."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def has_died(parent):
    """Whether the process that was the parent of this one has died, or is dying: its children hear of it first."""
    if os.getppid() != parent:
        return True
    try:
        with open("/proc/%d/stat" % parent, encoding="utf-8") as file:
            return bool(int(file.read().rsplit(")", 1)[1].split()[6]) & _EXITING)
    except OSError:
        return False


def was_observed(folder, rank):
    """Whether a process of this rank has observed steps: this one took its place, as by exec."""
    return os.path.exists(os.path.join(folder, "rank-%d.watch.json" % rank))


def note_elsewhere(folder, rank, step=0):
    """Writes that a rank trains in this process, which is not observed. `step`: the last one of the observed
    process when it was forked; 0: that process is gone."""
    path = os.path.join(folder, "rank-%d.elsewhere.json" % rank)
    with _files.opened("%s.%d.tmp" % (path, os.getpid()), encoding="utf-8") as file:
        json.dump({"process": os.getpid(), "step": step}, file)
    os.replace(file.name, path)


def at_end(call):
    """Calls it when this process ends by itself."""
    if is_child():  # which leaves without atexit
        from multiprocessing.util import Finalize
        Finalize(None, call, exitpriority=0)
    else:
        atexit.register(call)


def peak_bytes():
    """The most memory that this process had."""
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
