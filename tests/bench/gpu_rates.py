#!/usr/bin/env python3
"""The rate at which the kernel reads the memory of a GPU, next to a copy on it and torch's sums. Exit status
77: there is no GPU.

    gpu_rates.py LIBRARY     liblockstep_watch.so

A rate is that of the additional time of eight tensors over four, so the cost of a call cancels out. Then what
a call with many small tensors takes on the GPU, and on the job's thread, which does not wait for it.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

try:
    import torch
except ImportError as error:
    print("gpu_rates.py: skipped: %s" % error)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness/watch/python"))

from _lockstep import _library, _settings  # noqa: E402
from _lockstep._placement import Placement  # noqa: E402

BYTES = 512 << 20  # of a tensor
REPETITIONS = 15


def seconds(call):
    """Median, on the GPU."""
    times = []
    for _ in range(REPETITIONS + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return statistics.median(times[2:])


def thread_seconds(call):
    """Median, on this thread, while the GPU has nothing else to do."""
    times = []
    for _ in range(REPETITIONS + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


class Kernel:
    """Observes tensors by the kernel, step by step."""

    def __init__(self, library, folder):
        os.environ["LOCKSTEP_WATCH_LIBRARY"] = library
        self._watch, self._step, self._numbers = _library.Watch(_settings.Settings(folder, "job"), 0, 1), 0, {}

    def observe(self, tensors):
        values = []
        for i, tensor in enumerate(tensors):
            key = i, tensor.dtype
            if key not in self._numbers:
                self._numbers[key] = self._watch.describe(
                    "pre_step", "gradient", "%d %s" % key, str(tensor.dtype)[len("torch."):],
                    tuple(tensor.shape), Placement(tensor))
            values += self._numbers[key], 0, tensor.data_ptr(), 0
        self._step += 1
        self._watch.begin_step(self._step)
        if not self._watch.observe_on_gpu(values, torch.cuda.current_stream().cuda_stream):
            sys.exit("gpu_rates.py: the GPU does not measure: " + self._watch.gpu_failure)


def main():
    if not torch.cuda.is_available():
        print("gpu_rates.py: skipped: torch %s finds no GPU" % torch.__version__)
        sys.exit(77)
    drawn = [torch.randn(BYTES // 4, device="cuda") for _ in range(8)]
    target = torch.empty_like(drawn[0])

    def rate(work, tensors):
        four, eight = (seconds(lambda: work(tensors[:count])) for count in (4, 8))
        return 4 * BYTES / (eight - four) / 1e9

    def each(work):
        return lambda tensors: [work(tensor) for tensor in tensors]

    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], folder)
        rows = [("copy on the GPU", rate(each(target.copy_), drawn)),
                ("torch, sum of float32", rate(each(torch.sum), drawn)),
                ("torch, sum of int64", rate(each(torch.sum), [one.view(torch.int64) for one in drawn]))]
        for dtype in torch.float32, torch.bfloat16, torch.float64, torch.int8:
            rows.append(("everything, %s" % str(dtype)[len("torch."):],
                         rate(kernel.observe, [one.view(dtype) for one in drawn])))
        small = [one for whole in drawn[:1] for one in whole[:1000 * 1024].chunk(1000)]
        on_gpu, on_thread = (measured(lambda: kernel.observe(small)) * 1e3
                             for measured in (seconds, thread_seconds))
    print("%s, torch %s with CUDA %s; medians of %d.\n"
          % (torch.cuda.get_device_name(), torch.__version__, torch.version.cuda, REPETITIONS))
    print("| pass | GB/s read | of the copy |\n|---|---|---|")
    for name, found in rows:
        print("| %s | %.0f | %.2f |" % (name, found, found / rows[0][1]))
    print("\n1000 tensors of 4 KB: a call takes %.2f ms on the GPU, %.2f ms on the job's thread."
          % (on_gpu, on_thread))


if __name__ == "__main__":
    main()
