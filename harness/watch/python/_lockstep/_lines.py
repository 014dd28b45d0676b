"""Which lines of some files this process executes, for `lockstep validate --coverage`. What runs in threads
that Python does not start is not seen, such as a backward pass on a GPU."""

import dis
import json
import os
import sys
import threading
import types


class Tracer:
    """`path`: a file with the lines to look for, by absolute path, as JSON."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            lines = json.load(file)
        self._wanted = {os.path.realpath(name): set(numbers) for name, numbers in lines.items()}
        self._executed = {name: set() for name in self._wanted}
        self._by_name = {}  # the lines executed of the file that a code object names; None: of no such file

    def start(self):
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def facts(self):
        """By file, the lines that are code, and those of them that were executed."""
        facts = {}
        for name, wanted in self._wanted.items():
            code = wanted & _lines_with_code(name)
            facts[name] = {"code": sorted(code), "executed": sorted(code & self._executed[name])}
        return facts

    def _enter(self, frame, event, argument):
        name = frame.f_code.co_filename
        if name not in self._by_name:
            self._by_name[name] = self._executed.get(os.path.realpath(name))
        executed = self._by_name[name]
        if executed is None:
            return None

        def note(frame, event, argument):
            if event == "line":
                executed.add(frame.f_lineno)
            return note

        return note


def _lines_with_code(path):
    with open(path, "rb") as file:
        pending = [compile(file.read(), path, "exec", dont_inherit=True)]
    lines = set()
    while pending:
        code = pending.pop()
        lines.update(line for _, line in dis.findlinestarts(code) if line)
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return lines
