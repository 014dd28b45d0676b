"""Counts the collectives of this process by group, from the counters of torch's flight recorder: they
count on after its ring of records has wrapped."""

import json
import sys

_MOST_ROWS = 1000  # of changes; later ones are not counted
_MOST_NAMED = 64
_LONGEST_NAME = 80


class Traffic:
    """`_rows`: [first step, last step, {group size: collectives per step}], a row per change. None: this
    torch or this job has no recorder."""

    def __init__(self):
        self._groups = {}  # sizes of the groups of this process, by name, in the order of creation
        self._counts = counts_of_groups() or {}  # as of the last step
        self._rows = []

    def facts(self):
        return [{"first_step": first, "last_step": last, "group_size": size, "collectives": count}
                for first, last, called in self._rows or [] for size, count in sorted(called.items())]

    def before_step(self, step, counts):
        """Adds the collectives since the call before: those of forward and backward, and those between
        the steps. `counts`: of `counts_of_groups`."""
        if self._rows is None:
            return
        try:
            self._add(step, counts)
        except Exception:  # of private functions of torch; the tensors are observed all the same
            self._rows = None

    def is_silent(self, counts):
        """Whether no collective was called since the last step; None: unknown, as of the first one, before which a job
        builds its model, and where none was ever counted. `counts`: as of `before_step`."""
        if not self._rows or not self._rows[-1][2] or not counts:
            return None
        return counts == self._counts

    def _add(self, step, counts):
        sizes = self._sizes()
        if counts is None or any(group >= len(sizes) for group in counts):
            self._rows = None
            return
        called = {size: 0 for size in sizes}
        for group, count in counts.items():
            called[sizes[group]] += count - self._counts.get(group, 0)
        self._counts = counts
        last = self._rows[-1] if self._rows else None
        if last is not None and last[1] == step - 1 and last[2] == called:
            last[1] = step
        elif len(self._rows) < _MOST_ROWS:
            self._rows.append([step, step, called])

    def _sizes(self):
        """Numbers of ranks of the groups that this process is in, in the order of their creation: the
        recorder numbers them so, while torch's names number the groups of all processes. Groups that
        were destroyed stay. Empty with NCCL, which has a recorder of its own."""
        module = sys.modules.get("torch.distributed.distributed_c10d")
        world = getattr(module, "_world", None)
        for group, ranks in getattr(world, "pg_group_ranks", {}).items():
            name = getattr(group, "group_name", None)
            if name is None or name in self._groups:
                continue
            if "nccl" in str(world.pg_map[group][0]):
                return []
            self._groups[name] = len(ranks)
        return list(self._groups.values())


class StepTraffic:
    """Counts the collectives that are called inside the steps of optimizers, by group size. `_rows`: as those
    of Traffic."""

    def __init__(self):
        self._rows = []
        self._begin = None  # of the step in progress

    def facts(self):
        return [{"first_step": first, "last_step": last, "group_size": size, "collectives": count}
                for first, last, called in self._rows for size, count in sorted(called.items())]

    def begin(self):
        """An optimizer's step begins, and gradients are observed."""
        self._begin = _sequence_numbers()

    def end(self, step):
        """It has ended, and parameters are observed. `step`: several optimizers may step in one."""
        begin, self._begin = self._begin, None
        end = _sequence_numbers()
        if begin is None or end is None:
            return
        called = {size: 0 for _, size in end.values()}
        for name, (number, size) in end.items():
            called[size] += number - begin.get(name, (0, 0))[0]
        last = self._rows[-1] if self._rows else None
        if last is not None and last[1] == step:
            self._add_to_last(step, called)
        elif last is not None and last[1] == step - 1 and last[2] == called:
            last[1] = step
        elif len(self._rows) < _MOST_ROWS:
            self._rows.append([step, step, called])

    def _add_to_last(self, step, called):
        """Adds the calls of another optimizer in the same step."""
        last = self._rows[-1]
        total = {size: last[2].get(size, 0) + count for size, count in called.items()}
        if total == last[2]:
            return
        if last[0] < step:
            last[1] = step - 1
            self._rows.append([step, step, total])
        else:
            last[2] = total


def number_of_calls():
    """Collectives that this process has called in all of its groups; None: a backend does not count."""
    numbers = _sequence_numbers()
    return None if numbers is None else sum(number for number, _ in numbers.values())


def _sequence_numbers():
    """Number of the last collective, and number of ranks, of each group that this process is in, by name; {}:
    there is none. None: a backend does not count."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    numbers = {}
    try:
        for group, ranks in getattr(world, "pg_group_ranks", {}).items():
            name = getattr(group, "group_name", None)
            if name is not None:
                numbers[name] = group._get_sequence_number_for_group(), len(ranks)
    except Exception:  # of private functions of torch
        return None
    return numbers


def groups_of_process():
    """The groups that this process is in, in the order of their creation: name, title and ranks."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    groups = []
    for group, ranks in getattr(world, "pg_group_ranks", {}).items():
        name, about = getattr(group, "group_name", None), getattr(group, "group_desc", "")
        if name is None:
            continue
        title = "world" if about == "default_pg" else name
        if about not in ("", "undefined", "default_pg"):
            title = "%s (%s)" % (name, about)
        groups.append({"name": name, "title": title, "ranks": sorted(ranks)})
    return groups


def sizes_of_named_groups():
    """Numbers of ranks of the groups that this process is in and that the training named, such as the
    dimensions of a mesh, by name."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    sizes = {}
    for group, ranks in getattr(world, "pg_group_ranks", {}).items():
        about = getattr(group, "group_desc", "")
        if about not in ("", "undefined", "default_pg") and len(sizes) < _MOST_NAMED:
            sizes.setdefault(str(about)[:_LONGEST_NAME], len(ranks))
    return sizes


def counts_of_groups():
    """Collectives that this process has called, by the number of the group. None: not counted."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    try:
        for name in "_dump_fr_trace_json", "_dump_nccl_trace_json":  # of Gloo, and of NCCL
            dump = getattr(c10d, name, None)
            if dump is None:
                continue
            told = json.loads(dump(includeCollectives=False, onlyActive=False))
            if told.get("pg_status") or told.get("pg_config"):  # the latter alone: none was called yet
                return {int(group): max(0, int(one["last_enqueued_collective"]))
                        for group, one in told.get("pg_status", {}).items()}
    except Exception:  # of private functions of torch
        pass
    return None
