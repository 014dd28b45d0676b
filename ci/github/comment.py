#!/usr/bin/env python3
"""Posts a report as a comment on the pull request of a job of GitHub Actions, and updates it later.

    ci/github/comment.py REPORT [--key NAME] [--when always|findings] [--status N]

REPORT is a page of `lockstep ... --format markdown`. The comment is found again by a hidden marker with
NAME, so that each job of a workflow has one comment. `--when findings` creates none if lockstep exited
with N = 0, but updates an earlier one.

It reads GITHUB_EVENT_PATH, GITHUB_REPOSITORY, GITHUB_API_URL and GITHUB_TOKEN, as the runner and a workflow set them.
The job's result is lockstep's, whatever becomes of the comment: apart from wrong arguments the exit status
is 0, and one sentence on standard output says what was done or why not.
"""

import argparse
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

API = "https://api.github.com"
PER_PAGE = 100
MOST_PAGES = 50
MOST_CHARACTERS = 60000
TIMEOUT_S = 20
TRIES = 3
# Those who may write to the repository. Somebody else may quote the marker in a comment of his own.
OWN = ("OWNER", "MEMBER", "COLLABORATOR")


class NotPosted(Exception):
    """Why there is no comment, in a sentence for the log."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to another host."""

    def redirect_request(self, *_):
        return None


class Api:
    """GitHub's REST interface for the comments of one pull request."""

    def __init__(self, url, repository, number, token, pause_s=1.0):
        self._base = "%s/repos/%s/issues" % (url.rstrip("/"), repository)
        self._number = number
        self._token = token
        self._pause_s = pause_s
        self._opener = urllib.request.build_opener(NoRedirect)

    def comments(self):
        """All comments, page by page."""
        for page in range(1, MOST_PAGES + 1):
            found = self._call("GET", "/%d/comments?per_page=%d&page=%d" % (self._number, PER_PAGE, page))
            yield from found
            if len(found) < PER_PAGE:
                return

    def create(self, body):
        return self._call("POST", "/%d/comments" % self._number, body)

    def update(self, comment, body):
        return self._call("PATCH", "/comments/%d" % comment, body)

    def _call(self, method, place, body=None):
        data = None if body is None else json.dumps({"body": body}).encode()
        request = urllib.request.Request(self._base + place, data, method=method, headers={
            "Accept": "application/vnd.github+json", "Authorization": "Bearer " + self._token,
            "Content-Type": "application/json", "User-Agent": "lockstep",
            "X-GitHub-Api-Version": "2022-11-28"})
        for tries_left in reversed(range(TRIES)):
            try:
                with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code < 500 or method == "POST" or not tries_left:
                    raise NotPosted(refusal(error)) from error
            except (OSError, ValueError) as error:
                # A request that got lost may have been carried out: a second POST would comment twice.
                if method == "POST" or not tries_left:
                    raise NotPosted("GitHub cannot be reached (%s)" % getattr(error, "reason", error)) from error
            time.sleep(self._pause_s)


def refusal(error):
    """GitHub's answer in words."""
    try:
        message = str(json.load(error).get("message", ""))
    except (OSError, ValueError, AttributeError):
        message = ""
    said = "%d%s" % (error.code, " " + message if message else "")
    if error.code in (403, 404):
        return ("the token may not comment (%s): a fork's pull request has a token that only reads, and other "
                "workflows need 'permissions: pull-requests: write'" % said)
    if error.code == 401:
        return "the token is not valid (%s)" % said
    return "GitHub refused the comment (%s)" % said


def marker_of(key):
    """Invisible in the comment; nothing in a report can write it, because reports escape `<`."""
    return "<!-- lockstep report: %s -->" % re.sub(r"[^A-Za-z0-9 ._/=,()-]|--+", "_", key)


def body_of(report, key):
    marker = marker_of(key)
    body = marker + "\n" + report
    if len(body) <= MOST_CHARACTERS:
        return body
    return marker + "\n## Lockstep\n\nThe report is too long for a comment: it is in the summary of the job.\n"


def pull_request_of(event):
    """The number of the event's pull request. Raises NotPosted if it has none."""
    for holder in (event.get("pull_request"), event.get("issue") if (event.get("issue") or {}).get("pull_request")
                   else None, next(iter((event.get("workflow_run") or {}).get("pull_requests") or []), None)):
        if isinstance(holder, dict) and isinstance(holder.get("number"), int):
            return holder["number"]
    raise NotPosted("this event has no pull request")


def is_own(comment, marker):
    """Whether an earlier run wrote the comment: a bot, or somebody who may write to the repository."""
    user = comment.get("user") or {}
    is_trusted = user.get("type") == "Bot" or comment.get("author_association") in OWN
    return is_trusted and (comment.get("body") or "").startswith(marker)


def setting(name):
    value = os.environ.get(name, "")
    if not value:
        raise NotPosted("%s is not set" % name)
    return value


def read_report(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise NotPosted("there is no report: %s" % error) from error


def read_event():
    try:
        with open(setting("GITHUB_EVENT_PATH"), encoding="utf-8") as file:
            event = json.load(file)
    except (OSError, ValueError) as error:
        raise NotPosted("the event cannot be read: %s" % error) from error
    return event if isinstance(event, dict) else {}


def post(arguments):
    """Creates or updates the comment, and says so."""
    report = read_report(arguments.report)
    number = pull_request_of(read_event())
    pause_s = float(os.environ.get("LOCKSTEP_COMMENT_PAUSE", "1"))
    api = Api(os.environ.get("GITHUB_API_URL") or API, setting("GITHUB_REPOSITORY"), number,
              setting("GITHUB_TOKEN"), pause_s)
    marker = marker_of(arguments.key)
    body = body_of(report, arguments.key)
    earlier = next((comment for comment in api.comments() if is_own(comment, marker)), None)
    if earlier is not None:
        api.update(int(earlier["id"]), body)
        return "the comment on pull request %d was updated" % number
    if arguments.when == "findings" and arguments.status == "0":
        return "nothing to say: everything is as expected, and there is no earlier comment"
    api.create(body)
    return "a comment was made on pull request %d" % number


def main():
    parser = argparse.ArgumentParser(description="Posts a report as a comment on a pull request.")
    parser.add_argument("report", metavar="REPORT")
    parser.add_argument("--key", default="lockstep")
    parser.add_argument("--when", choices=["always", "findings"], default="always")
    parser.add_argument("--status", default="")
    arguments = parser.parse_args()
    try:
        print("lockstep: " + post(arguments))
    except NotPosted as why:
        print("lockstep: no comment: %s" % " ".join(str(why).split()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
