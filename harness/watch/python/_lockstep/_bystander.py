"""A rank that trains nothing, such as one that generates samples: no optimizer was made in it, and its models have no
gradients. It writes so when it leaves the world, with the digests of the parameters that it has then: they should be
those that other ranks have trained."""

import json
import os

from _lockstep import _files, _library, _optimizers
from _lockstep._names import parameters_of_models
from _lockstep._placement import placement_of
from _lockstep._process import has_joined, rank_and_world

_FEWEST_RANKS = 3  # of which two train
_MOST_COPIES = 1024  # parameters
_MOST_BYTES = 256 * 2**20  # of these, so that the process ends soon


def note(torch, folder):
    """Writes it, if this process is one. Raises nothing."""
    try:
        if has_joined() and rank_and_world()[1] >= _FEWEST_RANKS and not _optimizers.were_made():
            _note(torch, folder)
    except Exception:  # of modules with odd attributes, or a full disk; without the note the rank is missing
        pass


def _note(torch, folder):
    parameters = [one for model in parameters_of_models(torch.nn.Module) for one in model]
    if any(tensor.grad is not None for _, tensor in parameters):
        return
    rank, world = rank_and_world()
    path = os.path.join(folder, "rank-%d.bystander.json" % rank)
    with _files.opened(path + ".tmp", encoding="utf-8") as file:
        json.dump({"rank": rank, "world_size": world, "copies": _copies(torch, parameters)}, file)
    os.replace(path + ".tmp", path)


def _copies(torch, parameters):
    copies, size, digest = [], 0, _library.digester()
    for name, tensor in parameters[:_MOST_COPIES]:
        try:
            placed = placement_of(tensor)
            if placed.reason or placed.part is not None:
                continue
            size += placed.local.numel() * placed.local.element_size()
            if size > _MOST_BYTES:
                break
            copies.append({"name": name, "digest": _digest_of(torch, placed.local, digest)})
        except Exception:  # of a type without a digest, or a parameter that has no shape yet
            pass
    return copies


def _digest_of(torch, tensor, digest):
    with torch.no_grad():
        value = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return digest(str(value.dtype)[len("torch."):], tuple(value.shape), value.data_ptr())
