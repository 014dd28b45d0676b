#!/usr/bin/env python3
"""What observing takes with one thread and with more: the parameters of a transformer, 46 MB of float32 in 73
tensors, in turn in each step. Needs no torch.

    observing_threads.py LIBRARY [THREADS]     liblockstep_watch.so; 2 threads if not given
"""

import array
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness/watch/python"))

from _lockstep import _library, _settings  # noqa: E402
from _lockstep._placement import Placement  # noqa: E402

SIZES = [512 * 512] * 42 + [512] * 30 + [400000]  # in elements
STEPS = 120


class Observer:
    def __init__(self, folder, threads):
        self._watch = _library.Watch(_settings.Settings(folder, "job"), 0, 1)
        self._watch.use_threads(threads)
        self._numbers = [self._watch.describe("pre_step", "gradient", "t%d" % i, "float32", (size,), Placement(None))
                         for i, size in enumerate(SIZES)]
        self.wall, self.cpu = [], []

    def observe(self, step, tensors):
        values = [word for number, tensor in zip(self._numbers, tensors)
                  for word in (number, 0, tensor.buffer_info()[0], 0)]
        self._watch.begin_step(step)
        wall, cpu = time.perf_counter(), time.process_time()
        self._watch.observe(values)
        self.wall.append(1e3 * (time.perf_counter() - wall))
        self.cpu.append(1e3 * (time.process_time() - cpu))
        self._watch.end_step()


def main():
    os.environ["LOCKSTEP_WATCH_LIBRARY"] = sys.argv[1]
    drawn = random.Random(0)
    tensors = [array.array("f", [drawn.gauss(0, 1) for _ in range(size)]) for size in SIZES]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        threads = [1, int(sys.argv[2]) if len(sys.argv) > 2 else 2]
        observers = [Observer(folder, count) for folder, count in zip((one, other), threads)]
        for step in range(1, STEPS + 1):
            for observer in observers if step % 2 else reversed(observers):
                observer.observe(step, tensors)
    print("load average %.1f; medians of %d" % (os.getloadavg()[0], STEPS))
    for count, observer in zip(threads, observers):
        print("%d thread%s: %.2f ms, %.2f ms of CPU time"
              % (count, "" if count == 1 else "s", statistics.median(observer.wall),
                 statistics.median(observer.cpu)))


if __name__ == "__main__":
    main()
