"""A project in a temporary folder, for tests of the scripts of ci/."""

import pathlib
import tempfile
import unittest


class SmallProject(unittest.TestCase):
    """`files`: texts by path. The project is in the folder `root`, below another one, `folder`."""

    files = {}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.root = pathlib.Path(folder.name).resolve() / "project"
        for name, text in self.files.items():
            self.write(name, text)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
