"""Parameters that modules shared once, and no longer share: what loads, copies or divides the parameters of one module does
not know of the other, and the training goes on with two. A script that gives a module another parameter unties it by
itself, which counts as meant."""

import sys
import weakref

from _lockstep._names import held_for


class _Tie:
    def __init__(self):
        self.places = []  # pairs of a weak reference to a module and the name of an attribute

    def parameters(self):
        """Those that its modules have now."""
        modules = ((module(), name) for module, name in self.places)
        found = [module._parameters.get(name) for module, name in modules if module is not None]
        return [parameter for parameter in found if parameter is not None]


_first = {}  # weak references to a parameter and to the module that had it first, and its name there, by id
_ties = {}  # pairs of a weak reference to the module and its _Tie, by its id and the name of the attribute


def note(module, name, parameter):
    """A module was given a parameter. Raises nothing."""
    try:
        if parameter is not None and not sys.modules["torch"].compiler.is_compiling():
            _note(module, name, parameter)
    except Exception:  # of a module without weak references, or while torch is imported
        pass


def _note(module, name, parameter):
    key = id(module), name
    owner, tie = _ties.get(key, (lambda: None, None))
    if owner() is module:
        if all(other is parameter for other in tie.parameters()) or _is_called_by_torch():
            return
        tie.places = [(place, attribute) for place, attribute in tie.places
                      if place() is not module or attribute != name]
        del _ties[key]
    first, owner, attribute = _first.get(id(parameter), (lambda: None, lambda: None, ""))
    other = owner()
    if first() is not parameter or other is None or other._parameters.get(attribute) is not parameter:
        _first[id(parameter)] = weakref.ref(parameter), weakref.ref(module), name
    elif (id(other), attribute) != key:
        known, tie = _ties.get((id(other), attribute), (lambda: None, None))
        if known() is not other:
            tie = _Tie()
            _add_place(tie, other, attribute)
        _add_place(tie, module, name)


def _add_place(tie, module, name):
    reference = weakref.ref(module)
    tie.places.append((reference, name))
    _ties[id(module), name] = reference, tie


def _is_called_by_torch():
    """Rather than by the script or by a library that builds models."""
    frame = sys._getframe(4)  # of who called `register_parameter`
    while frame is not None and frame.f_code.co_name == "__setattr__":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "torch"


class Ties:
    def __init__(self, torch):
        self._torch = torch
        self._facts = {}  # by names

    def facts(self):
        return list(self._facts.values())

    def look(self, step, named):
        """In a step that begins; its gradients are there. `named`: gives pairs of tensor and name of what all optimizers
        hold. Raises nothing: without these facts a broken tie is not told."""
        try:
            ties = {id(tie): tie for _, tie in _ties.values()}.values()
            apart = [found for found in map(_Tie.parameters, ties) if any(one is not found[0] for one in found)]
            if apart:
                names = {id(tensor): name for tensor, name in named()}
                held = held_for(self._torch.nn.Module)
                for found in apart:
                    self._look_at(step, {id(one): one for one in (held.get(id(one), one) for one in found)}, names)
        except Exception:  # of modules with odd attributes
            self._facts = {}

    def _look_at(self, step, parameters, names):
        """`parameters`: as optimizers hold them, by id."""
        trained = {names[key]: one for key, one in parameters.items()
                   if key in names and one.requires_grad and one.grad is not None}
        if len(trained) > 1 and _are_apart(list(trained.values())):
            told = sorted(trained)
            self._facts.setdefault(tuple(told), {"parameters": told, "step": step})


def _are_apart(parameters):
    """Whether their values differ, as far as the parts of this rank tell. A training may keep them equal by itself."""
    first, *others = parameters
    return any(getattr(one, "placements", None) == getattr(first, "placements", None)
               and _local(one).shape == _local(first).shape and not _local(one).equal(_local(first)) for one in others)


def _local(tensor):
    return getattr(tensor, "_local_tensor", tensor).detach()
