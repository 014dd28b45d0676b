"""Which files of the repository this process executed, with their digests: for `lockstep validate`."""

import hashlib
import json
import os
import sys

from _lockstep import _files


class Sources:
    """`roots`: absolute folders. Files below them count, also those of compiled extensions."""

    def __init__(self, roots):
        self._roots = tuple(os.path.join(root, "") for root in roots)
        self._digests = {}  # by path

    def write(self, folder, rank):
        """Writes `rank-N.files.json`: the path and the digest of each module that was imported so far."""
        if not self._roots:
            return
        for module in list(sys.modules.values()):
            self._add(getattr(module, "__dict__", {}).get("__file__"))
        path = os.path.join(folder, "rank-%d.files.json" % rank)
        with _files.opened(path + ".tmp", encoding="utf-8") as file:
            json.dump(self._digests, file)
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
