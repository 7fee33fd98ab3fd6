# SPDX-License-Identifier: LGPL-2.1-or-later
"""Extracts prose from the files of the project, for tests/check-style.

passages(path, text) yields a Passage for each paragraph of a comment, a document or a docstring,
for each message in a string and for each name of a test. The lines of a paragraph are joined. Code
is omitted, but code within a sentence becomes the word CODE.
"""

import ast
import html
import io
import os
import re
import tokenize

C_SUFFIXES = (".c", ".h", ".cl", ".cu", ".vala", ".js", ".supp.c")
MARKDOWN = (".md",)
PLAIN = ("README", "NEWS", "control")
MIN_WORDS = 3                 # minimum length of a message in words

CODE = "CODE"
WORD = re.compile(r"[A-Za-z]{2,}")
TEST_NAME = re.compile(r"/[a-z0-9]+(?:[/-][a-z0-9]+)*$")
LOOKS_LIKE_CODE = re.compile(r"[;{}]\s*(\\n|\n|$)|__kernel|__global|#include|^\s*//|=>|\(\) *\{")
INLINE_CODE = re.compile(r"``[^`]+``|`[^`\n]+`|\$\([^)]*\)|\|\[.*?\]\|", re.S)


class Passage:
    """Text from several lines, joined by blanks."""

    def __init__(self, kind, lines):
        self.kind = kind
        self.starts = []
        text = ""
        for number, line in lines:
            line = INLINE_CODE.sub(CODE, line.strip())
            if line:
                text += " " if text else ""
                self.starts.append((len(text), number))
                text += line
        self.text = text

    def line(self, offset):
        """Returns the line number at an offset of the text."""
        return max((start, number) for start, number in self.starts if start <= offset)[1]

    def sentence(self, offset):
        ends = [0] + [m.end() for m in re.finditer(r"[.!?](?=\s)\s+", self.text)]
        start = max(end for end in ends if end <= offset)
        return self.text[start:min((e for e in ends if e > offset), default=None)].strip()


def number_lines(text, first=1):
    return list(enumerate(text.split("\n"), first))


def split_paragraphs(kind, lines, is_break=lambda line: False, is_over=lambda line: False):
    """Yields paragraphs. A paragraph ends at a blank line, before a line that begins a new
    paragraph, and after a line that always ends one."""
    part = []
    for number, line in [*lines, (0, "")]:
        if (not line.strip() or is_break(line)) and part:
            passage = Passage(kind, part)
            if passage.text:
                yield passage
            part = []
        if line.strip():
            part.append((number, line))
            if is_over(line):
                yield Passage(kind, part)
                part = []


# --- C, Vala, JavaScript ---

C_TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\""""
                     r"|`(?:\\.|[^`\\])*`", re.S)
DOC_BREAK = re.compile(r"@\w+:|@\.\.\.:|\w+:$|(Returns|Since|Deprecated|Return value|Stability):|"
                       r"[-*+] |\d+\. |SECTION:|#+ |<\w+|\||[A-Z]\w*:\w+: ")
BETWEEN_STRINGS = re.compile(r"[\s\\]*(?:[A-Z_]*(?:FORMAT|MODIFIER|PRI\w+)[\s\\]*)?$")
BLANK_STAR = re.compile(r"^\s*\*+(?=\s|$)|^\s*(/\*+<?|//+)|\*+/\s*$")
DOC_CODE = re.compile(r"\|\[.*?\]\||<programlisting>.*?</programlisting>", re.S)


def blank_out(match):
    """Returns only the newlines of the text."""
    return "\n" * match.group().count("\n")


def unquote(literal):
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": " "}.get(m.group(1), m.group(1)),
                  literal[1:-1], flags=re.S)


def c_comment(first, text):
    text = DOC_CODE.sub(blank_out, text)
    lines = [(number, BLANK_STAR.sub("", BLANK_STAR.sub("", line)))
             for number, line in number_lines(text, first)]
    kind = "gtk-doc" if text.startswith("/**") else "comment"
    yield from split_paragraphs(kind, lines, lambda line: DOC_BREAK.match(line.strip()))


def c_passages(path, text):
    """Yields comments, with adjacent // comments joined, and strings."""
    comment, strings, end = [], [], 0
    for match in C_TOKEN.finditer(text):
        token, first = match.group(), text.count("\n", 0, match.start()) + 1
        between, end = text[end:match.start()], match.end()
        is_line = token.startswith("//")
        if comment and not (is_line and between.strip(" \t") == "\n"):
            yield from split_paragraphs("comment", comment)
            comment = []
        if strings and (token[0] != '"' or not BETWEEN_STRINGS.match(between)):
            yield from message_passages(strings)
            strings = []
        if is_line:
            comment.append((first, token.lstrip("/!")))
        elif token.startswith("/*"):
            yield from c_comment(first, token)
        elif token[0] == '"' or path.endswith(".js"):
            strings.append((first, unquote(token)))
    yield from split_paragraphs("comment", comment)
    yield from message_passages(strings)


def message_passages(strings):
    """Classifies adjacent literals: a message, a test name, or code."""
    whole = "".join(text for _, text in strings)
    if TEST_NAME.match(whole):
        yield Passage("test name", [(strings[0][0], re.sub("[/-]+", " ", whole))])
    if not is_message(whole):
        return
    lines, goes_over = [], False
    for number, text in strings:
        pieces = text.split("\n")
        for index, piece in enumerate(pieces):
            if index:
                lines.append((number, ""))
            elif goes_over:          # a word that is split over two literals
                number_before, before = lines.pop()
                piece = before + piece
                number = number_before
            lines.append((number, piece))
        goes_over = bool(pieces[-1]) and not pieces[-1][-1].isspace()
    yield from split_paragraphs("message", lines)


def is_message(text):
    words = [word for word in text.split() if WORD.search(word)]
    return len(words) >= MIN_WORDS and not LOOKS_LIKE_CODE.search(text)


# --- Python ---

def python_strings(text):
    """Yields for every string its first line, its text with CODE for formatted values, and whether
    it is a long string."""
    tree, lines = ast.parse(text), text.split("\n")
    inner = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
             for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if node in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else CODE for part in node.values]
            yield node.lineno, "".join(parts), False
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, '"""' in lines[node.lineno - 1]


def python_passages(path, text):
    comment = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[:token.start[1]].strip()
            if comment and (comment[-1][0] != token.start[0] - 1 or not alone):
                yield from split_paragraphs("comment", comment, is_list_item)
                comment = []
            comment.append((token.start[0], token.string.lstrip("#!:")))
    yield from split_paragraphs("comment", comment, is_list_item)
    for first, string, is_long in python_strings(text):
        if is_long:
            if not LOOKS_LIKE_CODE.search(string):
                yield from split_paragraphs("docstring", number_lines(string, first), is_list_item)
        else:
            yield from message_passages([(first, string)])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Passage("test name", [(node.lineno, node.name.replace("_", " "))])


# --- Scripts, lists, documents ---

def is_list_item(line):
    return bool(re.match(r"\s*([-*+•] |\d+\. |\|)", line))


def script_passages(path, text):
    """Yields comments, and text in quotation marks or brackets, of shell scripts, makefiles, m4
    files and tables."""
    comment = []
    mark = re.compile(r"(?:^|\s)(?:#+|dnl\b)(?!\{)(.*)")
    for number, line in number_lines(text):
        found = mark.search(line) if not re.search(r"[\"'][^\"']*#[^\"']*[\"']", line) else None
        alone = found and not line[:found.start()].strip()
        if comment and not alone:
            yield from split_paragraphs("comment", comment, is_list_item)
            comment = []
        if found:
            comment.append((number, found.group(1)))
        elif not line.strip().startswith(("#", "dnl")):
            for quoted in re.findall(r'"([^"]*)"|\[([^\[\]]*)\]|\'([^\']*)\'', line):
                quoted = "".join(quoted)
                if is_message(quoted):
                    yield Passage("message", [(number, quoted)])
    yield from split_paragraphs("comment", comment, is_list_item)


def mutant_passages(path, text):
    """Yields comments, and the titles of the mutants."""
    lines = number_lines(text)
    yield from split_paragraphs("comment", [
        (number, line.lstrip("# ") if line.startswith("#") else "") for number, line in lines])
    for number, line in lines:
        title = re.match(r"[\w-]+: (.*)", line)
        if title:
            yield Passage("message", [(number, title.group(1))])


def markdown_passages(path, text):
    lines, fence = [], None
    for number, line in number_lines(text):
        mark = re.match(r"\s*(```|~~~)", line)
        if mark:
            if fence and fence[0] and fence[2:]:
                yield from fenced_comments(fence)
            fence = None if fence else [bool(re.search("py|^```$|c$|sh", line.strip())), "", ]
            line = ""
        elif fence is not None:
            fence.append((number, line))
            line = ""
        elif re.match(r" {4,}(?![-*+] |\d+\. )", line) and not (lines and lines[-1][1].strip()):
            line = ""
        lines.append((number, line))
    yield from split_paragraphs(
        "document", lines, lambda line: is_list_item(line) or re.match(r"\s*(#|>)", line),
        lambda line: re.match(r"\s*#", line))


def fenced_comments(fence):
    """Yields comments in a code block of a document."""
    part = []
    for number, line in fence[2:]:
        found = re.search(r"(?:^|\s)(?:#|//)\s(.*)", line)
        if part and not (found and not line[:found.start()].strip()):
            yield from split_paragraphs("comment", part)
            part = []
        if found:
            part.append((number, found.group(1)))
    yield from split_paragraphs("comment", part)


XML_CODE = re.compile(r"<(programlisting|screen|literallayout|synopsis)\b.*?</\1>|<!DOCTYPE.*?>\s*"
                      r"|<\?.*?\?>", re.S)
XML_BLOCK = re.compile(r"</?(para|title|subtitle|section|chapter|listitem|entry|row|term|simpara|"
                       r"itemizedlist|variablelist|varlistentry|table|member|description|"
                       r"bridgehead)\b[^>]*>")
XML_INLINE = re.compile(r"<(code|function|type|parameter|literal|filename|command|envar|constant|"
                        r"structname|classname|option|varname|replaceable)\b[^>]*>.*?</\1>", re.S)


def xml_passages(path, text):
    text = XML_CODE.sub(blank_out, text)
    text = XML_INLINE.sub(lambda m: CODE + blank_out(m), text)
    text = text.replace("<!--", "\0").replace("-->", "\0")
    text = XML_BLOCK.sub(lambda m: "\0" + blank_out(m), text)
    text = html.unescape(re.sub(r"<[^>]*>", blank_out, text))
    lines = []
    for number, line in number_lines(text):
        for index, piece in enumerate(line.split("\0")):
            if index:
                lines.append((number, ""))
            lines.append((number, piece))
    yield from split_paragraphs("document", lines)


def man_passages(path, text):
    lines = []
    for number, line in number_lines(text):
        line = re.sub(r"\\f.|\\&", "", line).replace("\\-", "-")
        macro = re.match(r"\.(\w+|\\\")\s*(.*)", line)
        if macro and macro.group(1) in ("B", "I", "BR", "RB", "IR", "RI"):
            line = macro.group(2)
        elif macro:
            lines.append((number, ""))
            line = macro.group(2) if macro.group(1) in ("SH", "SS") else ""
        lines.append((number, line))
    yield from split_paragraphs("document", lines)


def plain_passages(path, text):
    yield from split_paragraphs("document", number_lines(text),
                                lambda line: re.match(r"\s*([-*+] |[A-Z][\w-]+: )", line))


def is_python(path, text):
    return path.endswith((".py", ".pyi")) or re.match(r"#!.*python", text)


def passages(path, text):
    name = os.path.basename(path)
    if is_python(path, text):
        find = python_passages
    elif path.endswith(C_SUFFIXES) or name.endswith((".c.in", ".h.in")):
        find = c_passages
    elif path.endswith(MARKDOWN) or name == "README":
        find = markdown_passages
    elif path.endswith(".xml"):
        find = xml_passages
    elif re.search(r"\.\d$", path):
        find = man_passages
    elif name in PLAIN:
        find = plain_passages
    elif name == "mutants":
        find = mutant_passages
    else:
        find = script_passages
    for passage in find(path, text):
        if passage.text:
            yield passage
