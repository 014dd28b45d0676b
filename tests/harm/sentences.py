"""What Lockstep says in each case, with what varies masked, and the file `sentences.txt` that lists it for each fault.
A line of the file that begins with `=` is said in every case of the fault; one with `~` depends on the moment.
Nothing else may be said. LOCKSTEP_UPDATE_GOLDENS=1 adds what is not listed."""

import collections
import os
import re

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sentences.txt")
# A fully sharded job has nothing to compare between ranks, and says so in place of "in lockstep".
_MASKS = ((r"in lockstep: 4 of 4 parameters compared on 2 of 2 ranks, 12 steps, 1 to 12", "HEALTHY"),
          (r"recorded: 12 steps of 4 parameters; compare: lockstep diff \S+ RUN", "HEALTHY"),
          (r"UNDECIDED: in lockstep for \d+ steps?, \d+( to \d+)?, but ", "UNDECIDED: "),
          (r"(?<=found ')[^']*(?=')", "WHAT"),
          (r"(?<=before an optimizer of torch stepped: ).*", "ERROR"),
          (r"(?<![\w.])/[^\s,;'\"]*[^\s,;:.'\")]", "PATH"),
          (r"\b[\w-]+\.py\b", "FILE"),
          (r"\b\d+(\.\d+)?\b", "N"),
          (r"\bN(, N)+( and N)?\b", "N"),
          (r"\bN to N\b", "N"),
          (r"\b(N|N more|N of N) (step|rank|parameter|collective|file)\b(?!s)", r"\1 \2s"))
# How far a job is, once a minute: a slow machine has it in any case.
_PROGRESS = re.compile(r"lockstep: step \d+, \d+ of \d+ ranks, ranks agree up to step \d+$")
_HEADER = """\
# What is said in the cases of each fault: `=` in every case, `~` in some. HEALTHY is the verdict on a job that ran
# as its twin did; N, PATH, FILE, WHAT and ERROR stand for what varies. LOCKSTEP_UPDATE_GOLDENS=1 do_no_harm.py ...
# adds what is missing: read it before you keep it.
"""


def _masked(text):
    for expression, mask in _MASKS:
        text = re.sub(expression, mask, text)
    return text


def _verdict(report):
    """The sentence about the job in the text of a report; "": there is none."""
    whole = re.sub(r"\n {4}(?=\S)", " ", report)
    found = re.search(r"^\S.*?, (?:\d+ ranks?|no ranks): (.*)", whole, re.M)
    return found.group(1) if found else ""


def of_case(err, report):
    """The sentences, as a set: those of the hook and the watch, the verdict of the watch, and that of `lockstep
    report`, or its refusal."""
    said = {"said: " + _masked(line) for line in err.splitlines()
            if line.startswith("lockstep: ") and not _PROGRESS.match(line)}
    if _verdict(err):
        said.add("watch: " + _masked(_verdict(err)))
    verdict = _verdict(report.out) or " ".join((report.err or report.out).split())
    return said | {"report: " + _masked(verdict)}


def known():
    """By fault, each sentence with its mark."""
    sentences = collections.defaultdict(dict)
    fault = ""
    if os.path.exists(PATH):
        with open(PATH, encoding="utf-8") as file:
            for line in file.read().splitlines():
                if line.startswith("["):
                    fault = line[1:-1]
                elif line[:2] in ("= ", "~ "):
                    sentences[fault][line[2:]] = line[0]
    return sentences


def faults_of(sentences, listed):
    """What is said and not listed, and what is listed as always said and was not."""
    if not listed:
        return ["sentences.txt lists none: %s" % sorted(sentences)]
    return (["not in sentences.txt: %s" % one for one in sorted(sentences - set(listed))] +
            ["was not said: %s" % one for one in sorted(listed) if listed[one] == "=" and one not in sentences])


def update(seen, order):
    """Adds what was seen: lists of sets by section, which are sorted by `order`."""
    sentences = known()
    for fault, cases in seen.items():
        marks = sentences[fault]
        is_new = not marks
        for one in set(marks).union(*cases):
            is_always = all(one in case for case in cases) and (is_new or marks.get(one) == "=")
            marks[one] = "=" if is_always else "~"
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(_HEADER)
        for fault in sorted(sentences, key=order):
            file.write("\n[%s]\n" % fault)
            file.writelines("%s %s\n" % (mark, one) for one, mark in sorted(sentences[fault].items()))
