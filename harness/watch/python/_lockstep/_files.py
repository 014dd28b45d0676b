"""New files in the folder of a run, which nobody else may read unless the run says so."""

import os
import stat


def mode_beside(path):
    """As of the library's files: the group may read them where it may read the folder and others may not."""
    folder = os.stat(os.path.dirname(path) or os.curdir).st_mode
    return 0o640 if folder & stat.S_IRGRP and not folder & stat.S_IRWXO else 0o600


def opened(path, mode="w", **more):
    """As the builtin `open`, for a file that may be new."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, mode_beside(name)), **more)
