#!/usr/bin/env python3
"""Renders the pages of the manual without a warning, and looks for every option of --help in them:
manual_test.py PROGRAM FOLDER"""

import pathlib
import re
import shutil
import subprocess
import sys


def text_of(command, **options):
    return subprocess.run(command, text=True, capture_output=True, check=True, **options)


def rendered(page):
    """Its text, and warnings."""
    done = text_of(["groff", "-man", "-Tutf8", "-ww", "-b", "-rLL=200n", "-P-cbou", "-K", "utf8", page])
    return done.stdout.replace("\u2010", "-"), done.stderr


def main(program, folder):
    if not shutil.which("groff"):
        print("skipped: there is no groff")
        return 77
    pages = sorted((pathlib.Path(folder) / "man/man1").iterdir())
    faults = []
    for page in pages:
        words = page.stem.split("-")[1:]
        text, warnings = rendered(page)
        if warnings:
            faults.append("%s: %s" % (page.name, warnings))
        options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text_of([program, *words, "--help"]).stdout, re.MULTILINE))
        faults += ["%s lacks %s" % (page.name, option) for option in options if option not in text]
        for heading in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
            if not re.search("^%s$" % heading, text, re.MULTILINE):
                faults.append("%s has no section %s" % (page.name, heading))
        print("%s: %d lines, %d options" % (page.name, text.count("\n"), len(options)))
    commands = [line.split("\t")[0] for line in text_of([program, "--complete", "help", ""]).stdout.splitlines()]
    of_the_catalogue = {"list", "show", "run"}
    for command in commands:
        if "lockstep-%s.1" % command not in [page.name for page in pages] and command not in of_the_catalogue:
            faults.append("%s has no page" % command)
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
