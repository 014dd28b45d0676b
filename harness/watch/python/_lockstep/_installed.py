"""The files of Lockstep that are not Python."""

import os


def path_of(relative):
    """Of "bin/lockstep", for example. In a wheel the folder of the package `lockstep` next to this one is the
    prefix of the installation; elsewhere this one is in share/lockstep/python of the prefix, of a build, too."""
    package = os.path.dirname(os.path.abspath(__file__))
    in_wheel = os.path.join(os.path.dirname(package), "lockstep", relative)
    prefix = os.path.abspath(os.path.join(package, *[os.pardir] * 4))
    return in_wheel if os.path.exists(in_wheel) else os.path.join(prefix, relative)
