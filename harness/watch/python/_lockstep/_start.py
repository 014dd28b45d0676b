"""Waits for the modules that the hook needs, without importing any of them."""

import atexit
import json
import os
import sys

from _lockstep import _exits, _files, _objects, _settings

# Imported modules, and the function of `_hook` that each is passed to.
_MODULES = {"torch.optim.optimizer": "on_optimizer_module",
            "torch.amp.grad_scaler": "on_scaler_module",
            "torch.amp.autocast_mode": "on_autocast_module",
            "torch.nn.modules.module": "on_module_module",
            "torch.nn.parallel.distributed": "on_wrapper_module",
            "torch.distributed.fsdp._fully_shard._fsdp_param": "on_divided_module",
            "torch.distributed.fsdp._flat_param": "on_divided_module",
            "torch.utils.data.distributed": "on_sampler_module",
            "torch.distributed.algorithms.join": "on_join_module",
            "torch.distributed.distributed_c10d": "on_distributed_module",
            "torch._dynamo": "on_dynamo_module",
            "lightning.pytorch.trainer.connectors.logger_connector.result": "on_metrics_module",
            "pytorch_lightning.trainer.connectors.logger_connector.result": "on_metrics_module"}

# The same of launchers, and the function of `_launchers`.
_LAUNCHERS = {"torch.distributed.elastic.multiprocessing.api": "on_elastic_module",
              "torch.multiprocessing.spawn": "on_spawn_module"}


def say(sentence):
    """Prints a line, in one write: other ranks print at the same time."""
    sys.stderr.write("lockstep: %s\n" % sentence)


# The same of generators that `lockstep validate --seed` seeds, and the function of `_seed`.
_GENERATORS = {"numpy.random": "seed_numpy", "torch": "seed_torch"}


def _note_reach(what):
    """Writes that a process of the job came to load the hook, "python", or torch: if nothing is observed, that
    tells why."""
    try:
        with _files.opened(os.path.join(_settings.current.folder, "watch.loaded"), "a") as file:
            file.write(what + "\n")
    except OSError:
        pass


def _pass(module, action):
    """Passes an imported module to the hook."""
    if _settings.current is None:
        return
    if action == "on_optimizer_module":
        _note_reach("torch")
    if action in _LAUNCHERS.values():
        from _lockstep import _launchers

        getattr(_launchers, action)(module)
        return
    if action in _GENERATORS.values():
        from _lockstep import _seed

        getattr(_seed, action)(module, _seed.seed_of_process(_settings.current.seed))
        return
    from _lockstep import _hook

    getattr(_hook, action)(module)


class _Loader:
    """Executes a module as its own loader does, then passes it to the hook."""

    def __init__(self, loader, action):
        self._loader = loader
        self._action = action

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            _pass(module, self._action)
        except Exception as error:  # the job must not notice
            say("this process is not watched: %s" % error)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder:
    """Finds the modules as the other finders do."""

    def find_spec(self, name, path=None, target=None):
        action = _MODULES.get(name) or _LAUNCHERS.get(name) or _generators().get(name)
        if action is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, action)
                return spec
        return None


def _generators():
    current = _settings.current
    return {} if current is None or current.seed is None else _GENERATORS


def _end_by(error):
    if _settings.watcher is not None:
        _settings.watcher.end_by(error)


def install():
    """Waits for the modules."""
    _objects.keep_frozen()
    _exits.keep_errors(_end_by)
    if _generators():
        from _lockstep import _seed

        _seed.seed_python(_seed.seed_of_process(_settings.current.seed))
    if _settings.current is not None:
        _note_reach("python")
    if _settings.current is not None and _settings.current.tracer is not None:
        _settings.current.tracer.start()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def take_imported():
    """Passes those that this process has imported before."""
    for name, action in _MODULES.items():
        if name in sys.modules:
            _pass(sys.modules[name], action)


def tell_of_namesake():
    """Says that the job's own module `lockstep` takes the place of this one's functions."""
    module = sys.modules.get("lockstep")
    if module is not None and not hasattr(module, "_is_lockstep"):
        say("the job has a module of its own named lockstep (%s): lockstep.observe() and lockstep.watch() are not "
            "available in it" % getattr(module, "__file__", "unknown place"))


def note_error_at_end():
    """Once this process ends by an error before an optimizer stepped in it, writes that error: it may be the
    reason why nothing was observed."""
    atexit.register(_note_error, os.getpid())


def _text_of(error):
    """Torchrun's own error draws a box of what its ranks printed before."""
    failures = getattr(error, "failures", None)
    if type(error).__name__ != "ChildFailedError" or not isinstance(failures, dict) or not failures:
        return str(error)
    rank = min(failures)
    code = getattr(failures[rank], "exitcode", None)
    return "rank %s ended with exit status %s; its output says why" % (rank, code)


def _note_error(process):
    error = _exits.error_of_process()
    watcher = _settings.watcher
    if error is None or os.getpid() != process or watcher is not None and watcher.has_begun():
        return
    from _lockstep._stalls import place_of_error, stack_of_error

    path = os.path.join(_settings.current.folder, "process-%d.error.json" % process)
    try:
        with _files.opened(path, encoding="utf-8") as file:
            json.dump({"process": process, "rank": os.environ.get("RANK", ""),
                       "error": ("%s: %s" % (type(error).__name__, _text_of(error))).rstrip(": "),
                       "place": place_of_error(error), "stack": stack_of_error(error)}, file)
    except OSError:
        pass
