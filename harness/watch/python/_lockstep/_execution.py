"""What this process executed and used: for `lockstep validate`."""

import hashlib
import json
import os
import sys

from _lockstep import _files, _settings


class Execution:
    """`roots`: absolute folders. Files below them count, also those of compiled extensions."""

    def __init__(self, torch, roots):
        self._torch = torch
        self._roots = tuple(os.path.join(root, "") for root in roots)
        self._digests = {}  # by path

    def write(self, folder, rank, is_end):
        """Writes `rank-N.execution.json`: the path and the digest of each module that was imported so far, the
        versions of the packages, at the end also the lines that were traced."""
        if not self._roots:
            return
        for module in list(sys.modules.values()):
            self._add(getattr(module, "__dict__", {}).get("__file__"))
        facts = {"roots": [root[:-1] for root in self._roots], "files": self._digests, "seed": _settings.current.seed,
                 "versions": self._versions(), "device": self._device()}
        if is_end and _settings.current.tracer is not None:
            facts["lines"] = _settings.current.tracer.facts()
        path = os.path.join(folder, "rank-%d.execution.json" % rank)
        with _files.opened(path + ".tmp", encoding="utf-8") as file:
            json.dump(facts, file)
        os.replace(path + ".tmp", path)

    def _add(self, name):
        if not isinstance(name, str):
            return
        path = os.path.realpath(name)
        if path in self._digests or not path.startswith(self._roots):
            return
        try:
            with open(path, "rb") as file:
                self._digests[path] = hashlib.sha256(file.read()).hexdigest()
        except OSError:  # a module of a package in an archive
            return

    def _versions(self):
        versions = {"python": sys.version.split()[0]}
        for name, module in list(sys.modules.items()):
            version = getattr(module, "__dict__", {}).get("__version__")
            if "." not in name and isinstance(version, str):
                versions[name] = version
        return versions

    def _device(self):
        """The kind of GPU that torch uses, else the instructions of the CPU that it uses."""
        if self._torch.cuda.is_initialized():
            return self._torch.cuda.get_device_name()
        capability = getattr(self._torch.backends.cpu, "get_cpu_capability", None)
        return "CPU" if capability is None else "CPU, " + capability()
