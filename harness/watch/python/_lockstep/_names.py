"""Names of parameters, as the user knows them."""

import functools
import re
import sys
import weakref

from _lockstep import _engines, _precision
from _lockstep._masters import is_computed_with, masters_in
from _lockstep._objects import objects_of
from _lockstep._wrappers import in_wrappers

# Parts of names that wrappers add: DDP and DataParallel "module." at the beginning, torch.compile
# "_orig_mod.", FSDP "_fsdp_wrapped_module.", activation checkpoints "_checkpoint_wrapped_module.".
_WRAPPED = "module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"
_MOST_SEARCHES = 4  # for the modules of tensors that are in none
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


def _has_taken(root, theirs, own):
    """Whether a model is what trains of another one, whose head, say, it has replaced. `theirs`, `own`: ids of trained
    parameters of both."""
    return own <= theirs and (own != theirs or _model_in(root) is not root)


def _parameters_of(root, divided):
    """Pairs of name and parameter, as optimizers hold it. `divided`: those of `_divided_by_gathered`."""
    try:
        return [(plain_name(name), divided.get(id(parameter), parameter))
                for name, parameter in root.named_parameters()]
    except Exception:  # of a class that overrides the method
        return []


def _divided_by_gathered(modules):
    """The parameters that engines divide, by id of the whole one that they have put in its place for now."""
    return {id(module._parameters[name]): parameter for module, name, parameter, _ in _engines.gathered_in(modules)
            if module._parameters.get(name) is not None}


def held_for(module_type):
    """What optimizers hold in the place of a parameter that a module of this process has, by its id, where these
    differ."""
    return _divided_by_gathered(modules_of_process(module_type))


class Models:
    """Those of this process, which take long to find. `modules`: all of them; `roots`: pairs of a module that is part
    of no other, and of pairs of name and parameter, as optimizers hold it."""

    def __init__(self, module_type):
        self.modules = modules_of_process(module_type)
        divided = _divided_by_gathered(self.modules)
        self.roots = [(root, _parameters_of(root, divided)) for root in roots_of(self.modules)]

    @functools.cached_property
    def parts(self):
        """EngineParts, by id of the parameter."""
        return _engines.parts_in(self.modules)


def parameters_of_models(module_type):
    """Pairs of name and parameter, as optimizers hold it, of each model of this process."""
    return [inside for _, inside in Models(module_type).roots]


def _is_of_module(tensor):
    from torch.nn import Parameter

    return isinstance(tensor, Parameter)


def frozen_models(models, stepped, unused):
    """Pairs of a class, and of pairs of name and parameter, of what trains in no model of this process: of models without
    a parameter that trains, and, with an empty class, of the others. `stepped`: ids of what optimizers step; `unused`: those
    of `Names.unused`, which are in no row."""
    found = []
    for root, parameters in models.roots:
        inside = [(name, parameter) for name, parameter in parameters
                  if id(parameter) not in models.parts and not hasattr(parameter, "materialize")]
        trains = any(parameter.requires_grad or id(parameter) in stepped for _, parameter in inside)
        frozen = [(name, parameter) for name, parameter in inside
                  if not parameter.requires_grad and id(parameter) not in stepped]
        found.append(("" if trains else _class_of(root), frozen))
        found.append((_class_of(root), [one for one in inside if id(one[1]) in unused]))
    return found


class _Parameter:
    """What is known about a parameter while it lives. `part`: global shape and offset, and the replica
    group, of a part that an engine made; None: it made none. `copies`: pairs of name and parameter that
    every rank holds of a flat parameter that DeepSpeed divides. `in_module`: a weak reference to the parameter of a module
    that is trained by this copy of it; to itself: it is no such copy."""

    __slots__ = ("reference", "name", "part", "copies", "in_module")

    def __init__(self, reference, name, part, copies):
        self.reference, self.name, self.part, self.copies = reference, name, part, copies
        self.in_module = reference


class Names:
    """Names for the parameters of all optimizers, and the parts that FSDP1 says they are. Equal on all
    ranks that build the same model."""

    def __init__(self, module_type):
        self._module_type = module_type
        self._known = {}  # by id of the parameter
        self._taken = set()
        self._searches = 0  # for the modules of plain tensors
        self.precisions = set()  # of the modules that were searched
        self.unused = set()  # ids of parameters that would be trained, outside of the wrappers that have all which are
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
        parts, found, masters = {}, {}, {}
        if self._is_worth_a_search([parameter for _, _, parameter in new]):
            models = Models(self._module_type)
            self.precisions.update(_precision.of_modules(sys.modules["torch"], models.modules))
            parts = models.parts
            copied = {id(copy) for part in parts.values() for copy in part.copies}
            found = self._in_modules(models, {id(parameter) for _, _, parameter in new} | copied)
            masters = self._masters_of([parameter for _, _, parameter in new
                                        if id(parameter) not in found and id(parameter) not in heirs
                                        and id(parameter) not in parts], models, set(found))
            found.update({key: (_class_of(root), name) for key, (root, name, _) in masters.items()})
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
            self._keep(parameter, name, parts.get(id(parameter)), found)
            if id(parameter) in masters and is_computed_with(masters[id(parameter)][2], parameter):
                self._known[id(parameter)].in_module = weakref.ref(masters[id(parameter)][2])

    def _is_worth_a_search(self, parameters):
        """A plain tensor is in no module, but may be the copy of a parameter that is. The search takes long, and some
        trainings make an optimizer of such a tensor for each batch."""
        if _engines.have_plain_tensors() or any(map(_is_of_module, parameters)):
            return True
        self._searches += 1
        return self._searches <= _MOST_SEARCHES

    def _masters_of(self, tensors, models, stepped):
        """Triples of root module, name and parameter, by id of the tensor that is a copy of it. `stepped`: ids of
        parameters that an optimizer has itself."""
        if not tensors:
            return {}
        stepped = stepped.union(id(one.in_module()) for one in self._known.values())
        others = [(root, [one for one in inside if id(one[1]) not in stepped]) for root, inside in models.roots]
        try:
            found = masters_in(sys.modules["torch"], tensors, others)
        except Exception:  # of parameters without values
            return {}
        for tensor, (root, _, parameter) in zip(tensors, found):
            self._add_model(_model_in(root))
            if parameter.dtype != tensor.dtype:
                self.precisions.add(_precision.of_parameter(parameter))
        return dict(zip(map(id, tensors), found))

    def add_rest(self, models):
        """Names the other parameters of the models of those that have names. Returns them."""
        held, rest = {id(one.in_module()) for one in self._known.values()}, []
        trained = [(root, inside, held.intersection(id(parameter) for _, parameter in inside))
                   for root, inside in models.roots]
        wrapped = in_wrappers()
        is_wrapped = held <= wrapped
        for root, inside, own in trained:
            if not own:
                continue
            is_leftover = any(_has_taken(other, theirs, own) for other, _, theirs in trained if other is not root)
            for name, parameter in inside:
                is_lazy = hasattr(parameter, "materialize")  # it has no shape yet
                if id(parameter) in held or is_lazy:
                    continue
                is_outside = is_wrapped and id(parameter) not in wrapped
                if (is_leftover or is_outside) and parameter.requires_grad and parameter.grad is None:
                    if not is_leftover:
                        self.unused.add(id(parameter))
                    continue
                if name in self._taken:
                    name = "%s.%s" % (_class_of(root), name)
                self._keep(parameter, self._unique(name), models.parts.get(id(parameter)), {})
                held.add(id(parameter))
                rest.append(parameter)
        return rest

    def _add_model(self, model):
        self.models = [reference for reference in self.models if reference() is not None]
        if all(reference() is not model for reference in self.models):
            self.models.append(weakref.ref(model))

    def _keep(self, parameter, name, part, found):
        """`part`: None: no engine divides it. `found`: classes and names of its copies, by id."""
        key, known = id(parameter), self._known

        def forget(reference):
            if key in known and known[key].reference is reference:
                del known[key]

        copies = [(found[id(copy)][1], copy) for copy in (part.copies if part is not None else ())
                  if id(copy) in found]
        known[key] = _Parameter(weakref.ref(parameter, forget), name, part.known if part is not None else None, copies)

    def _entry(self, parameter):
        known = self._known.get(id(parameter))
        return known if known is not None and known.reference() is parameter else None

    def of(self, parameter):
        return self._entry(parameter).name

    def in_module(self, parameter):
        """The parameter of a module that is trained by this copy of it, or itself."""
        found = self._entry(parameter).in_module()
        return found if found is not None else parameter

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

    def _in_modules(self, models, wanted):
        """Class of the root module, and name in it, of the wanted parameters, by id."""
        found = {}
        for root, parameters in models.roots:
            inside = [(name, id(parameter)) for name, parameter in parameters if id(parameter) in wanted]
            if inside:
                self._add_model(_model_in(root))
            for name, key in inside:
                found.setdefault(key, (_class_of(root), name))
        return found
