"""The devices that parameters are on, and the memory that was used."""

from _lockstep._process import peak_bytes

_MOST_NAMES = 64  # of parameters that a rank holds beside most of its own


def uses_of(torch, parameters):
    """The devices that parameters are on, that with most of them first, in which no names are given. `parameters`:
    pairs of tensor and name."""
    names = {}
    for tensor, name in parameters:
        names.setdefault(str(tensor.device), []).append(name)
    found = sorted(names.items(), key=lambda one: (-len(one[1]), one[0]))
    return [{"device": device, "id": _id_of(torch, device), "parameters": len(here),
             "names": sorted(here)[:_MOST_NAMES] if number > 0 else []}
            for number, (device, here) in enumerate(found)]


def _id_of(torch, device):
    """By which no other GPU goes; "": none, or it is unknown to this torch."""
    try:
        return str(torch.cuda.get_device_properties(device).uuid) if device.startswith("cuda") else ""
    except Exception:  # of an old torch, or a driver that fails
        return ""


def memory_of(torch):
    """The most memory, in bytes, that this process held, and that torch allocated of all its GPUs; 0: none."""
    allocated = 0
    try:
        if torch.cuda.is_initialized():
            allocated = sum(torch.cuda.max_memory_allocated(device) for device in range(torch.cuda.device_count()))
    except Exception:  # of a driver that fails
        pass
    return {"peak_bytes": peak_bytes(), "peak_device_bytes": allocated}
