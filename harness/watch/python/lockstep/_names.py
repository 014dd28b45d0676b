"""Names of parameters, as the user knows them."""

import gc
import re

from lockstep._placement import parts_of_fsdp1, parts_of_zero

# Parts of names that wrappers add: DDP and DataParallel "module." at the beginning, torch.compile
# "_orig_mod.", FSDP "_fsdp_wrapped_module.", activation checkpoints "_checkpoint_wrapped_module.".
_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")


def plain_name(name):
    """`name` without the parts that wrappers add: "module._orig_mod.layer.weight" is "layer.weight".
    "module" goes only at the beginning, because models have modules of that name too."""
    name = _WRAPPERS.sub("", name)
    while name.startswith("module."):
        name = name[len("module."):]
    return name


def modules_of_process(module_type):
    """All modules that this process has."""
    return [thing for thing in gc.get_objects() if issubclass(type(thing), module_type)]


def roots_of(modules):
    """The modules that are part of no other, in the order of their creation as far as known."""
    children = {id(child) for module in modules for child in module._modules.values()}
    return [module for module in modules if id(module) not in children]


class Names:
    """Names for the parameters of all optimizers, and the parts that FSDP1 says they are. Equal on all
    ranks that build the same model."""

    def __init__(self, module_type):
        self._module_type = module_type
        self._names = {}  # by id of the parameter
        self._parts = {}  # by id of the parameter
        self._copies = {}  # parameters of modules, by id of the flat one that an engine divides
        self._copy_names = {}  # by id of such a parameter
        self._kept = []  # the parameters, so that no id is used again
        self._taken = set()

    def add(self, optimizer, ordinal):
        """Names the parameters of an optimizer that have none yet."""
        new = [(group, place, parameter)
               for group, content in enumerate(optimizer.param_groups)
               for place, parameter in enumerate(content["params"])
               if id(parameter) not in self._names]
        if not new:
            return
        modules = modules_of_process(self._module_type)
        self._parts.update(parts_of_fsdp1(modules))
        parts, copies = parts_of_zero()
        self._parts.update(parts)
        self._copies.update(copies)
        copied = {id(one) for group in copies.values() for one in group}
        found = self._in_modules(roots_of(modules),
                                 {id(parameter) for _, _, parameter in new} | copied)
        self._copy_names.update({key: name for key, (_, name) in found.items() if key in copied})
        for group, place, parameter in new:
            owner, name = found.get(id(parameter), (None, None))
            if name is None:
                name = "optimizer%d.group%d.%d" % (ordinal, group, place)
            elif name in self._taken:
                name = "%s.%s" % (owner, name)
            self._names[id(parameter)] = self._unique(name)
            self._kept.append(parameter)

    def of(self, parameter):
        return self._names[id(parameter)]

    def part_of(self, parameter):
        """Global shape and offset, and the replica group, of a part that FSDP1 made; None: it did not."""
        return self._parts.get(id(parameter))

    def copies_of(self, parameter):
        """Pairs of name and parameter that every rank holds of a flat parameter that DeepSpeed divides."""
        return [(self._copy_names[id(copy)], copy) for copy in self._copies.get(id(parameter), [])
                if id(copy) in self._copy_names]

    def _unique(self, name):
        base, count = name, 1
        while name in self._taken:
            count += 1
            name = "%s#%d" % (base, count)
        self._taken.add(name)
        return name

    @staticmethod
    def _in_modules(roots, wanted):
        """Class of the root module, and name in it, of the wanted parameters, by id."""
        found = {}
        for root in roots:
            for name, parameter in root.named_parameters():
                if id(parameter) in wanted and id(parameter) not in found:
                    found[id(parameter)] = (type(root).__name__, plain_name(name))
        return found
