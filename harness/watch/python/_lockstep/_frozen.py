"""Parameters that a training leaves to itself: of a teacher, a reference model, a mean of its weights, or of frozen layers.
Ranks compute with them, too, so they should be the same on all."""

import weakref

from _lockstep._digests import digests_of


class Frozen:
    def __init__(self, torch):
        self._torch = torch
        self._parameters = []  # weak references
        self._facts = []  # of these

    def facts(self):
        """`model`: the class of one that has no trained parameter; empty: it has some. `first`, `last`: digests before the
        first step and after the last one, empty where they are unknown."""
        return self._facts

    def look(self, models):
        """Before the first step. `models` gives those of `frozen_models`. Raises nothing: these facts only make notes."""
        try:
            found = [(model, name, parameter) for model, inside in models() for name, parameter in inside]
            digests = digests_of(self._torch, [parameter for _, _, parameter in found])
            known = [(one, digest) for one, digest in zip(found, digests) if digest]
            self._parameters = [weakref.ref(parameter) for (_, _, parameter), _ in known]
            self._facts = [{"model": model, "name": name, "first": digest, "last": "", "is_buffer": False}
                           for (model, name, _), digest in known]
        except Exception:  # of modules with odd attributes
            self._facts = []

    def look_again(self):
        """At the end."""
        try:
            living = [(fact, reference()) for fact, reference in zip(self._facts, self._parameters)]
            living = [(fact, parameter) for fact, parameter in living if parameter is not None]
            for (fact, _), digest in zip(living, digests_of(self._torch, [parameter for _, parameter in living])):
                fact["last"] = digest
        except Exception:
            pass
