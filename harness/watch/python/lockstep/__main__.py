"""The program `lockstep`, by `python -m lockstep`; a wheel's command `lockstep` calls it, too."""

import os
import sys

from lockstep._installed import path_of


def main():
    program = path_of(os.path.join("bin", "lockstep"))
    try:
        os.execv(program, ["lockstep"] + sys.argv[1:])
    except OSError as error:
        sys.exit("lockstep: %s cannot be started: %s. Install Lockstep again." % (program, error.strerror))


if __name__ == "__main__":
    main()
