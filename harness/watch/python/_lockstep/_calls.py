"""The collectives that a rank called in its last step, and the gradients that it had: why ranks that reduce gradients by
hand may call other ones. Reads torch's flight recorder once, when ranks are known to differ or the training ends; and
when they called those of the last steps, once it ends."""

import bisect
import collections
import sys

from _lockstep import _stalls
from _lockstep._machines import machine
from _lockstep._traffic import groups_of_process

_MOST_NAMES = 64
_MOST_PLACES = 64
_MOST_STEPS = 512  # whose calls have times
_MOST_ARRIVALS = 2000
_READS = 4  # in the first of so many steps in which ranks are known to differ: the same on most ranks


class LastCalls:
    def __init__(self):
        self._step = 0
        # As of a step: at the end they may be gone.
        self._groups = []
        self._shapes = {}  # of parameters that require a gradient, by name
        self._missing = []  # names of parameters without a gradient
        self._facts = {}
        self._is_read = False
        self._counts = collections.deque(maxlen=_MOST_STEPS)  # pairs of a step and counts of collectives when it began
        self._arrivals = []

    def begin_step(self, step, counts, parameters):
        """`counts`: of `counts_of_groups`. `parameters`: gives pairs of tensor and name."""
        self._step = step
        self._counts.append((step, counts or {}))
        self._missing = []
        if step & (step - 1) == 0:
            self._look(parameters())

    def _look(self, parameters):
        try:
            self._groups = groups_of_process()
            self._shapes = {name: str(list(tensor.shape)) for tensor, name in parameters if tensor.requires_grad}
        except Exception:  # such as of a nested tensor, which has no shape
            self._groups, self._shapes = [], {}

    def see_missing(self, name):
        """A parameter that requires a gradient has none in this step."""
        self._missing.append(name)

    def read_if_apart(self, world, are_apart):
        """Before an optimizer steps. `are_apart`: says whether ranks are known to differ."""
        if not self._is_read and self._step % _READS == 0 and are_apart():
            self.read(world, with_lines=True)

    def read(self, world, with_lines):
        """Of this step, once. `with_lines`: costs much the first time. Raises nothing: without these facts a cause is
        not told."""
        if self._is_read:
            return
        self._is_read = True
        try:
            self._facts = self._facts_of(*self._calls_of_all(world, with_lines))
        except Exception:  # of private functions of torch
            pass

    def facts(self):
        return self._facts

    def arrivals(self):
        """The times, and the machine since its start, by whose clock they are."""
        return {"arrivals": self._arrivals, "clock": "%016x" % machine() if self._arrivals and machine() else ""}

    def read_at_end(self, world, with_lines):
        """The same, if it was not read before, and the times of the calls. `with_lines`: as of `read`."""
        try:
            numbers, calls = self._calls_of_all(world, with_lines and not self._is_read)
            if not self._is_read:
                self._is_read = True
                self._facts = self._facts_of(numbers, calls)
            self._arrivals = self._arrivals_of(numbers, calls)
        except Exception:  # of private functions of torch
            pass

    def _calls_of_all(self, world, with_lines):
        """The numbers of the groups of all ranks, by title, and the calls on record in these. None: unknown."""
        groups = groups_of_process() or self._groups
        if max(self._counts_before(0), default=-1) >= len(groups):
            return None, []
        numbers = {group["title"]: number for number, group in enumerate(groups) if len(group["ranks"]) == world}
        return numbers, [call for call in _stalls.calls(groups, with_lines) or [] if call["group"] in numbers]

    def _counts_before(self, steps):
        """Counts of collectives when this step began, or so many steps before."""
        return self._counts[-1 - steps][1] if len(self._counts) > steps else {}

    def _arrivals_of(self, numbers, calls):
        """When this rank called them, with tensors of the CPU: there it has to wait in them."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or cuda.is_initialized() or numbers is None:
            return []
        steps, arrivals = list(self._counts), []
        ends = {group: [counts.get(group, 0) for _, counts in steps] for group in numbers.values()}
        for call in calls:
            group = numbers[call["group"]]
            place = bisect.bisect_left(ends[group], call["number"])
            if 0 < place < len(steps):  # else its step is unknown, or after the last update
                arrivals.append({"step": steps[place][0], "group": group, "number": call["number"],
                                 "ns": call["called_ns"]})
        return arrivals[-_MOST_ARRIVALS:]

    def _facts_of(self, numbers, calls):
        """{}: unknown."""
        if self._step < 2 or numbers is None:  # the first one has those of the setup
            return {}
        begin, end = self._counts_before(1), self._counts_before(0)
        calls = [call for call in calls
                 if begin.get(numbers[call["group"]], 0) < call["number"] <= end[numbers[call["group"]]]]
        called = sum(end.get(number, 0) - begin.get(number, 0) for number in numbers.values())
        if called != len(calls):  # the recorder has forgotten some
            return {}
        shapes = {}  # of the calls of an operation at a place
        for call in calls:
            shapes.setdefault((call["operation"], call["site"]), []).append(call["shape"])
        missing = set(self._missing)
        gradients = sorted(shape for name, shape in self._shapes.items() if name not in missing)
        return {"step": self._step, "without_gradient": sorted(missing)[:_MOST_NAMES],
                "calls": [{"operation": operation, "place": place, "calls": len(own),
                           "is_of_gradients": operation == "allreduce" and sorted(own) == gradients}
                          for (operation, place), own in list(shapes.items())[:_MOST_PLACES]]}
