"""Torch's model averagers, as of LocalSGD: ranks train apart and average their parameters now and then."""

import sys

from _lockstep._objects import type_of


def averager_type():
    """None: this process has imported none."""
    return type_of("torch.distributed.algorithms.model_averaging.averagers", "ModelAverager")


def steps_between_averages(averagers):
    """The steps after which those of this process average parameters over all ranks; 0: there is none, or there are
    several that differ."""
    world = getattr(getattr(sys.modules.get("torch.distributed"), "group", None), "WORLD", None)
    periods = {_period_of(one) for one in averagers if getattr(one, "process_group", None) is world}
    return periods.pop() if len(periods) == 1 and world is not None else 0


def _period_of(averager):
    """Of the largest groups, if an averager has groups of several sizes."""
    groups = getattr(averager, "period_process_group_dict", None)
    period = list(groups)[-1] if groups else getattr(averager, "period", 0)
    return period if isinstance(period, int) and period > 0 else 0
