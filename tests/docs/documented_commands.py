"""The commands that documents show in code blocks, indented or fenced, and those that sentences name."""

import collections
import re

# `text` has the comment and the continuation lines; `block` is the number of the code block in its page.
Command = collections.namedtuple("Command", "page line block text")

# What a command begins with, after variables. A path counts if it leads to a program of the
# project or of an environment that a page makes.
PROGRAMS = ("apt-get", "cat", "cd", "cmake", "cp", "cpack", "ctest", "docker", "export", "git", "lockstep", "make", "mkdir", "mpirun",
            "pip", "pre-commit", "pytest", "python", "python3", "rm", "sbatch", "sed", "source", "srun", "sudo",
            "torchrun", "xargs")
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ +)*(?:(?:%s)(?= |$)|[A-Z_]+=\S+ \\$|(?:\./)?(?:ci|build|examples|peers|tests)/\S)"
                     % "|".join(PROGRAMS))
COMMANDS = ("list", "show", "run", "watch", "validate", "report", "diff", "compare", "explain", "runs", "pack", "doctor")
# Of a terminal session, and of a step in a workflow.
PROMPT = re.compile(r"\$ |(?:- )?run: (?!\|)")


def code_blocks(text):
    """The code blocks of a page: whether they are sessions with output, and their numbered lines."""
    blocks, fence, is_open, is_after_gap = [], None, False, True
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            fence = stripped[3:] if fence is None else None
            is_open = fence is not None
            if is_open:
                blocks.append((fence == "console", []))
        elif fence is not None:
            blocks[-1][1].append((number, line))
        elif line.startswith("    ") and stripped:
            if not is_open and is_after_gap:
                blocks.append((False, []))
                is_open = True
            if is_open:
                blocks[-1][1].append((number, stripped))
        elif stripped:
            is_open = False
        is_after_gap = not stripped
    return blocks


def commands_of(page, text):
    """Each command as it is written. A block that begins with `#!` is one command."""
    found = []
    for block, (is_session, lines) in enumerate(code_blocks(text)):
        if lines and lines[0][1].startswith("#!"):
            found.append(Command(page, lines[0][0], block, "\n".join(line for _, line in lines)))
            continue
        parts = []
        for number, line in lines:
            prompt = PROMPT.match(line)
            if not parts and not prompt and (is_session or not COMMAND.match(line)):
                continue
            if not parts:
                begin, line = number, line[prompt.end():] if prompt else line
            parts.append(line)
            if not line.endswith("\\"):
                found.append(Command(page, begin, block, "\n".join(parts)))
                parts = []
    return found


def commands_in_sentences(page, text):
    """What stands between backticks and begins with `lockstep`, one of its commands or a script of ci/."""
    in_blocks = {number for _, lines in code_blocks(text) for number, _ in lines}
    sentences = "\n".join("" if number in in_blocks or line.strip().startswith("```") else line
                          for number, line in enumerate(text.splitlines(), 1))
    return [Command(page, sentences.count("\n", 0, found.start()) + 1, None, " ".join(found[1].split()))
            for found in re.finditer(r"`([^`]+)`", sentences)
            if re.match(r"lockstep\s|ci/[\w-]+(\s|$)|(%s)\s(.*\s)?--" % "|".join(COMMANDS), found[1], re.DOTALL)]


def without_comment(text):
    """The command without what a shell takes for a comment: by this name a table lists it."""
    return re.sub(r"\s+", " ", re.sub(r"(?:^|\s)#(?!!).*", "", text.replace("\\\n", " "))).strip()


def cmake_files_of(text):
    """The CMake files that a page shows, by path: each begins with a comment that names it."""
    files, name = {}, None
    for _, lines in code_blocks(text):
        for _, line in lines:
            named = re.match(r"# ([\w/]*CMakeLists\.txt)", line)
            if named or COMMAND.match(line):
                name = named and named[1]
            if name:
                files[name] = files.get(name, "") + line + "\n"
        name = None
    return files
