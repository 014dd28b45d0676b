"""A rank that trains nothing, such as one that generates samples: no optimizer was made in it, and its models have no
gradients. It writes so when it leaves the world, with the digests of the parameters that it has then: they should be
those that other ranks have trained."""

import json
import os

from _lockstep import _files, _optimizers
from _lockstep._digests import digests_of
from _lockstep._names import parameters_of_models
from _lockstep._process import has_joined, rank_and_world

_FEWEST_RANKS = 3  # of which two train


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
    digests = digests_of(torch, [tensor for _, tensor in parameters])
    return [{"name": name, "digest": digest} for (name, _), digest in zip(parameters, digests) if digest]
