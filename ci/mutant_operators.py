"""The operators of ci/mutants: small changes of a source in C++ or Python, of which its tests should see each one.

    comparison   < and <=, > and >=, == and != for each other
    constant     a number doubled or halved, 0 and 1 for each other, true and false for each other
    condition    && and || for each other, a condition of `if` or `while` negated, a negation left out
    boundary     a whole number, one more or one less
    statement    a call, an assignment, `break` or `continue` left out

Left alone are comments, strings, lines of the preprocessor, static_assert and, in headers, what is neither in a body
nor a constexpr. The sources are formatted: a comparison and an && between values have blanks on both sides, the
bracket of a template and the && of a type do not.
"""

import bisect
import hashlib
import io
import itertools
import keyword
import re
import tokenize
from typing import NamedTuple

CPP = re.compile(r"""
    (?P<skipped>  ^[ \t]*\#(?:\\\n|[^\n])* | \n | [^\S\n]+ | //[^\n]* | /\*.*?\*/
                | (?:u8|[uUL])?R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)"
                | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | [uUL]?'(?:\\.|[^'\\\n])+')
  | (?P<number>   \.?[0-9](?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<word>     [A-Za-z_]\w*)
  | (?P<mark>     <=> | <<= | >>= | \.\.\. | :: | -> | \+\+ | -- | && | \|\| | [<>=!+\-*/%&|^]= | << | >> | .)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
JUNCTIONS = {"&&": "||", "||": "&&", "and": "or", "or": "and"}
TRUTHS = {"true": "false", "false": "true", "True": "False", "False": "True"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--", "<<"}
NO_BODY = {"namespace", "class", "struct", "union", "enum"}
# What begins no call and no assignment.
KEYWORDS = {"return", "throw", "delete", "using", "case", "default", "new", "auto", "const", "static"} | set(
    keyword.kwlist)


class Token(NamedTuple):
    kind: str  # number, word or mark
    text: str
    begin: int
    end: int


class Mutant(NamedTuple):
    operator: str
    file: str
    line: int
    before: str  # the changed lines, joined
    after: str
    begin: int
    end: int
    text: str  # in place of what is from begin to end
    id: str

    def applied_to(self, text):
        return text[:self.begin] + self.text + text[self.end:]


class Source:
    """The tokens of a source. `end_of_statement` of Python is an empty ';' at the end of its line."""

    def __init__(self, file, text):
        self.file, self.text, self.is_python = file, text, file.endswith(".py")
        self.tokens = python_tokens(text) if self.is_python else without_static_asserts(cpp_tokens(text))
        self.in_body = [True] * len(self.tokens)
        self.statements = list(self.split())
        if file.endswith(".h"):
            self.in_body = [inside or "constexpr" in self.lines_of(token.begin, token.end)
                            for inside, token in zip(self.in_body, self.tokens)]

    def lines_of(self, begin, end):
        first = self.text.rfind("\n", 0, begin) + 1
        last = self.text.find("\n", end)
        return self.text[first:last if last >= 0 else len(self.text)]

    def is_spaced(self, token):
        return self.text[token.begin - 1].isspace() and self.text[token.end:token.end + 1].isspace()

    def split(self):
        """The tokens of each statement in a body, with its ';'. Tells in_body which tokens are in one."""
        begin, parentheses, outer = 0, 0, []
        is_body = self.is_python
        for index, token in enumerate(self.tokens):
            self.in_body[index] = is_body
            if token.text == "{":
                outer.append((begin if parentheses else None, parentheses, is_body))
                is_body = is_body or begins_body(self.tokens[begin:index])
                begin, parentheses = index + 1, 0
            elif token.text == "}" and outer:
                # A value in parentheses is part of the statement around it.
                before, parentheses, is_body = outer.pop()
                begin = index + 1 if before is None else before
            elif token.text in ("(", "["):
                parentheses += 1
            elif token.text in (")", "]"):
                parentheses -= 1
            elif token.text == ";" and not parentheses:
                if is_body:
                    yield self.tokens[begin:index + 1]
                begin = index + 1


def cpp_tokens(text):
    return [Token(found.lastgroup, found.group(), found.start(), found.end())
            for found in CPP.finditer(text) if found.lastgroup not in ("skipped", "delimiter")]


def python_tokens(text):
    starts = list(itertools.accumulate((len(line) for line in text.splitlines(True)), initial=0))
    kinds = {tokenize.NUMBER: "number", tokenize.NAME: "word", tokenize.OP: "mark"}
    tokens = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        begin = starts[token.start[0] - 1] + token.start[1]
        if token.type == tokenize.NEWLINE:
            tokens.append(Token("mark", ";", begin, begin))
        elif token.type in kinds:
            tokens.append(Token(kinds[token.type], token.string, begin, begin + len(token.string)))
    return tokens


def without_static_asserts(tokens):
    kept, is_inside = [], False
    for token in tokens:
        is_inside = is_inside and token.text != ";" or token.text == "static_assert"
        if not is_inside:
            kept.append(token)
    return kept


def begins_body(head):
    """Whether the braces after these tokens have statements in them, rather than declarations."""
    texts = {token.text for token in head}
    return "(" in texts or texts.isdisjoint(NO_BODY)


def closing(tokens, index):
    """The index of what closes the bracket at `index`."""
    depth = 0
    for at in range(index, len(tokens)):
        depth += (tokens[at].text in CLOSING) - (tokens[at].text in CLOSING.values())
        if depth == 0:
            return at
    return len(tokens) - 1


def comparisons(source):
    for before, token in zip(source.tokens, source.tokens[1:]):
        if token.text in COMPARISONS and before.text not in ("template", "operator") and source.is_spaced(token):
            yield token.begin, token.end, COMPARISONS[token.text]


def value_of(number):
    """None of one that is no decimal number, as of 0xff and 10j."""
    try:
        return float(re.sub("(?i)[ulfz]+$", "", number.replace("'", "").replace("_", "")))
    except ValueError:
        return None


def is_whole(number):
    return re.fullmatch(r"(?i)(0x[0-9a-f'_]+|[0-9'_]+)[ulz]*", number) is not None


def constants(source):
    for token in source.tokens:
        if token.text in TRUTHS:
            yield token.begin, token.end, TRUTHS[token.text]
        if token.kind != "number":
            continue
        if value_of(token.text) in (0, 1):
            yield token.begin, token.end, token.text.translate({ord("0"): "1", ord("1"): "0"})[:1] + token.text[1:]
        else:
            yield token.begin, token.end, "(2 * %s)" % token.text
            half = "(%s // 2)" if source.is_python and is_whole(token.text) else "(%s / 2)"
            yield token.begin, token.end, half % token.text


def boundaries(source):
    for token in source.tokens:
        if token.kind == "number" and is_whole(token.text):
            if value_of(token.text) != 0:  # it is a constant's, too
                yield token.begin, token.end, "(%s + 1)" % token.text
            if value_of(token.text) != 1:
                yield token.begin, token.end, "(%s - 1)" % token.text


def cpp_condition(source, index):
    """Where the condition of the `if` or `while` at `index` begins and ends; None of a declaration, and of an
    `if constexpr`."""
    tokens = source.tokens
    if tokens[index + 1].text != "(":
        return None
    end = closing(tokens, index + 1)
    begin = index + 2
    for at in range(begin, end):
        if tokens[at].text == ";":
            begin = at + 1
    if any(token.text == "=" for token in tokens[begin:end]):
        return None
    return tokens[begin].begin, tokens[end - 1].end


def python_condition(source, index):
    tokens = source.tokens
    if index and tokens[index - 1].text != ";":  # in an expression
        return None
    at = index + 1
    while tokens[at].text != ":":
        at = closing(tokens, at) + 1 if tokens[at].text in CLOSING else at + 1
    return tokens[index + 1].begin, tokens[at - 1].end


def negations_left_out(source):
    for before, token, after in zip([None, *source.tokens], source.tokens, source.tokens[1:]):
        if token.text == "!" or token.text == "not" and before.text != "is" and after.text != "in":
            yield token.begin, after.begin, ""


def conditions(source):
    for token in source.tokens:
        if token.text in JUNCTIONS and source.is_spaced(token):
            yield token.begin, token.end, JUNCTIONS[token.text]
    yield from negations_left_out(source)
    condition, negated = (python_condition, "not (%s)") if source.is_python else (cpp_condition, "!(%s)")
    for index, token in enumerate(source.tokens[:-1]):
        if token.text in ("if", "elif", "while"):
            found = condition(source, index)
            if found:
                yield *found, negated % source.text[slice(*found)]


def without_heads(statement):
    """What an `if`, a loop or an `else` without braces has as its only statement."""
    while statement[0].text in ("if", "for", "while", "else"):
        after = closing(statement, 1) + 1 if statement[0].text != "else" else 1
        statement = statement[after:]
        if not statement:
            break
    return statement


def is_droppable(statement):
    """Whether this is a call or an assignment: a path of names, calls and indices, then the end or an operator."""
    if not statement or statement[0].text in KEYWORDS:
        return len(statement) == 2 and statement[0].text in ("break", "continue")
    at = 1 if statement[0].text in ("++", "--", "*") else 0
    if statement[at].kind != "word":
        return False
    at += 1
    while statement[at].text in ("::", ".", "->", "(", "["):
        at = closing(statement, at) + 1 if statement[at].text in CLOSING else at + 2
        if at >= len(statement):
            return False
    if statement[at].text == ";":
        return statement[at - 1].text == ")" or statement[0].text in ("++", "--")
    return statement[at].text in ASSIGNMENTS


def statements(source):
    for statement in source.statements:
        dropped = statement if source.is_python else without_heads(statement)
        if is_droppable(dropped):
            yield dropped[0].begin, dropped[-1].begin, "pass" if source.is_python else ""


OPERATORS = {"comparison": comparisons, "constant": constants, "condition": conditions, "boundary": boundaries,
             "statement": statements}


def one_line(text):
    return " ".join(text.split())


def mutants_of(file, text):
    """All mutants of a source. The id of one stays as it is while its line does."""
    source = Source(file, text)
    begins = [token.begin for token in source.tokens]
    seen = {}
    for operator, changes in OPERATORS.items():
        for begin, end, new in changes(source):
            if not source.in_body[bisect.bisect_right(begins, begin) - 1] and file.endswith(".h"):
                continue
            lines = source.lines_of(begin, end)
            first = text.rfind("\n", 0, begin) + 1
            after = lines[:begin - first] + new + lines[end - first:]
            key = (operator, file, one_line(lines), one_line(after))
            seen[key] = seen.get(key, 0) + 1
            digest = hashlib.sha256(repr((key, seen[key])).encode()).hexdigest()[:8]
            yield Mutant(operator, file, text.count("\n", 0, begin) + 1, one_line(lines), one_line(after), begin, end,
                         new, digest)
