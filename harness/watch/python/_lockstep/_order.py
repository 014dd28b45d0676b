"""The order of the parameters that a wrapper pairs with those of other ranks. It goes by their places alone, and each rank
has the order in which its own code has made them."""

import hashlib

from _lockstep._fully_shard import groups_of
from _lockstep._names import modules_of_process
from _lockstep._objects import type_of

_MOST_FACTS = 256


class Orders:
    def __init__(self, torch):
        self._torch = torch
        self._facts = []

    def facts(self):
        return self._facts

    def look(self):
        """In a step that begins, until there are wrappers. Raises nothing: without these facts another order is not
        told."""
        if self._facts:
            return
        try:
            modules = modules_of_process(self._torch.nn.Module)
            found = [*_of_ddp(modules, self._torch.distributed), *_of_fully_shard(modules)]
            found = {tuple(fact.items()): fact for fact in found}
            self._facts = list(found.values())[:_MOST_FACTS]
        except Exception:  # of wrappers with odd attributes
            pass


def _of_ddp(modules, distributed):
    ddp_type = type_of("torch.nn.parallel.distributed", "DistributedDataParallel")
    for ddp in modules:
        if (ddp_type is not None and isinstance(ddp, ddp_type) and getattr(ddp, "module", None) is not None
                and ddp.process_group.size() > 1):
            ignored = getattr(ddp, "parameters_to_ignore", ())
            names = [name for name, _ in ddp.module.named_parameters() if name not in ignored]
            yield _fact("DDP", names, distributed.get_process_group_ranks(ddp.process_group))


def _of_fully_shard(modules):
    for group in groups_of(modules):
        names = [getattr(parameter, "_param_fqn", None) for parameter in group.fsdp_params]
        if all(names):
            yield _fact("fully_shard", names, group.mesh_info.mesh.mesh.flatten().tolist())


def _fact(wrapper, names, ranks):
    """`ranks`: between which it pairs them."""
    return {"wrapper": wrapper, "count": len(names), "names": _digest([*sorted(names), str(ranks)]),
            "order": _digest(names)}


def _digest(names):
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
