"""Metrics that Lightning reduces over ranks when an epoch ends, next to what this rank has of them: it divides by the mean of
their numbers of samples, as a whole number."""

import functools
import math

_MOST = 256  # that are listed

_facts = []


def facts():
    """`operation`: "mean", of `value` divided by `weight` over all ranks, "sum", "max" or "min"; `step`: the last one before."""
    return _facts


def forget():
    """Another training begins."""
    _facts.clear()


def note_reductions(module, present_step):
    """Of Lightning's module `result`."""
    compute = module._ResultMetric.compute

    @functools.wraps(compute)
    def noted(self):
        own = _own_of(self)
        result = compute(self)
        if own is not None and len(_facts) < _MOST:
            _note(own, result, present_step())
        return result

    module._ResultMetric.compute = noted


def _own_of(metric):
    """What this rank has; None: it is not reduced over all ranks."""
    try:
        meta = metric.meta
        sync = meta.sync
        if not metric.is_tensor or not sync.should or sync.rank_zero_only or sync.group is not None:
            return None
        operation = meta.reduce_fx.__name__
        weight = float(metric.cumulated_batch_size) if operation == "mean" else 1.0
        return {"name": meta.name, "operation": operation, "value": float(metric.value), "weight": weight}
    except Exception:  # of another version
        return None


def _note(own, result, step):
    try:
        reported = float(result)
    except Exception:
        return
    if all(map(math.isfinite, (own["value"], own["weight"], reported))):
        _facts.append({**own, "reported": reported, "step": step})
