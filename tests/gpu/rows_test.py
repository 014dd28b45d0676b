#!/usr/bin/env python3
"""The hook passes tensors of GPUs to the library by address. The driver is a stand-in, and so are torch and
its tensors, whose memory is that of this process.

    rows_test.py LIBRARY     liblockstep_watch.so; LD_LIBRARY_PATH names the folder of the stand-in
"""

import array
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "harness/watch/python"))

from _lockstep import _library, _rows, _settings  # noqa: E402
from _lockstep._data import Data  # noqa: E402
from _lockstep._rows import Named, Rows  # noqa: E402

entered = []  # the GPUs that were made the current ones

torch = types.SimpleNamespace(
    no_grad=contextlib.nullcontext,
    cuda=types.SimpleNamespace(
        device=lambda gpu: entered.append(gpu) or contextlib.nullcontext(),
        current_stream=lambda gpu="cuda:0": types.SimpleNamespace(cuda_stream=0)))


recorded = []  # streams of tensors that torch was told of
alive = []  # tensors: a GPU reads them later, and torch gives their memory to later work of their stream
NOTHING = array.array("f", [0] * 3)


class Tensor:
    """float32 in one dimension."""

    dtype, layout = "torch.float32", "torch.strided"
    gpu_is_full = False
    is_meta = is_quantized = is_nested = False

    def __init__(self, values, device, is_dense=True):
        self._values, self.device, self._is_dense = array.array("f", values), device, is_dense
        self.shape = (len(values),)
        self.is_cpu, self.is_cuda = device == "cpu", device != "cpu"
        alive.append(self)

    def numel(self):
        return len(self._values)

    def element_size(self):
        return 4

    def dim(self):
        return 1

    def is_contiguous(self):
        return self._is_dense

    def is_neg(self):
        return False

    is_conj = is_complex = is_neg

    def storage_offset(self):
        return 0

    def untyped_storage(self):
        return types.SimpleNamespace(nbytes=lambda: 4 * self.numel())

    def data_ptr(self):
        if self.is_cuda and "STANDIN_FAILS" in os.environ:  # then no address of a GPU may be read
            return NOTHING.buffer_info()[0]
        return self._values.buffer_info()[0]

    def detach(self):
        return self

    resolve_conj = resolve_neg = detach

    def record_stream(self, stream):
        recorded.append((self.device, stream.cuda_stream))

    def cpu(self):
        return Tensor(self._values, "cpu")

    def contiguous(self):
        if self.gpu_is_full:
            raise RuntimeError("CUDA out of memory")
        return Tensor(self._values, self.device)


def record(folder, devices, dense=True, later=None):
    """Two steps with a tensor on each of the devices, the second one with those of `later` if given. Returns
    what was said, and the watch."""
    watch = _library.Watch(_settings.Settings(folder, "job"), 0, 1)
    named = [Named("t%d" % i) for i in range(len(devices))]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        for step in 1, 2:
            if step == 2 and later:
                devices = later
            watch.begin_step(step)
            rows = Rows(watch, torch)
            for i, device in enumerate(devices):
                rows.add(named[i], Tensor([i + 1, step, -3], device, dense), "pre_step", "gradient")
            rows.write()
            rows = Rows(watch, torch)
            rows.add(named[0], Tensor([step], devices[0]), "post_backward", "gradient")
            rows.write_next()
            watch.end_step()
    watch.end(None)
    watch.close()
    return said.getvalue(), watch


def rows_of(folder):
    """Without their numbers and those of tensors, which follow from their order."""
    numbers = (pathlib.Path(folder) / "rank-0.tensors.csv").read_text().splitlines()[1:]
    rows = (pathlib.Path(folder) / "rank-0.csv").read_text().splitlines()[1:]
    return numbers, rows


class RowsOnGpus(unittest.TestCase):
    def setUp(self):
        entered.clear()
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)

    def recorded(self, name, devices, **other):
        folder = os.path.join(self._folder.name, name)
        os.mkdir(folder)
        said, watch = record(folder, devices, **other)
        return said, watch, rows_of(folder)

    def test_are_those_of_the_cpu(self):
        _, _, expected = self.recorded("cpu", ["cpu"] * 3)
        said, watch, found = self.recorded("gpu", ["cuda:0"] * 3)
        self.assertEqual(found, expected)
        self.assertEqual(len(found[1]), 1 + 2 * 3 + 1)
        self.assertEqual((said, watch.gpu_failure), ("", ""))
        self.assertEqual(entered, ["cuda:0"] * 4)

    def test_are_recorded_by_device(self):
        said, watch, (_, rows) = self.recorded("both", ["cuda:0", "cpu", "cuda:1"])
        self.assertEqual((said, watch.rows, len(rows)), ("", 8, 1 + 7))
        self.assertEqual(entered, ["cuda:0", "cuda:1", "cuda:0"] * 2)

    def test_of_samples_stay_until_their_stream_has_read_them(self):
        watch = _library.Watch(_settings.Settings(self._folder.name, "job"), 0, 1)
        watch.begin_step(1)
        with unittest.mock.patch.object(torch, "Tensor", Tensor, create=True):
            Data(torch).write([[("input 0", Tensor([1, 2], "cuda:0")), ("input 1", Tensor([3, 4], "cpu"))]],
                              watch, 0)
        watch.end(None)
        watch.close()
        self.assertEqual(recorded, [("cuda:0", 0)])
        self.assertEqual(len(rows_of(self._folder.name)[1]), 1 + 2)

    def test_may_move_between_devices(self):
        _, _, expected = self.recorded("cpu", ["cpu"] * 3)
        for later in ["cuda:1"] * 3, ["cpu"] * 3:
            entered.clear()
            _, _, found = self.recorded("to " + later[0], ["cuda:0"] * 3, later=later)
            self.assertEqual(found, expected)
            self.assertEqual(entered, ["cuda:0"] * 2 + ["cuda:1"] * 2 * (later[0] != "cpu"))

    def test_with_gaps_are_copied_on_the_gpu(self):
        _, _, expected = self.recorded("cpu", ["cpu"] * 3)
        said, _, found = self.recorded("gpu", ["cuda:0"] * 3, dense=False)
        self.assertEqual((said, found), ("", expected))
        self.assertEqual(entered, ["cuda:0"] * 4)

    def test_with_gaps_are_copied_from_a_full_gpu(self):
        _, _, expected = self.recorded("cpu", ["cpu"] * 3)
        with unittest.mock.patch.object(Tensor, "gpu_is_full", True):
            said, watch, found = self.recorded("gpu", ["cuda:0"] * 3, dense=False)
        self.assertEqual((said, watch.gpu_failure, found), ("", "", expected))
        self.assertEqual(entered, ["cuda:0"] * 2)  # the dense ones

    def test_are_copied_a_few_at_a_time(self):
        _, _, expected = self.recorded("cpu", ["cpu"] * 5)
        batches = []
        for is_full, method in (True, "observe"), (False, "observe_on_gpu"):
            observe = getattr(_library.Watch, method)
            with unittest.mock.patch.object(_rows, "_MOST_COPIED", 24), \
                    unittest.mock.patch.object(Tensor, "gpu_is_full", is_full), \
                    unittest.mock.patch.object(_library.Watch, method, autospec=True,
                                               side_effect=lambda watch, values, *stream:
                                               batches.append(len(values) // 4)
                                               or observe(watch, values, *stream)):
                _, _, found = self.recorded("gpu to " + method, ["cuda:0"] * 5, dense=False)
            self.assertEqual(found, expected)
        self.assertEqual(batches, [2, 2, 1] * 4)

    def test_are_copied_if_the_gpu_fails(self):
        _, _, expected = self.recorded("cpu", ["cpu"] * 3)
        for layout in "dense", "with gaps":
            folder = os.path.join(self._folder.name, layout)
            os.mkdir(folder)
            failing = subprocess.run(
                [sys.executable, __file__, "--record", _library._path(), folder, layout], text=True,
                capture_output=True, env=dict(os.environ, STANDIN_FAILS="cuLaunchKernel"))
            self.assertEqual(failing.returncode, 0, failing.stderr)
            self.assertEqual(
                failing.stdout, "lockstep: tensors on GPUs are copied and measured on the CPU: "
                "cuLaunchKernel of CUDA's driver: STANDIN_ERROR\n['cuda:0']\n")
            self.assertEqual(rows_of(folder), expected)


if __name__ == "__main__":
    if sys.argv[1] == "--record":
        os.environ["LOCKSTEP_WATCH_LIBRARY"] = sys.argv[2]
        print(record(sys.argv[3], ["cuda:0"] * 3, dense=sys.argv[4] == "dense")[0], end="")
        print(entered)
    else:
        os.environ["LOCKSTEP_WATCH_LIBRARY"] = sys.argv[1]
        unittest.main(argv=sys.argv[:1])
