"""Prints the location of the interpreter's torch, without importing it.

    PYTHON harness/find_torch.py MINIMUM

Prints the folder of the torch package and its version, one per line. Exits with 1 and a sentence on
standard error when torch is missing or older than MINIMUM ("2.11"). The same happens when it lacks
the CPU library or the headers that a C++ program needs. CPU and CUDA builds have both.
"""

import importlib.util
import os
import re
import sys

NEEDED = ("lib/libtorch_cpu.so", "lib/libc10.so",
          "include/torch/csrc/distributed/c10d/reducer.hpp")


def version_of(root):
    with open(os.path.join(root, "version.py")) as file:
        found = re.search(r"^__version__[^'\"]*['\"]([^'\"]+)", file.read(), re.MULTILINE)
    return found.group(1)


def number_of(version):
    return tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", version).groups())


def find(minimum):
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("%s has no torch." % sys.executable)
    root = os.path.dirname(spec.origin)
    try:
        version = version_of(root)
        number = number_of(version)
    except (OSError, AttributeError):
        sys.exit("The torch in %s does not say its version (version.py)." % root)
    if number < number_of(minimum):
        sys.exit("The torch of %s is %s, older than %s." % (sys.executable, version, minimum))
    for path in NEEDED:
        if not os.path.exists(os.path.join(root, path)):
            sys.exit("The torch in %s is not complete: %s is missing." % (root, path))
    return root, version


if __name__ == "__main__":
    print("\n".join(find(sys.argv[1])))
