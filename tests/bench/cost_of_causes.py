"""What `lockstep watch` takes of a rank's step to name a cause, part by part, on the CPU: 146 layers, so 292
parameters, under DDP, or fully_shard with that argument.

    PYTHONPATH=harness/watch/python/start \\
      LOCKSTEP_WATCH_LIBRARY=build/release/lib/lockstep/liblockstep_watch.so \\
      LOCKSTEP_WATCH_FOLDER=$(mktemp -d) LOCKSTEP_WATCH_JOB=bench \\
      torchrun --nproc-per-node 2 tests/bench/cost_of_causes.py [fully_shard]

Prints, of rank 0, the median microseconds of each part in a step, and of contributions those of a step that
sees them, for each of its tensors and for a step of 32."""

import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.fsdp
from torch import nn

LAYERS, WIDTH = 146, 64
STEPS = 256
SETTLING = 40


class Parts:
    """Microseconds of functions of the hook, by part and step."""

    def __init__(self):
        self.step = 0
        self.spent = {}

    def measure(self, owner, name, part):
        function = getattr(owner, name)

        def measured(*args, **kwargs):
            begin = time.perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                steps = self.spent.setdefault(part, {})
                steps[self.step] = steps.get(self.step, 0) + (time.perf_counter_ns() - begin) / 1000

        setattr(owner, name, measured)

    def median(self, part):
        spent = [one for step, one in self.spent.get(part, {}).items() if step > SETTLING]
        return statistics.median(spent) if spent else 0.0


def measured_parts():
    from _lockstep import _stalls
    from _lockstep._calls import LastCalls
    from _lockstep._configuration import Hyperparameters
    from _lockstep._contributions import Contributions
    from _lockstep._wrappers import Wrappers

    parts = Parts()
    parts.measure(Wrappers, "before_step", "wrappers")
    parts.measure(Hyperparameters, "see", "hyperparameters and modes")
    parts.measure(_stalls, "peak_bytes", "memory")
    parts.measure(LastCalls, "begin_step", "last calls")
    parts.measure(LastCalls, "read", "last calls, read at the end")
    for name in ("arm", "disarm", "_see", "_see_end"):
        parts.measure(Contributions, name, "contributions")
    return parts


def main():
    from _lockstep import _hook

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    module = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    wrapped = module
    if "fully_shard" in sys.argv:
        torch.distributed.fsdp.fully_shard(module)
    else:
        wrapped = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters())
    parts = measured_parts()
    for parts.step in range(1, STEPS + 1):
        optimizer.zero_grad()
        wrapped(torch.randn(8, WIDTH)).square().mean().backward()
        optimizer.step()
    if dist.get_rank() == 0:
        _hook.watcher.stop()
        for part in ("wrappers", "hyperparameters and modes", "memory", "last calls"):
            print("%s: %.1f us a step" % (part, parts.median(part)))
        seen = {step: spent for step, spent in parts.spent["contributions"].items() if spent > 1000}
        later = [spent for step, spent in seen.items() if step > SETTLING]
        most = statistics.median(later)
        print("contributions: %.0f us in each of %d steps that see them, %.1f us a tensor, %.1f us a step"
              % (most, len(later), most / (2 * LAYERS), most / 32))
        print("last calls, read at the end: %.0f us" % parts.median("last calls, read at the end"))
    dist.destroy_process_group()


main()
