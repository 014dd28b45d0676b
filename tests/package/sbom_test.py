"""Each wheel has one bill of materials, which is valid and names it and its libraries, and a damaged one is found.

    PYTHON sbom_test.py WHEEL...     PYTHON: with ci/requirements-wheel.txt
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

SBOM = pathlib.Path(__file__).resolve().parents[2] / "ci/sbom"
LIBRARIES = "deb zlib 1:1.2.13.dfsg-1 source\ndeb libhwy-dev 1.0.3-3 amd64\npypi ziglang 0.17.1 -\n"


def check(wheel):
    done = subprocess.run([sys.executable, SBOM, "--check", wheel], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    return done.returncode, done.stdout + done.stderr


def wheel_with(folder, documents):
    wheel = pathlib.Path(folder, "lockstep_watch-1.0-py3-none-any.whl")
    with zipfile.ZipFile(wheel, "w") as files:
        for name, text in documents.items():
            files.writestr("lockstep_watch-1.0.dist-info/sboms/" + name, text)
    return check(wheel)


def check_the_check(folder):
    libraries, out = pathlib.Path(folder, "list"), pathlib.Path(folder, "out.json")
    libraries.write_text(LIBRARIES)
    subprocess.run([sys.executable, SBOM, "lockstep-watch", "1.0", libraries, out], check=True)
    good = out.read_text()
    status, said = wheel_with(folder, {"lockstep.cdx.json": good})
    assert status == 0 and "zlib 1:1.2.13.dfsg-1" in said and "ziglang 0.17.1" in said, said
    assert "pkg:deb/" in good and "arch=source" in good, good
    nameless = json.loads(good)
    del nameless["components"][0]["name"]
    for documents in ({}, {"lockstep.cdx.json": good.replace("lockstep-watch", "another")},
                      {"lockstep.cdx.json": json.dumps(nameless)}, {"lockstep.cdx.json": "{}"}):
        status, said = wheel_with(folder, documents)
        assert status == 1 and said.startswith("ci/sbom: "), said


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_the_check(folder)
    for wheel in sys.argv[1:]:
        status, said = check(wheel)
        print(said, end="")
        if status or "libarchive" not in said:
            sys.exit("%s has no bill of materials of its libraries" % wheel)


if __name__ == "__main__":
    main()
