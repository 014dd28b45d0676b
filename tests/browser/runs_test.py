#!/usr/bin/env python3
"""Opens pages of real runs in a browser: runs_test.py LOCKSTEP PYTHON

Runs the flagship, a hang and watched jobs, and compares the charts with the JSON of the same run. PYTHON has
torch."""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser

TWO_RANKS = pathlib.Path(__file__).resolve().parents[1] / "watch/two_ranks.py"
TRAINING = """
import os
import torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=2)
torch.manual_seed(0)
module = torch.nn.Linear(6, 3)
model = torch.nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
for step in range(1, 13):
    batch = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
    optimizer.zero_grad()
    loss = model(batch).pow(2).mean() * (2 if os.environ["WAY"] == "twice" else 1)
    loss.backward()
    if os.environ["WAY"] == "apart" and step == 7 and dist.get_rank() == 1:
        module.bias.grad[0] += 1
    optimizer.step()
"""


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.addClassCleanup(cls.browser.close)
        cls.folder = pathlib.Path(temporary.name)
        (cls.folder / "train.py").write_text(TRAINING)

    def call(self, *arguments):
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        return subprocess.run([LOCKSTEP, *map(str, arguments)], cwd=self.folder, env=environment,
                              capture_output=True, text=True, timeout=120)

    def watch(self, way):
        self.call("watch", "--out", way, "--label", way, "--format", "html", "--", "env", "WAY=" + way,
                  PYTHON, TWO_RANKS, "train.py")

    def show(self, run, name="page", *command):
        """Opens the page of a run, which must be silent and accessible. Returns the run's record."""
        page = self.folder / (name + ".html")
        shown = self.call(*(command or ("report", run, "--format", "html")))
        self.assertTrue(shown.stdout, shown.stderr)
        page.write_text(shown.stdout)
        self.browser.open(page)
        self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        self.browser.run("return new Promise((done) => setTimeout(done, 200))")
        self.assertEqual(self.browser.console(), [])
        self.assertEqual(self.browser.requests(), [])
        self.assertEqual(self.browser.violations(), [])
        return None if command else json.loads(self.call("report", run, "--format", "json").stdout)

    def chart(self, caption):
        return next(one for one in self.browser.charts() if one["caption"].startswith(caption))

    def verdict(self):
        return self.browser.run("return document.querySelector('h1').textContent")

    def test_the_flagship_shows_the_values_of_its_tables(self):
        self.call("run", "loss-on-unwrapped-module", "--ranks", "2", "--out", "flagship")
        record = self.show("flagship")
        self.assertIn("as expected", self.verdict())
        compared = 0
        for table in record["tables"]:
            chart = self.chart(table["spec"]["title"])
            lines = iter(chart["lines"])
            for group in range(len(table["spec"]["groups"])):
                for rank in range(len(table["rows"][0]["entries"][group]["values"])):
                    line = next(lines)
                    for text, row in zip(line["texts"], table["rows"]):
                        value = row["entries"][group]["values"][rank]
                        self.assertAlmostEqual(float(text), value, delta=max(1e-5, abs(value) * 1e-3))
                        compared += 1
        self.assertGreater(compared, 20)
        self.assertIn("gradients-differ", self.browser.filter(0, "gradients-differ bypass-after")[0][0])

    def test_a_hang_marks_the_first_mismatch(self):
        self.call("run", "uneven-batches-hang/own-batches", "--ranks", "2", "--out", "hang")
        record = self.show("hang")
        mismatch = next(cell["mismatch"] for cell in record["cells"] if cell["mismatch"])
        marked = self.browser.run("return document.querySelector('th.marked').textContent")
        self.assertEqual(marked, "%dfirst mismatch" % mismatch["number"])
        self.assertIn(mismatch["sentence"], self.browser.run("return document.body.textContent"))

    def test_watched_jobs_and_their_comparison(self):
        for way in ["healthy", "apart", "twice"]:
            self.watch(way)
            self.assertTrue((self.folder / way / "report.html").exists(), way)
        record = self.show("healthy")
        self.assertIn("in lockstep", self.verdict())
        self.assertIn("Ranks agree on all", self.browser.run("return document.body.textContent"))
        norms, = self.chart("Gradient norm")["lines"]
        table = next(one for one in record["jobs"][0]["tables"] if one["spec"]["quantity"] == "norm")
        self.assertEqual(norms["label"], "ranks 0, 1")
        for text, row in zip(norms["texts"], table["rows"]):
            self.assertTrue(math.isclose(float(text), row["entries"][0]["values"][0], rel_tol=1e-8))

        self.show("apart")
        self.assertIn("ranks differ from step 7 on", self.verdict())
        rows = self.browser.run("return [...document.querySelectorAll('.map tbody tr')].map((row) => row.innerText)")
        self.assertIn("bias", rows[0])
        self.assertEqual([text == "0" for text in self.chart("Drift")["lines"][0]["texts"]],
                         [step < 7 for step in range(1, 13)])

        self.show(None, "diff", "diff", "healthy", "twice", "healthy", "--expect", "fixed", "--format", "html")
        self.assertIn("FIXED", self.verdict())
        before, after = self.chart("Distance of the weights")["lines"]
        self.assertEqual(set(after["texts"]), {"0"})
        self.assertGreater(float(before["texts"][5]), 0)


if __name__ == "__main__":
    PYTHON, LOCKSTEP = sys.argv.pop(), os.path.abspath(sys.argv.pop())
    unittest.main()
