#!/usr/bin/python3
"""Runs the steps of the job `lockstep` of ci/github/multi-gpu.yml in a clean folder, with real wheels.

    multi_gpu_test.py WHEELS PYTHON     WHEELS: the folder with both; PYTHON: with the torch of the catalogue

Without two GPUs the catalogue's step has to fail, because it requires them; the training's uses Gloo.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import yaml

from github_action_test import ROOT, GitHub, Job

PYTHON = """#!/bin/sh
# Environments that it makes have the packages of another one, so that pip finds torch there.
/usr/bin/python3 "$@" || exit
[ "$1 $2" != "-m venv" ] || echo "%s" >"$(echo "$3"/lib/python3*/site-packages)/torch.pth"
"""
TORCHRUN = """#!/bin/sh
exec "%s" -m torch.distributed.run "$@"
"""


class Runner:
    def __init__(self, folder, wheels, python):
        self.folder, self.wheels = folder, wheels
        self.workspace, self.tools = folder / "workspace", folder / "tools"
        self.path = [str(self.tools), "/usr/bin", "/bin"]
        self.github = GitHub()
        self.tools.mkdir()
        packages = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                                  stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        for name, text in (("python3", PYTHON % packages), ("torchrun", TORCHRUN % python)):
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)

    def step(self, step):
        """Its exit status and output."""
        uses, wanted = step.get("uses", ""), step.get("with", {})
        if uses.startswith("actions/checkout@"):
            for name in ("ci", "examples"):
                shutil.copytree(ROOT / name, self.workspace / name)
        elif uses.startswith("actions/download-artifact@"):
            shutil.copytree(self.wheels, self.workspace / wanted["path"],
                            ignore=lambda _, names: [name for name in names if not name.endswith(".whl")])
        elif uses == "./ci/github":
            job = Job(self.folder, self.github, **wanted)
            job.variables["PATH"] = ":".join(self.path)
            job.run(timeout=600)
            return job.status, job.log
        elif uses:
            raise AssertionError("a step of another kind: %s" % uses)
        else:
            return self.script(step["run"])
        return 0, ""

    def script(self, text):
        added = self.folder / "path"
        environment = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_"))}
        environment.update(PATH=":".join(self.path), HOME=str(self.folder), GITHUB_PATH=str(added))
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", text], cwd=self.workspace, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if added.exists():
            self.path[:0] = added.read_text().splitlines()
            added.unlink()
        return done.returncode, done.stdout


def main():
    wheels, python = (pathlib.Path(word).absolute() for word in sys.argv[1:])
    workflow = yaml.safe_load((ROOT / "ci/github/multi-gpu.yml").read_text())
    gpus = len(list(pathlib.Path("/dev").glob("nvidia[0-9]*")))
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(pathlib.Path(folder), wheels, python)
        for step in workflow["jobs"]["lockstep"]["steps"]:
            name = step.get("name", step.get("uses"))
            status, output = runner.step(step)
            is_refused = name == "Run the catalogue over NCCL" and gpus < 2
            print("%s: %d" % (name, status))
            if status != (1 if is_refused else 0):
                sys.exit("%s: status %d\n%s" % (name, status, output))
            for text, wanted in (("catalogue over NCCL", "gpus=2"), ("Watch a training", "in lockstep")):
                if text in name and wanted not in output:
                    sys.exit("%s: no '%s' in\n%s" % (name, wanted, output))
        runner.github.shutdown()
        runner.github.server_close()


if __name__ == "__main__":
    main()
