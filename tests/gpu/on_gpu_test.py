#!/usr/bin/env python3
"""Tensors in the memory of a GPU are recorded as on the CPU: digests, extremes and counts are equal, norms up
to the rounding of another order of additions. Exit status 77: there is no GPU.

    on_gpu_test.py LIBRARY     liblockstep_watch.so
"""

import csv
import os
import pathlib
import sys
import tempfile
import unittest

try:
    import torch
except ImportError as error:
    print("on_gpu_test.py: skipped: %s" % error)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness/watch/python"))

from _lockstep import _library, _settings  # noqa: E402
from _lockstep._rows import Named, Rows  # noqa: E402

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool",
          "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
          "float8_e8m0fnu"]
SIZES = [0, 1, 2, 63, 64, 65, 1000, 16385, 300001, 40000000]


def drawn(dtype, count, is_normal):
    """Normally distributed, or random bits: NaNs and infinities are among them."""
    kind = getattr(torch, dtype)
    if is_normal and kind.is_floating_point:
        return torch.randn(count).to(kind)
    size = torch.empty(0, dtype=kind).element_size()
    if dtype == "bool":
        return torch.randint(0, 2, (count,), dtype=torch.uint8).bool()
    return torch.randint(0, 256, (count * size,), dtype=torch.uint8).view(kind)


class Journal:
    """The rows of tensors, by name."""

    def __init__(self, folder):
        os.mkdir(folder)
        self._folder = pathlib.Path(folder)
        self.watch = _library.Watch(_settings.Settings(folder, "job"), 0, 1)
        self.watch.begin_step(1)

    def observe(self, tensors):
        rows = Rows(self.watch, torch)
        for name, tensor in tensors.items():
            rows.add(Named(name), tensor, "pre_step", "gradient")
        rows.write()

    def rows(self):
        self.watch.end(None)
        self.watch.close()
        names = {row["tensor"]: row["name"] for row in self._read("rank-0.tensors.csv")}
        return {names[row["tensor"]]: row for row in self._read("rank-0.csv")}

    def _read(self, name):
        with open(self._folder / name, newline="") as file:
            next(file)
            return list(csv.DictReader(file))


class OnGpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cpu, self.gpu = (Journal(os.path.join(folder.name, name)) for name in ("cpu", "gpu"))

    def expect_equal(self, sizes):
        self.assertEqual(self.gpu.watch.gpu_failure, "")
        expected, found = self.cpu.rows(), self.gpu.rows()
        self.assertEqual(found.keys(), expected.keys())
        for name, row in expected.items():
            other = found[name]
            for column in "digest", "minimum", "maximum", "non_finite":
                self.assertEqual(other[column], row[column], "%s of %s" % (column, name))
            norm = float(row["norm"])
            if norm != float("inf"):
                bound = 2 * sizes[name] * 2.0**-53 * norm
                self.assertLessEqual(abs(float(other["norm"]) - norm), bound, name)

    def observe(self, tensors):
        self.cpu.observe(tensors)
        self.gpu.observe({name: tensor.cuda() for name, tensor in tensors.items()})
        self.expect_equal({name: tensor.numel() for name, tensor in tensors.items()})

    def test_all_types_and_sizes_in_one_launch(self):
        torch.manual_seed(1)
        self.observe({"%s, %d, %s" % (dtype, size, is_normal): drawn(dtype, size, is_normal)
                      for dtype in DTYPES if hasattr(torch, dtype)
                      for size in SIZES for is_normal in (True, False)
                      if size < 10**6 or dtype in ("float32", "bfloat16")})

    def test_views_that_begin_anywhere(self):
        whole = torch.randn(100000)
        begins = range(0, 40)
        self.cpu.observe({str(i): whole[i:].bfloat16() for i in begins})
        on_gpu = whole.cuda()
        self.gpu.observe({str(i): torch.cat([on_gpu[:i], on_gpu[i:]]).bfloat16()[i:] for i in begins})
        self.expect_equal({str(i): 100000 for i in begins})

    def test_after_the_work_of_the_current_stream(self):
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            value = torch.zeros(50000000, device="cuda")
            for _ in range(50):
                value += 1
            self.gpu.observe({"sum": value})
        self.cpu.observe({"sum": torch.full((50000000,), 50.0)})
        self.expect_equal({"sum": 50000000})

    def test_without_waiting(self):
        value = torch.full((1000,), 3.0, device="cuda")
        self.gpu.observe({"warm-up": value})  # loads the kernel
        torch.cuda.synchronize()
        event = torch.cuda.Event()
        torch.cuda._sleep(2 * 10**9)  # cycles
        self.gpu.observe({"value": value})
        event.record()
        self.assertFalse(event.query())
        value.zero_()  # later work of the stream
        self.cpu.observe({name: torch.full((1000,), 3.0) for name in ("warm-up", "value")})
        self.expect_equal({"warm-up": 1000, "value": 1000})

    def test_of_memory_that_is_used_again(self):
        """By later work of the stream, as torch's allocator does it."""
        for i in range(100):
            value = torch.full((1000000,), float(i), device="cuda")
            self.gpu.observe({str(i): value})
            del value
            torch.full((1000000,), -1.0, device="cuda")
            self.cpu.observe({str(i): torch.full((1000000,), float(i))})
        self.expect_equal({str(i): 1000000 for i in range(100)})

    def test_with_gaps(self):
        torch.manual_seed(2)
        images = torch.randn(8, 16, 30, 30)
        tensors = {"channels last": images.to(memory_format=torch.channels_last),
                   "transposed": images[0, 0].t(), "every third": images.flatten()[::3]}
        self.cpu.observe(tensors)
        on_gpu = {"channels last": images.cuda().to(memory_format=torch.channels_last),
                  "transposed": images[0, 0].cuda().t(), "every third": images.flatten().cuda()[::3]}
        self.assertFalse(any(tensor.is_contiguous() for tensor in on_gpu.values()))
        self.gpu.observe(on_gpu)
        self.expect_equal({name: tensor.numel() for name, tensor in tensors.items()})

    def test_beside_the_capture_of_a_graph(self):
        """Neither a call in the capture nor the library's thread ends it."""
        value, other = torch.full((1000,), 2.0, device="cuda"), torch.ones(1000, device="cuda")
        self.gpu.observe({"value": value})
        graph, failures = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph):
            other += 1
            try:
                self.gpu.observe({"captured": other})
            except _library.Failure as failure:
                failures.append(str(failure))
        self.assertEqual(len(failures), 1)
        self.assertIn("captures a CUDA graph", failures[0])
        graph.replay()
        self.assertEqual(other.sum().item(), 2000)
        self.gpu.observe({"after": other})
        self.cpu.observe({"value": torch.full((1000,), 2.0)})
        self.cpu.observe({"after": torch.full((1000,), 2.0)})
        self.expect_equal({"value": 1000, "after": 1000})

    def test_many_tensors(self):
        tensors = {str(i): torch.randn(i % 300) for i in range(20000)}
        self.observe(tensors)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("on_gpu_test.py: skipped: torch %s finds no GPU" % torch.__version__)
        sys.exit(77)
    os.environ["LOCKSTEP_WATCH_LIBRARY"] = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
