"""Reads Markdown pages as GitHub does, and complains about those that it would not show as they are meant.

usage: validate_markdown.py MOST_BYTES PAGE...

cmark-gfm turns a page into HTML. All folds must be balanced and have a summary, tables must be tables of at
most 30 rows, and nothing may link, mention, show a picture or run. Diagrams must be in mermaid's grammar of
an xychart. Returns 77 (skipped) if Python's cmarkgfm is missing.
"""

import html.parser
import re
import sys

try:
    import cmarkgfm
    import cmarkgfm.cmark
except ImportError:
    print("skipped: Python's cmarkgfm is missing (Debian package python3-cmarkgfm)")
    sys.exit(77)

MOST_ROWS = 30
OWN = {"h2", "p", "strong", "b", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul", "li",
       "pre", "code", "br", "span"}
VOID = {"br"}
NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)"  # mermaid's lexer of xychart: no exponent
CHART = re.compile(r'xychart-beta\n  title "[\w ,-]*"\n  x-axis "step" \[[\w, ]+\]\n'
                   r'  y-axis "[\w ,-]*" %s --> %s\n  line \[%s(?:, %s)*\]\n' % ((NUMBER,) * 4))
MENTION = re.compile(r"(?<![\w`])@[A-Za-z0-9]|(?<!\w)#\d|\bGH-\d")


class Page(html.parser.HTMLParser):
    """Complaints about one page."""

    def __init__(self):
        super().__init__()
        self.complaints, self.open, self.rows, self.titles, self.charts = [], [], 0, 0, 0
        self.summaries, self.code, self.language = [], "", ""

    def handle_starttag(self, tag, attributes):
        if tag not in OWN:
            self.complaints.append("<%s> is not Lockstep's" % tag)
        if any(name not in ("align", "lang", "class", "open") for name, _ in attributes):
            self.complaints.append("<%s> has the attributes %s" % (tag, attributes))
        if tag in VOID:
            return
        self.open.append(tag)
        self.titles += tag == "h2"
        self.rows += tag == "tr"
        if tag == "table":
            self.rows = 0
        if tag == "details":
            self.summaries.append(0)
        if tag == "summary" and self.summaries:
            self.summaries[-1] += 1
        if tag in ("pre", "code"):
            self.code, self.language = "", dict(attributes).get("lang") or self.language

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.complaints.append("</%s> closes something else" % tag)
        if tag == "table" and self.rows - 1 > MOST_ROWS:
            self.complaints.append("a table has %d rows" % (self.rows - 1))
        if tag == "details" and (not self.summaries or self.summaries.pop() != 1):
            self.complaints.append("a fold has not one summary")
        if tag == "pre":
            if self.language == "mermaid":
                self.charts += 1
                if not CHART.fullmatch(self.code):
                    self.complaints.append("mermaid does not read %r" % self.code)
            self.language = ""

    def handle_data(self, data):
        if "code" in self.open or "pre" in self.open:
            self.code += data
        elif MENTION.search(data):
            self.complaints.append("somebody or something is mentioned: %r" % data[:200])

    def handle_comment(self, data):
        self.complaints.append("a hidden comment: %r" % data[:100])


def complaints_about(path, most_bytes):
    with open(path, "rb") as file:
        source = file.read()
    page = Page()
    if len(source) > most_bytes:
        page.complaints.append("it has %d bytes" % len(source))
    text = source.decode("utf-8")
    page.feed(cmarkgfm.github_flavored_markdown_to_html(text, options=cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE))
    page.close()
    if page.open:
        page.complaints.append("open at the end: %s" % page.open)
    if page.titles != 1:
        page.complaints.append("%d titles" % page.titles)
    return ["%s: %s" % (path, complaint) for complaint in page.complaints]


def main(most_bytes, *paths):
    complaints = [complaint for path in paths for complaint in complaints_about(path, int(most_bytes))]
    print("\n".join(complaints[:50]) or "valid")
    return 1 if complaints else 0


sys.exit(main(*sys.argv[1:]))
