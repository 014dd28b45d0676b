#!/usr/bin/python3
"""Runs the steps of ci/github/action.yml as GitHub's runner does, in a clean folder, next to a stand-in for
GitHub's REST interface.

A script stands in for lockstep. Returns 77 (skipped) without Python's yaml.
"""

import http.server
import json
import os
import pathlib
import re
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

try:
    import yaml
except ImportError:
    print("skipped: Python's yaml is missing (Debian package python3-yaml)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ACTION = ROOT / "ci/github"
REPOSITORY = "octo/train"

FAKE = r"""#!/usr/bin/env bash
# Writes what lockstep would, and exits with the status in FAKE_STATUS.
arguments=("$@")
for ((i = 0; i < $#; ++i)); do
  [[ ${arguments[i]} == --out ]] && folder=${arguments[i + 1]}
done
printf '%s\n' "$@" >"$FAKE_ARGUMENTS"
mkdir "$folder"
printf '%b' "${FAKE_REPORT:-## Lockstep: FAILED: ranks differ\n}" >"$folder/report.md"
echo '# summary' >>"$GITHUB_STEP_SUMMARY"
exit "${FAKE_STATUS:-1}"
"""


class GitHub(http.server.ThreadingHTTPServer):
    """Comments of pull request 7, and each request for them."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments, self.requests, self.refusal, self.drops = [], [], None, []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def server_bind(self):
        """Without a question to a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address

    @property
    def url(self):
        return "http://127.0.0.1:%d/api/v3" % self.server_address[1]

    def add(self, body, login="octocat", kind="User", association="NONE"):
        number = 100 + len(self.comments)
        self.comments.append({"id": number, "body": body, "user": {"login": login, "type": kind},
                              "author_association": association})
        return self.comments[-1]


class Handler(http.server.BaseHTTPRequestHandler):
    """GitHub's answers: https://docs.github.com/en/rest/issues/comments."""

    def answer(self, status, content):
        data = json.dumps(content).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url + "/elsewhere")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_method(self):
        server = self.server
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length))["body"] if length else None
        server.requests.append((self.command, self.path, self.headers.get("Authorization")))
        if self.command in server.drops:
            server.drops.remove(self.command)
            self.close_connection = True
            self.connection.close()
            return
        if server.refusal and (self.command != "GET" or server.refusal != 403):
            self.answer(server.refusal, {"message": "Resource not accessible by integration"})
            return
        listing = re.fullmatch(r"/api/v3/repos/%s/issues/7/comments\?per_page=(\d+)&page=(\d+)" % REPOSITORY, self.path)
        one = re.fullmatch(r"/api/v3/repos/%s/issues/comments/(\d+)" % REPOSITORY, self.path)
        if self.command == "GET" and listing:
            size, page = min(int(listing[1]), 100), int(listing[2])
            self.answer(200, server.comments[(page - 1) * size:page * size])
        elif self.command == "POST" and self.path == "/api/v3/repos/%s/issues/7/comments" % REPOSITORY:
            self.answer(201, server.add(body, "github-actions[bot]", "Bot"))
        elif self.command == "PATCH" and one:
            comment = next(comment for comment in server.comments if comment["id"] == int(one[1]))
            comment["body"] = body
            self.answer(200, comment)
        else:
            self.answer(404, {"message": "Not Found"})

    do_GET = do_POST = do_PATCH = handle_method

    def log_message(self, *_):
        pass


class Job:
    """A job of GitHub Actions with one use of the action, in a folder of its own."""

    def __init__(self, folder, github, **inputs):
        self.folder, self.github = pathlib.Path(folder), github
        self.action = yaml.safe_load((ACTION / "action.yml").read_text())
        self.inputs = {name: str(one.get("default", "")) for name, one in self.action["inputs"].items()}
        self.inputs["token"] = "secret"
        self.inputs.update(inputs)
        self.outputs, self.failed, self.log, self.artifacts = {}, False, "", []
        self.status = 0
        event = self.folder / "event.json"
        if not event.exists():
            event.write_text(json.dumps({"pull_request": {"number": 7}}))
        (self.folder / "workspace").mkdir(exist_ok=True)
        self.variables = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.folder), "GITHUB_ACTIONS": "true", "CI": "true",
            "GITHUB_ACTION_PATH": str(ACTION), "GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_EVENT_PATH": str(event), "RUNNER_TEMP": str(self.folder), "LOCKSTEP_COMMENT_PAUSE": "0.01",
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"), "FAKE_ARGUMENTS": str(self.folder / "arguments"),
        }

    def run(self, timeout=60, **variables):
        for step in self.action["runs"]["steps"]:
            if self.is_due(step):
                self.run_step(step, variables, timeout)
        return self

    def is_due(self, step):
        condition = step.get("if")
        if condition is None:
            return not self.failed
        terms = condition.split(" && ")
        assert terms[0] == "always()", condition
        return all(self.evaluated(term.split(" != ")[0]) != term.split(" != ")[1].strip("'") for term in terms[1:])

    def evaluated(self, expression):
        if expression.startswith("inputs."):
            return self.inputs[expression[len("inputs."):]]
        match = re.fullmatch(r"steps\.(\w+)\.outputs\.(\w+)", expression)
        return self.outputs.get(match[1], {}).get(match[2], "")

    def filled(self, text):
        return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda part: self.evaluated(part[1]), str(text))

    def run_step(self, step, variables, timeout):
        if "uses" in step:
            assert step["uses"].startswith("actions/upload-artifact@"), step
            self.artifacts.append(self.filled(step["with"]["path"]))
            return
        # Inputs inside of a script could end its words: the action passes them as variables only.
        assert "${{" not in step["run"], step["run"]
        output = self.folder / "output"
        output.write_text("")
        environment = dict(self.variables, GITHUB_OUTPUT=str(output), **variables)
        environment.update({name: self.filled(value) for name, value in step.get("env", {}).items()})
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                              cwd=self.folder / "workspace", env=environment, capture_output=True, text=True,
                              timeout=timeout)
        self.log += done.stdout + done.stderr
        if "id" in step:
            lines = [line.partition("=") for line in output.read_text().splitlines()]
            self.outputs[step["id"]] = {name: value for name, _, value in lines}
        if done.returncode:
            self.failed, self.status = True, self.status or done.returncode


class ActionTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.folder = pathlib.Path(self.place.name)
        self.fake = self.folder / "lockstep"
        self.fake.write_text(FAKE)
        self.fake.chmod(0o755)
        self.github = GitHub()
        self.addCleanup(self.github.server_close)
        self.addCleanup(self.github.shutdown)

    def job(self, **inputs):
        return Job(self.folder, self.github, **{"watch": "torchrun train.py", "lockstep": str(self.fake), **inputs})

    def bodies(self):
        return [comment["body"] for comment in self.github.comments]

    def test_the_first_run_comments_and_the_second_updates(self):
        job = self.job().run()
        self.assertEqual(job.status, 1)
        self.assertEqual(self.bodies(), ["<!-- lockstep report: lockstep -->\n## Lockstep: FAILED: ranks differ\n"])
        self.assertIn("a comment was made on pull request 7", job.log)
        self.job().run(FAKE_STATUS="0", FAKE_REPORT="## Lockstep: all ranks agree\n")
        self.assertEqual(self.bodies(), ["<!-- lockstep report: lockstep -->\n## Lockstep: all ranks agree\n"])
        self.assertTrue(all(token == "Bearer secret" for _, _, token in self.github.requests))

    def test_its_status_is_that_of_lockstep(self):
        for status in (0, 1, 2, 3, 64, 7):
            job = self.job().run(FAKE_STATUS=str(status))
            self.assertEqual((job.status, job.outputs["lockstep"]["status"]), (status, str(status)))
            folder = job.outputs["lockstep"]["folder"]
            self.assertEqual(job.artifacts, ["%s\n!%s/**/*.safetensors\n" % (folder, folder)])

    def test_the_artifact_has_values_of_tensors_if_they_are_asked_for(self):
        job = self.job(values="true").run()
        self.assertEqual(job.artifacts, ["%s\n\n" % job.outputs["lockstep"]["folder"]])

    def test_a_fork_has_the_summary_alone(self):
        self.github.refusal = 403
        job = self.job().run()
        self.assertEqual((job.status, self.bodies()), (1, []))
        self.assertIn("no comment: the token may not comment (403 Resource not accessible by integration)", job.log)
        self.assertEqual((self.folder / "summary.md").read_text(), "# summary\n")

    def test_the_marker_is_found_after_hundreds_of_comments(self):
        for i in range(250):
            self.github.add("comment %d" % i)
        self.job().run()
        self.github.add("later")
        self.job().run(FAKE_REPORT="again")
        self.assertEqual(len(self.bodies()), 252)
        self.assertEqual(self.bodies()[250], "<!-- lockstep report: lockstep -->\nagain")

    def test_a_full_last_page_is_no_end(self):
        for i in range(100):
            self.github.add("comment %d" % i)
        self.job().run()
        self.job().run(FAKE_REPORT="again")
        self.assertEqual(len(self.bodies()), 101)

    def test_an_unreachable_server_is_one_sentence(self):
        self.github.server_close()
        job = self.job().run()
        self.assertEqual(job.status, 1)
        self.assertRegex(job.log, r"lockstep: no comment: GitHub cannot be reached \(.*refused.*\)\n")
        self.assertNotIn("Traceback", job.log)

    def test_a_dropped_connection_is_tried_again_unless_it_may_have_posted(self):
        self.github.drops = ["GET", "GET"]
        job = self.job().run()
        self.assertEqual(len(self.bodies()), 1, job.log)
        self.github.drops = ["PATCH"]
        self.job().run(FAKE_REPORT="again")
        self.assertIn("again", self.bodies()[0])
        self.github.drops = ["POST"]
        job = self.job(name="other").run()
        self.assertEqual([method for method, _, _ in self.github.requests].count("POST"), 2, "of two jobs")
        self.assertIn("no comment: GitHub cannot be reached", job.log)

    def test_a_failing_server_is_one_sentence(self):
        for status in (500, 401, 422, 302):
            self.github.refusal = status
            job = self.job().run()
            self.assertEqual((job.status, self.bodies()), (1, []))
            self.assertEqual(job.log.count("lockstep: no comment: "), 1, job.log)
        self.assertFalse(any("elsewhere" in path for _, path, _ in self.github.requests), "the token stays here")

    def test_a_stranger_cannot_pose_as_the_report(self):
        self.github.add("<!-- lockstep report: lockstep -->\nnot mine", "mallory")
        self.job().run()
        self.assertEqual(len(self.bodies()), 2)
        self.assertIn("not mine", self.bodies()[0])

    def test_a_member_with_an_own_token_is_found_again(self):
        self.github.add("<!-- lockstep report: lockstep -->\nold", "maintainer", "User", "MEMBER")
        self.job().run()
        self.assertEqual(len(self.bodies()), 1)

    def test_two_reports_of_a_workflow_have_a_comment_each(self):
        for name in ("cpu", "gpu", "cpu", "--> x"):
            self.job(name=name).run()
        self.assertEqual([body.splitlines()[0] for body in self.bodies()],
                         ["<!-- lockstep report: cpu -->", "<!-- lockstep report: gpu -->",
                          "<!-- lockstep report: __ x -->"])

    def test_a_green_run_is_silent_unless_asked(self):
        self.assertIn("nothing to say", self.job().run(FAKE_STATUS="0").log)
        self.job(comment="never").run()
        self.assertEqual(self.bodies(), [])
        self.job(comment="always").run(FAKE_STATUS="0")
        self.assertEqual(len(self.bodies()), 1)

    def test_a_push_has_no_comment(self):
        (self.folder / "event.json").write_text('{"ref": "refs/heads/main"}')
        job = self.job().run()
        self.assertIn("no comment: this event has no pull request", job.log)
        self.assertEqual((job.status, self.github.requests), (1, []))

    def test_a_long_report_is_named_instead(self):
        self.job().run(FAKE_REPORT="x" * 70000)
        self.assertLess(len(self.bodies()[0]), 60000)
        self.assertIn("in the summary of the job", self.bodies()[0])

    def test_inputs_are_words_and_commands_of_a_shell(self):
        self.job(watch="torchrun --nproc-per-node 2 train.py; echo $HOME",
                 options="--known 'my known.txt' --every 2").run()
        words = (self.folder / "arguments").read_text().splitlines()
        self.assertEqual(words[:5], ["watch", "--label", "lockstep", "--format", "github,html,junit,markdown,summary"])
        self.assertEqual(words[5:9], ["--known", "my known.txt", "--every", "2"])
        self.assertEqual(words[-4:], ["--", "bash", "-c", "torchrun --nproc-per-node 2 train.py; echo $HOME"])
        self.job(watch="", run="loss-on-unwrapped-module --ranks 2,3").run()
        words = (self.folder / "arguments").read_text().splitlines()
        self.assertEqual(words[:4], ["run", "loss-on-unwrapped-module", "--ranks", "2,3"])

    def pull_request(self):
        """A pull request of two commits, of which the workspace has the last one alone. Returns both."""
        origin, workspace = self.folder / "origin", self.folder / "workspace"

        def git(folder, *words):
            return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True,
                                  capture_output=True, text=True).stdout.strip()

        origin.mkdir()
        git(origin, "init", "-q", "-b", "main")
        commits = []
        for message in ("base", "head"):
            git(origin, "commit", "-q", "--allow-empty", "-m", message)
            commits.append(git(origin, "rev-parse", "HEAD"))
        git(self.folder, "clone", "-q", "--depth", "1", origin.as_uri(), str(workspace))
        pull = {"number": 7, "base": {"sha": commits[0]}, "head": {"sha": commits[1]}}
        (self.folder / "event.json").write_text(json.dumps({"pull_request": pull}))
        return commits

    def test_a_fix_is_validated_between_the_commits_of_the_pull_request(self):
        base, head = self.pull_request()
        job = self.job(watch="", validate="torchrun train.py", reference="python train.py",
                       options="--set ranks=2,4").run(FAKE_STATUS="0", FAKE_REPORT="## Lockstep: FIXED\n")
        self.assertEqual(job.status, 0, job.log)
        words = (self.folder / "arguments").read_text().splitlines()
        self.assertEqual(words[:4], ["validate", "%s..%s" % (base, head), "--reference", "python train.py"])
        self.assertEqual(words[6:8], ["--set", "ranks=2,4"])
        self.assertEqual(words[-4:], ["--", "bash", "-c", "torchrun train.py"])
        self.assertEqual(self.bodies(), ["<!-- lockstep report: lockstep -->\n## Lockstep: FIXED\n"])
        found = subprocess.run(["git", "cat-file", "-t", base], cwd=self.folder / "workspace", capture_output=True,
                               text=True, check=False)
        self.assertEqual(found.stdout, "commit\n")
        self.job(watch="", validate="x", reference="y", range="%s..%s" % (head, base), comment="never").run()
        self.assertEqual((self.folder / "arguments").read_text().splitlines()[1], "%s..%s" % (head, base))
        self.assertEqual(len(self.bodies()), 1)

    def wheel(self):
        """A wheel whose program is the stand-in."""
        path = self.folder / "lockstep_watch-1.0-py3-none-any.whl"
        about = "lockstep_watch-1.0.dist-info/"
        files = {"lockstep_watch-1.0.data/scripts/lockstep": FAKE,
                 about + "METADATA": "Metadata-Version: 2.1\nName: lockstep-watch\nVersion: 1.0\n",
                 about + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
        with zipfile.ZipFile(path, "w") as archive:
            files[about + "RECORD"] = "".join(name + ",,\n" for name in [*files, about + "RECORD"])
            for name, text in files.items():
                member = zipfile.ZipInfo(name)
                member.external_attr = 0o100755 << 16  # a file that may be executed
                archive.writestr(member, text)
        return path

    def test_a_wheel_is_installed_beside_the_job(self):
        job = self.job(wheel="'%s'" % self.wheel(), lockstep="lockstep").run()
        self.assertEqual(job.status, 1, job.log)
        self.assertEqual((self.folder / "arguments").read_text().splitlines()[0], "watch")
        self.assertEqual(len(self.bodies()), 1)

    def test_wrong_inputs_are_an_annotation(self):
        for inputs in ({"watch": ""}, {"run": "x"}, {"lockstep": "/nowhere"}, {"options": "'"},
                       {"values": "yes"}, {"validate": "x"}, {"watch": "", "validate": "x"},
                       {"watch": "", "validate": "x", "reference": "y"},
                       {"watch": "", "validate": "x", "reference": "y", "range": "a..b"},
                       {"wheel": "'"}, {"wheel": "no-such.whl"}):
            job = self.job(**inputs).run()
            self.assertEqual(job.status, 64, inputs)
            self.assertIn("::error title=Lockstep::", job.log)


class CommentTest(unittest.TestCase):
    def test_events_name_their_pull_request(self):
        sys.path.insert(0, str(ACTION))
        import comment
        for event, number in (({"pull_request": {"number": 3}}, 3),
                              ({"issue": {"number": 4, "pull_request": {}}}, None),
                              ({"issue": {"number": 4, "pull_request": {"url": "x"}}}, 4),
                              ({"issue": {"number": 4}}, None),
                              ({"workflow_run": {"pull_requests": [{"number": 5}]}}, 5),
                              ({"workflow_run": {"pull_requests": []}}, None), ({}, None)):
            if number is None:
                self.assertRaises(comment.NotPosted, comment.pull_request_of, event)
            else:
                self.assertEqual(comment.pull_request_of(event), number)


class PinsTest(unittest.TestCase):
    def test_other_actions_are_named_by_commit_and_version(self):
        files = [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("ci/github/*.yml"), ROOT / "docs/ci.md"]
        used = [(file.name, line.split("uses: ", 1)[1]) for file in files for line in file.read_text().splitlines()
                if line.strip(" -").startswith("uses: ") and "/lockstep/ci/github" not in line]
        others = [one for one in used if not one[1].startswith("./")]
        self.assertGreater(len(others), 8)
        for file, action in others:
            self.assertRegex(action, r"^[\w-]+/[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", file)
        commits = {}
        for _, action in others:
            self.assertEqual(action, commits.setdefault(action.split("@")[0], action), "two versions of one action")


class GitlabTest(unittest.TestCase):
    def test_the_template_has_a_job_with_a_junit_report(self):
        job = yaml.safe_load((ROOT / "ci/gitlab/lockstep.yml").read_text())[".lockstep"]
        self.assertEqual(job["artifacts"]["reports"]["junit"], "lockstep/report.xml")
        self.assertEqual(job["artifacts"]["when"], "always")
        self.assertEqual(job["artifacts"]["exclude"], ["lockstep/**/*.safetensors"])

    def test_its_script_runs_in_a_clean_folder(self):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            (folder / "fake").write_text(FAKE)
            (folder / "fake").chmod(0o755)
            job = yaml.safe_load((ROOT / "ci/gitlab/lockstep.yml").read_text())[".lockstep"]
            variables = dict(job["variables"], LOCKSTEP_PROGRAM=str(folder / "fake"), LOCKSTEP_WATCH="torchrun a b",
                             CI_JOB_NAME="train: [1]", PATH="/usr/bin:/bin",
                             GITHUB_STEP_SUMMARY="/dev/null", FAKE_ARGUMENTS=str(folder / "arguments"))
            done = subprocess.run(["sh", "-ec", "\n".join(job["script"])], cwd=folder, env=variables, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertEqual((folder / "arguments").read_text().splitlines(),
                             ["watch", "--label", "train: [1]", "--format", "html,junit,markdown,summary", "--out",
                              "lockstep", "--", "sh", "-c", "torchrun a b"])
            self.assertTrue((folder / "lockstep/report.md").is_file())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
