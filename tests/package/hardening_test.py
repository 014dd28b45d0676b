#!/usr/bin/python3
"""Reads from programs and libraries whether they are hardened as harness/hardening.cmake says.

    hardening_test.py FILE...

Each must be position-independent, bound at the start and read-only from then on (RELRO, BIND_NOW), with stack
canaries and functions of the C library that check the size of buffers, and without an executable stack. On
x86-64 each must have the landing pads of indirect branches. That it may run with them is noted in it only if
all its objects are compiled so, those of the C library and the C++ library too: the test says so.

Prints a line for each file. Exits with 1 if one lacks something, with 77 (skipped) without readelf.
"""

import functools
import re
import shutil
import subprocess
import sys


def readelf(option, file):
    return subprocess.run(["readelf", "-W", option, file], stdout=subprocess.PIPE, text=True, check=True,
                          env={"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"}).stdout


def segment(name, headers):
    """The line of a program header, or an empty text."""
    return next((line for line in headers.splitlines() if line.split()[:1] == [name]), "")


@functools.lru_cache(maxsize=1)
def code_of(file):
    return subprocess.run(["objdump", "-d", "--no-show-raw-insn", file], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def has_canaries(file):
    """Whether functions call the C library's function for a canary that has changed. Zig brings its own one, without
    a name in a stripped file: there they read the canary, which on x86-64 is in the thread's block."""
    return "__stack_chk_fail" in readelf("--dyn-syms", file) or code_of(file).count("%fs:0x28") >= 100


def has_landing_pads(file):
    """Whether each function that others call by address begins with one; in a program without names, by their
    number: those of the compiler's start files are three."""
    exported = {line.split()[-1] for line in readelf("--dyn-syms", file).splitlines()
                if re.search(r"\bFUNC +(GLOBAL|WEAK) +DEFAULT +\d+ .*lockstep", line)}
    code = code_of(file)
    first = dict(re.findall(r"^[0-9a-f]+ <(\w+)>:\n +[0-9a-f]+:\t(\w+)", code, re.MULTILINE))
    entries = (exported | {"main"}) & set(first)
    return all(first[name] == "endbr64" for name in entries) if entries else code.count("\tendbr64") >= 100


def lacking(file):
    header, headers, dynamic = readelf("-h", file), readelf("-l", file), readelf("-d", file)
    symbols = readelf("--dyn-syms", file)
    if not re.search(r"Type:\s+DYN\b", header):
        yield "it is not position-independent"
    if "INTERP" in headers and not re.search(r"\(FLAGS_1\).*\bPIE\b", dynamic):
        yield "it is no position-independent program"
    if not segment("GNU_RELRO", headers):
        yield "no GNU_RELRO"
    if not re.search(r"\(FLAGS\).*\bBIND_NOW\b|\(BIND_NOW\)|\(FLAGS_1\).*\bNOW\b", dynamic):
        yield "no BIND_NOW"
    stack = segment("GNU_STACK", headers)
    if not stack or "E" in stack.split()[-2]:
        yield "an executable stack"
    if re.search(r"\(TEXTREL\)", dynamic):
        yield "code that is written to when it is loaded"
    if not has_canaries(file):
        yield "no stack canaries"
    if not re.search(r"\b__\w+_chk\b", symbols):
        yield "no function that checks the size of a buffer"
    if re.search(r"Machine:.*X86-64", header) and not has_landing_pads(file):
        yield "no landing pads of indirect branches"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not shutil.which("readelf") or not shutil.which("objdump"):
        print("skipped: readelf or objdump is missing (Debian package binutils)")
        return 77
    status = 0
    for file in sys.argv[1:]:
        found = list(lacking(file))
        checked = sorted(set(re.findall(r"__\w+_chk\b", readelf("--dyn-syms", file))))
        noted = re.findall(r"IBT|SHSTK", readelf("-n", file))
        print("%s: %s; %s; noted: %s" % (file, ", ".join(found) or "hardened", " ".join(checked),
                                        " ".join(noted) or "neither IBT nor SHSTK, as an object has none"))
        status |= bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
