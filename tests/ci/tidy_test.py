#!/usr/bin/env python3
"""Tests of ci/tidy, on a project of its own of two sources and two headers."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import unittest.mock

from small_project import SmallProject

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(small CXX)
set(CMAKE_CXX_STANDARD 20)
add_library(small STATIC reports/first.cc harness/second.cc)
add_library(of_tests STATIC tests/third.cc)
add_library(again STATIC reports/first.cc)
target_sources(small PUBLIC FILE_SET HEADERS BASE_DIRS . FILES reports/included.h reports/alone.h)
set_target_properties(small PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
target_include_directories(small PRIVATE .)
target_include_directories(again PRIVATE .)
"""
PRESETS = """{"version": 6, "configurePresets": [{"name": "lint", "generator": "Ninja",
  "binaryDir": "${sourceDir}/build/lint", "cacheVariables": {"CMAKE_EXPORT_COMPILE_COMMANDS": "ON"}}]}"""
FILES = {"CMakeLists.txt": PROJECT, "CMakePresets.json": PRESETS, ".gitignore": "build/\n",
         "reports/first.cc": '#include "reports/included.h"\nint first() { return included(); }\n',
         "reports/included.h": "#pragma once\ninline int included() { return 1; }\n",
         "reports/alone.h": "#pragma once\ninline int alone() { return 1; }\n",
         "harness/second.cc": "int second() { return 2; }\n",
         "tests/third.cc": "int Third() { return 3; }\n"}
LONG = "inline int %s(int n) {\n" + "  n += 1;\n" * 60 + "  return n;\n}\n"


def load(root):
    loader = importlib.machinery.SourceFileLoader("tidy", str(ROOT / "ci/tidy"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    module.ROOT = root
    module.LEAST = {"lint": {".cc": 2, ".h": 2}}
    return module


class Tidy(SmallProject):
    files = FILES

    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / ".clang-tidy", self.root)
        variables = unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.folder + "/cache"})
        variables.start()
        self.addCleanup(variables.stop)

    def git(self, *command):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=self.root, check=True,
                       stdout=subprocess.DEVNULL)

    def tidied(self, *arguments, status=0):
        module, said = load(self.root), io.StringIO()
        with unittest.mock.patch.object(sys, "argv", ["tidy", *arguments]), contextlib.redirect_stdout(said):
            with self.assertRaises(SystemExit) as end:
                module.main()
        if isinstance(end.exception.code, str):
            return end.exception.code
        self.assertEqual(end.exception.code, status, said.getvalue())
        return said.getvalue()

    def test_looks_again_only_at_what_changed(self):
        self.assertIn("3 files, 0 of them as they were", self.tidied())
        self.assertIn("3 files, 3 of them as they were", self.tidied())
        self.write("reports/included.h", FILES["reports/included.h"] + LONG % "long_one")
        said = self.tidied(status=1)
        self.assertIn("reports/included.h:3:12: error: function 'long_one' exceeds", said)
        self.assertIn("3 files, 1 of them as they were", said)
        self.assertIn("long_one", self.tidied(status=1))
        self.write(".clang-tidy", (self.root / ".clang-tidy").read_text().replace("value: 60}", "value: 70}"))
        self.assertIn("3 files, 0 of them as they were", self.tidied())

    def test_looks_at_headers_that_no_source_includes(self):
        self.write("reports/alone.h", FILES["reports/alone.h"] + LONG % "long_one")
        self.assertIn("reports/alone.h:3:12: error: function 'long_one' exceeds", self.tidied(status=1))

    def test_tells_a_source_that_cannot_be_compiled(self):
        self.write("harness/second.cc", "int second() { return missing; }\n")
        self.assertIn("harness/second.cc:1:23: error: use of undeclared", self.tidied(status=1))

    def test_fails_where_sources_or_headers_are_lost(self):
        self.write("CMakeLists.txt", PROJECT.replace(" harness/second.cc", ""))
        self.assertIn("has 1 files *.cc, but at least 2", self.tidied())
        self.write("CMakeLists.txt", PROJECT.replace(" reports/alone.h", ""))
        self.assertIn("has 1 files *.h, but at least 2", self.tidied())

    def test_looks_at_what_changed_since_the_last_common_commit(self):
        self.git("init", "-q")
        self.assertIn("3 files,", self.tidied("--changed"))
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        self.assertIn("3 files,", self.tidied("--changed"))
        self.write("harness/second.cc", "int second() { return 3; }\n")
        self.git("commit", "-qam", "second")
        self.assertIn("1 files, 0 of", self.tidied("--changed"))
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.assertIn("1 files, 1 of", self.tidied("--changed"))
        self.write("reports/included.h", FILES["reports/included.h"] + LONG % "long_one")
        self.git("commit", "-qam", "third")
        self.assertIn("1 files, 0 of", self.tidied("--changed", status=1))

    def test_says_how_many_files_it_had_no_time_for(self):
        said = self.tidied("--within", "-1")
        self.assertIn("3 files were not looked at", said)
        self.assertIn("3 files, 0 of them as they were", self.tidied())


if __name__ == "__main__":
    if load(ROOT).clang_tidy():
        unittest.main()
