#!/usr/bin/env python3
"""What a call with many small tensors on a GPU takes on the job's thread, without a GPU: the driver is the stand-in
of the tests, whose calls take no time.

    thread_of_gpu.py LIBRARY [TENSORS]     liblockstep_watch.so; LD_LIBRARY_PATH names the folder of the stand-in
"""

import array
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness/watch/python"))

from _lockstep import _library, _settings  # noqa: E402
from _lockstep._placement import Placement  # noqa: E402

STEPS = 60
WARM = 10


def main():
    os.environ["LOCKSTEP_WATCH_LIBRARY"] = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    memory = array.array("f", [1.0] * 16)
    with tempfile.TemporaryDirectory() as place:
        watch = _library.Watch(_settings.Settings(place, "job"), 0, 1)
        numbers = [watch.describe("pre_step", "gradient", "layers.%d.weight" % i, "float32", (4, 4), Placement(None))
                   for i in range(count)]
        values = [part for number in numbers for part in (number, 0, memory.buffer_info()[0], 0)]
        times = []
        for step in range(1, STEPS + 1):
            watch.begin_step(step)
            begin = time.perf_counter()
            watch.observe_on_gpu(values, 0)
            times.append(time.perf_counter() - begin)
            watch.end_step()
            time.sleep(0.2)  # the worker computes what a GPU would
        watch.end(None)
        watch.close()
    print("%d tensors: %.3f ms of the job's thread" % (count, 1000 * statistics.median(times[WARM:])))


if __name__ == "__main__":
    main()
