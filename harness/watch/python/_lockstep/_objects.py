"""The objects of this process that the hook looks for, whatever the garbage collector lists: `gc.freeze()`
takes all objects out of its lists, as jobs do before they fork."""

import gc
import sys
import weakref

# Modules, and their types that the hook looks for.
_wanted = [("torch.nn.modules.module", "Module"), ("torch.optim.optimizer", "Optimizer"),
           ("torch.optim.lr_scheduler", "LRScheduler"),
           ("torch.distributed.algorithms.model_averaging.averagers", "ModelAverager")]

_freeze = gc.freeze
_frozen = {}  # weak references to objects of these types, by id, in the order of their creation as far as known


def keep_type(module, name):
    """From now on `gc.freeze()` does not hide objects of this type of a module either."""
    _wanted.append((module, name))


def type_of(module, name):
    """A type, if its module was imported; else None."""
    return getattr(sys.modules.get(module), name, None)


def objects_of(wanted):
    """All objects of a type, or of one of a tuple of types, those that were made first first as far as known."""
    frozen = [thing for thing in (reference() for reference in _frozen.values())
              if thing is not None and issubclass(type(thing), wanted)]
    known = {id(thing) for thing in frozen}
    return frozen + [thing for thing in gc.get_objects()
                     if issubclass(type(thing), wanted) and id(thing) not in known]


def objects_by_type(*types):
    """A list of those of each type, in one search, which takes long. None: a type that was not imported."""
    found = objects_of(tuple(one for one in types if one is not None))
    return [[thing for thing in found if one is not None and issubclass(type(thing), one)] for one in types]


def _note_frozen():
    wanted = tuple(found for found in (type_of(*names) for names in _wanted) if isinstance(found, type))
    for key in [key for key, reference in _frozen.items() if reference() is None]:
        del _frozen[key]
    if wanted:
        for thing in objects_of(wanted):
            _frozen.setdefault(id(thing), weakref.ref(thing))


def freeze():
    """Freeze all current tracked objects and ignore them for future collections."""
    try:
        _note_frozen()
    except Exception:  # of a type with an odd metaclass; the job must not notice
        pass
    return _freeze()


def keep_frozen():
    """From now on `gc.freeze()` does not hide objects from the hook."""
    gc.freeze = freeze


def are_hidden():
    """Whether objects were frozen before."""
    return gc.freeze is not freeze and gc.get_freeze_count() > 0
