"""The configuration of a training, as far as a comparison of two runs should see it."""

import weakref
from itertools import islice

_MOST_OPTIMIZERS = 8  # optimizers of single parameters are many
_MOST_GROUPS = 4  # both limits: see harness/diff/hyperparameters.cc
_LONGEST = 80
_MOST_MODELS = 4  # whose modes are looked at, in each step
_MOST_PARTS = 16
_MOST_SCHEDULERS = 16


def of_process(torch):
    """Settings of the process, by name."""
    return {"torch": str(torch.__version__),
            "deterministic algorithms": _text(torch.are_deterministic_algorithms_enabled()),
            "float32 matmul precision": _text(torch.get_float32_matmul_precision())}


def name_of(optimizer, ordinal):
    """ "AdamW", and "AdamW 1" if it is not the first optimizer of the rank."""
    return type(optimizer).__name__ + (" %d" % ordinal if ordinal else "")


def of_optimizer(optimizer, ordinal):
    """Its hyperparameters at its first step, by name: {"AdamW.lr": "0.001"}. `ordinal`: among those of
    the rank, from 0."""
    settings = {}
    if ordinal >= _MOST_OPTIMIZERS:
        return settings
    kind = name_of(optimizer, ordinal)
    if getattr(optimizer, "grad_scale", None) is not None:  # of a GradScaler: the step takes it back
        settings["%s.grad_scale" % kind] = "taken back in the step"
    for number, group in enumerate(optimizer.param_groups[:_MOST_GROUPS]):
        prefix = "%s group %d" % (kind, number) if len(optimizer.param_groups) > 1 else kind
        for name, value in group.items():
            text = None if name == "params" else _text(value)
            if text is not None:
                settings["%s.%s" % (prefix, name)] = text
    return settings


class Hyperparameters:
    """Those of the optimizers of a rank, whether they have a state, and the modes of its models, whenever a schedule or
    the training changes them."""

    _NAMES = ("lr", "weight_decay", "momentum", "betas", "eps")
    _MOST_CHANGES = 2048

    def __init__(self):
        self._seen = None  # what can be compared quickly
        self._settings = {}
        self._changes = []
        self._until = 0  # step
        self._modes = []
        self.first_modes = {}  # as settings of the training

    def facts(self):
        return {"hyperparameters": self._changes, "hyperparameters_until": self._until}

    def see(self, step, optimizers, models):
        """In a step that begins. `optimizers`: gives pairs of optimizer and WatchedOptimizer. `models`: weak
        references."""
        if len(self._changes) == self._MOST_CHANGES:
            return
        self._until = step
        pairs = optimizers()[:_MOST_OPTIMIZERS]
        seen = [tuple(_quick(group.get(name)) for name in self._NAMES)
                for optimizer, _ in pairs for group in optimizer.param_groups[:_MOST_GROUPS]]
        states = [_state_of(optimizer) for optimizer, _ in pairs]
        seen += states
        modes = [_flags_of(model()) for model in models[:_MOST_MODELS]]
        if seen == self._seen and modes == self._modes:
            return
        self._seen, self._modes = seen, modes
        settings = _modes_of([model() for model in models[:_MOST_MODELS]])
        if not self.first_modes:
            self.first_modes = dict(settings)
        for (optimizer, known), state in zip(pairs, states):
            settings.update(of_optimizer(optimizer, known.ordinal))
            if state:
                settings["%s.state" % name_of(optimizer, known.ordinal)] = state
        values = {name: value for name, value in settings.items() if self._settings.get(name) != value}
        self._settings.update(values)
        if values:
            self._changes.append({"step": step, "values": values})


class Schedules:
    """How often the schedulers of a rank were stepped, now and then: one that is gone keeps its last number."""

    def __init__(self):
        self._present = []  # weak references to those that there were at the first step
        self._facts = {}  # by id of the scheduler

    def facts(self):
        return list(self._facts.values())[:_MOST_SCHEDULERS]

    def remember_present(self, schedulers):
        """Those that there are at the first step: to search them again takes long."""
        self._present = [weakref.ref(one) for one in schedulers]

    def look(self, step, optimizers):
        """`optimizers`: pairs of optimizer and WatchedOptimizer. Raises nothing."""
        try:
            names = {id(optimizer): name_of(optimizer, known.ordinal) for optimizer, known in optimizers}
            for one in [reference() for reference in self._present]:
                name, steps = names.get(id(getattr(one, "optimizer", None))), getattr(one, "last_epoch", None)
                if name is not None and isinstance(steps, int):
                    self._facts[id(one)] = {"name": type(one).__name__, "optimizer": name, "steps": steps,
                                            "step": step}
        except Exception:  # of a scheduler with odd attributes
            self._facts = {}


def _flags_of(model):
    """Whether a model and each of its first modules are in training, as what can be compared quickly."""
    if model is None:  # a module may be empty, or have a truth of its own
        return None
    return [model.training, *[part is not None and part.training
                              for part in islice(model._modules.values(), _MOST_PARTS)]]


def _modes_of(models):
    """Their modes as settings, by name: {"the mode of Net": "train(), but head in eval()"}."""
    settings, kinds = {}, {}
    for model in models:
        if model is None:
            continue
        kind = type(model).__name__
        kinds[kind] = kinds.get(kind, 0) + 1
        others = [name for name, part in islice(model._modules.items(), _MOST_PARTS)
                  if part is not None and part.training != model.training]
        text = "train()" if model.training else "eval()"
        if others:
            text += ", but %s in %s" % (", ".join(others), "eval()" if model.training else "train()")
        name = "the mode of %s" % kind if kinds[kind] == 1 else "the mode of %s %d" % (kind, kinds[kind])
        settings[name] = text[:_LONGEST]
    return settings


def _state_of(optimizer):
    """In a word: "empty" on ranks that did not load one, or cleared it. "": it can have none, as where other ranks hold
    all parameters."""
    state = getattr(optimizer, "state", None)
    if not isinstance(state, dict) or not any(group["params"] for group in optimizer.param_groups):
        return ""
    return "not empty" if state else "empty"


def _quick(value):
    """A number or numbers; None: anything else, such as a tensor, whose comparison may wait for a GPU."""
    if isinstance(value, (tuple, list)):
        return tuple(_quick(part) for part in value)
    return value if isinstance(value, (int, float)) else None


def _text(value):
    """A number, a word or a pair of numbers as text; None: anything else, such as a tensor on a GPU."""
    if isinstance(value, (tuple, list)):
        parts = [_text(part) for part in value]
        return None if len(value) > 4 or None in parts else "(%s)" % ", ".join(parts)
    if value is None or isinstance(value, (bool, int, float, str)):
        return str(value)[:_LONGEST]
    return None
