"""Which machine this process runs on, and which ranks of its job run there, too."""

import hashlib
import os


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
