"""Names of parameters, as the user knows them."""

import re
import sys
import weakref

from _lockstep import _precision
from _lockstep._objects import objects_of
from _lockstep._placement import has_zero, note_meshes_of_fully_shard, parts_of_fsdp1, parts_of_pipeline, parts_of_zero

# Parts of names that wrappers add: DDP and DataParallel "module." at the beginning, torch.compile
# "_orig_mod.", FSDP "_fsdp_wrapped_module.", activation checkpoints "_checkpoint_wrapped_module.".
_WRAPPED = "module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"
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
    return objects_of(module_type)


def roots_of(modules):
    """The modules that are part of no other, in the order of their creation as far as known. None of those
    whose constructor failed: they have no parts yet."""
    whole = [module for module in modules if getattr(module, "_modules", None) is not None]
    children = {id(child) for module in whole for child in module._modules.values()}
    return [module for module in whole if id(module) not in children]


def _model_in(root):
    """The module inside, if it is a wrapper."""
    while True:
        parts = getattr(root, "_modules", None) or {}
        name, part = next(iter(parts.items()), ("", None))
        if len(parts) != 1 or name not in _WRAPPED or part is None:
            return root
        root = part


def _class_of(root):
    """The name of its class, of that of the module inside if it is a wrapper."""
    return type(_model_in(root)).__name__


def _parameters_of(root):
    """Pairs of name and parameter."""
    try:
        return [(plain_name(name), parameter) for name, parameter in root.named_parameters()]
    except Exception:  # of a class that overrides the method
        return []


def _is_of_module(tensor):
    from torch.nn import Parameter

    return isinstance(tensor, Parameter)


class _Parameter:
    """What is known about a parameter while it lives. `part`: global shape and offset, and the replica
    group, of a part that an engine made; None: it made none. `copies`: pairs of name and parameter that
    every rank holds of a flat parameter that DeepSpeed divides."""

    __slots__ = ("reference", "name", "part", "copies")

    def __init__(self, reference, name, part, copies):
        self.reference, self.name, self.part, self.copies = reference, name, part, copies


class Names:
    """Names for the parameters of all optimizers, and the parts that FSDP1 says they are. Equal on all
    ranks that build the same model."""

    def __init__(self, module_type):
        self._module_type = module_type
        self._known = {}  # by id of the parameter
        self._taken = set()
        self.precisions = set()  # of the modules that were searched
        self.models = []  # weak references to those with parameters of optimizers, without their wrappers

    def add(self, optimizer, ordinal, heirs):
        """Names the parameters of an optimizer that have none yet. `heirs`: names for those that took the
        place of another parameter, by id."""
        new = [(group, place, parameter)
               for group, content in enumerate(optimizer.param_groups)
               for place, parameter in enumerate(content["params"])
               if self._entry(parameter) is None]
        if not new:
            return
        parts, copies, found = {}, {}, {}
        # A plain tensor is in no module, and the search takes long.
        if has_zero() or any(_is_of_module(parameter) for _, _, parameter in new):
            modules = modules_of_process(self._module_type)
            self.precisions.update(_precision.of_modules(sys.modules["torch"], modules))
            note_meshes_of_fully_shard(modules)
            parts = parts_of_pipeline()
            parts.update(parts_of_fsdp1(modules))
            zero_parts, copies = parts_of_zero()
            parts.update(zero_parts)
            copied = {id(one) for group in copies.values() for one in group}
            found = self._in_modules(roots_of(modules),
                                     {id(parameter) for _, _, parameter in new} | copied)
        for group, place, parameter in new:
            owner, name = found.get(id(parameter), (None, None))
            if id(parameter) in heirs:
                name = heirs[id(parameter)]
            else:
                if name is None:
                    name = "optimizer%d.group%d.%d" % (ordinal, group, place)
                elif name in self._taken:
                    name = "%s.%s" % (owner, name)
                name = self._unique(name)
            known = [(found[id(copy)][1], copy) for copy in copies.get(id(parameter), [])
                     if id(copy) in found]
            self._keep(parameter, name, parts.get(id(parameter)), known)

    def add_rest(self):
        """Names the other parameters of the models of those that have names. Returns them."""
        held, rest = set(self._known), []
        modules = modules_of_process(self._module_type)
        parts = {**parts_of_pipeline(), **parts_of_fsdp1(modules)}
        for root in roots_of(modules):
            inside = _parameters_of(root)
            if held.isdisjoint(id(parameter) for _, parameter in inside):
                continue
            for name, parameter in inside:
                if id(parameter) not in held and not hasattr(parameter, "materialize"):  # lazy: no shape yet
                    if name in self._taken:
                        name = "%s.%s" % (_class_of(root), name)
                    self._keep(parameter, self._unique(name), parts.get(id(parameter)), [])
                    held.add(id(parameter))
                    rest.append(parameter)
        return rest

    def _add_model(self, model):
        self.models = [reference for reference in self.models if reference() is not None]
        if all(reference() is not model for reference in self.models):
            self.models.append(weakref.ref(model))

    def _keep(self, parameter, name, part, copies):
        key, known = id(parameter), self._known

        def forget(reference):
            if key in known and known[key].reference is reference:
                del known[key]

        known[key] = _Parameter(weakref.ref(parameter, forget), name, part, copies)

    def _entry(self, parameter):
        known = self._known.get(id(parameter))
        return known if known is not None and known.reference() is parameter else None

    def of(self, parameter):
        return self._entry(parameter).name

    def part_of(self, parameter):
        return self._entry(parameter).part

    def copies_of(self, parameter):
        return self._entry(parameter).copies

    def _unique(self, name):
        base, count = name, 1
        while name in self._taken:
            count += 1
            name = "%s#%d" % (base, count)
        self._taken.add(name)
        return name

    def _in_modules(self, roots, wanted):
        """Class of the root module, and name in it, of the wanted parameters, by id."""
        found = {}
        for root in roots:
            inside = [(name, parameter) for name, parameter in _parameters_of(root) if id(parameter) in wanted]
            if inside:
                self._add_model(_model_in(root))
            for name, parameter in inside:
                found.setdefault(id(parameter), (_class_of(root), name))
        return found
