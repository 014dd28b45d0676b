"""Which machine this process runs on, which ranks of its job run there, too, and which cores they leave."""

import hashlib
import os

_MOST_THREADS = 8


def machine():
    """Of this machine since its start; 0: unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return int(file.read().strip().replace("-", "")[:16], 16)
    except (OSError, ValueError):
        return 0


def ranks_of_machine(rank, world):
    """First rank and number of the ranks that the launcher started on this machine, if they follow each
    other; 0, 0: unknown."""
    local, count = os.environ.get("LOCAL_RANK", ""), os.environ.get("LOCAL_WORLD_SIZE", "")
    if not (local.isdigit() and count.isdigit()):
        return 0, 0
    first = rank - int(local)
    if first < 0 or int(local) >= int(count) or first + int(count) > world:
        return 0, 0
    return first, int(count)


def rendezvous():
    """Equal for all ranks of a job, and for few others: they meet at one port."""
    names = "MASTER_PORT", "TORCHELASTIC_RUN_ID"
    text = "\0".join(os.environ.get(name, "") for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")


def threads_of(asked, torch, rank, world):
    """How many threads measure large values. For "auto" those that take no core from the job: one more
    than the cores that this rank's share of the machine has beside those of torch's threads."""
    if asked != "auto":
        if not asked.isdigit() or int(asked) == 0:
            raise ValueError("LOCKSTEP_WATCH_THREADS is '%s': give a number from 1 on, or auto" % asked)
        return int(asked)
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    ranks = int(ranks) if ranks.isdigit() and int(ranks) else max(1, ranks_of_machine(rank, world)[1])
    share = len(os.sched_getaffinity(0)) // ranks
    return max(1, min(_MOST_THREADS, 1 + share - torch.get_num_threads()))
