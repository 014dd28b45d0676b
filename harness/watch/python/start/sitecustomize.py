"""Starts the hook in every Python process of a watched job. Python imports this module at its start,
because `lockstep watch` puts its folder on PYTHONPATH: this one alone, so that no name of the job's is taken.
It imports neither torch nor anything slow."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGES = os.path.dirname(_HERE)


class _Last:
    """Finds the package `lockstep` for a job in which nothing else has that name."""

    def find_spec(self, name, path=None, target=None):
        if name != "lockstep":
            return None
        from importlib.machinery import PathFinder
        return PathFinder.find_spec(name, [_PACKAGES])


def _start():
    sys.path.insert(0, _PACKAGES)
    try:
        from _lockstep import _settings, _start
    finally:
        sys.path.remove(_PACKAGES)
    _settings.current = _settings.from_environment()
    _start.install()
    _start.note_error_at_end()
    sys.meta_path.append(_Last())


def _run_shadowed():
    """Runs the sitecustomize that Python would have found without this one."""
    import importlib.machinery
    import importlib.util

    path = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("LOCKSTEP_WATCH_FOLDER"):
    try:
        _start()
    except Exception as error:  # the job must not notice
        sys.stderr.write("lockstep: this process is not watched: %s\n" % error)
_run_shadowed()
