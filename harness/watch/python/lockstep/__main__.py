"""The program `lockstep`, by `python -m lockstep`; a wheel's command `lockstep` calls it, too."""

import os
import sys

from _lockstep._installed import path_of


def _tell_torch():
    """The catalogue of a wheel uses the torch of this Python, which may be in another folder than Lockstep."""
    if not os.path.exists(path_of(os.path.join("libexec", "lockstep", "lockstep-catalogue"))):
        return
    from importlib.machinery import PathFinder
    here = os.path.realpath(os.getcwd())  # `python -m` searches it first
    torch = PathFinder.find_spec("torch", [path for path in sys.path
                                           if os.path.isabs(path) and os.path.realpath(path) != here])
    if torch is not None and torch.origin is not None:
        os.environ["LOCKSTEP_TORCH_FOLDER"] = os.path.dirname(os.path.abspath(torch.origin))


def main():
    program = path_of(os.path.join("bin", "lockstep"))
    _tell_torch()
    try:
        os.execv(program, ["lockstep"] + sys.argv[1:])
    except OSError as error:
        sys.exit("lockstep: %s cannot be started: %s. Install Lockstep again." % (program, error.strerror))


if __name__ == "__main__":
    main()
