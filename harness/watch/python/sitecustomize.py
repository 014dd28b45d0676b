"""Starts the hook in every Python process of a watched job. Python imports this module at its start,
because `lockstep watch` puts its folder on PYTHONPATH. It imports neither torch nor anything slow."""

import os
import sys


def _run_shadowed():
    """Runs the sitecustomize that Python would have found without this one."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("LOCKSTEP_WATCH_FOLDER"):
    try:
        from lockstep import _settings, _start

        _settings.current = _settings.from_environment()
        _start.install()
        _start.note_error_at_end()
    except Exception as error:  # the job must not notice
        sys.stderr.write("lockstep: this process is not watched: %s\n" % error)
_run_shadowed()
