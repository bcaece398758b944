"""Checks the text of the documentation and of the program, for `./test.sh rules`: short sentences, and no turns of a dialect.

A sentence has fewer than 30 words. Code, tables and headings are not looked at. A list's item and a paragraph are
prose. A sentence ends with a full stop, a question mark, an exclamation mark, a colon at the end of its paragraph,
or with the paragraph.

TURNS are phrases that plain English does without. They count everywhere but in code and in the changelog. A line
of tests/turns.txt, `path count`, says how many a file has; a file that is not listed has none. A file with more
fails, and so does one with fewer, until its number there is lowered: numbers only fall.

In the source files of SOURCES, turns count in string literals and in the help texts: doc comments of types that clap
derives a parser from. Tests do not count.

Links between documents lead to files and headings that exist.

In comments turns count in all source files. A file has as many as tests/comment_turns.txt says, or none if it is not
listed; more fail, and so do fewer until the number is lowered. `python3 tests/prose.py --count` writes lower numbers,
and those of files that have moved, while the sum does not rise.
"""

import pathlib, re, sys

MOST_WORDS = 29
TURNS = re.compile(r"\b(what (is|was|are|were)|who (is|has)|so (many|long|much)|anew|of which|as far as|(is|are) to be|"
                   r"all the same|for good|that there (is|are)|as it does)\b".replace(" ", r"\s+"), re.IGNORECASE)

SOURCES = ("cli/src", "host/src", "page/src", "client/src", "csi/src", "core/src", "member/src", "net/src", "route/src",
           "front/src", "plan/src", "scenario/src", "load/src", "model/src", "sim/src/perf")
A_TEST = re.compile(r"(^|/|_)tests?(/|\.rs$)")
# A comment, a raw string, a string or a character; a doc comment of a parser is marked before.
TOKEN = re.compile(r"""//\x00[^\n]*|//[^\n]*|r#"[\s\S]*?"#|"(?:\\[\s\S]|[^"\\])*"|'(?:\\.|[^'\\])'""")
PARSER = re.compile(r"#\[derive\([^)]*\b(Args|Parser|Subcommand|ValueEnum)\b")

def paragraphs(text):
    """Paragraphs and items of lists with the line where each begins; without code, tables and headings."""
    begun, words, fenced = 0, [], False
    for number, line in enumerate(text.splitlines() + [""], 1):
        fence = line.lstrip().startswith("```")
        apart = fence or fenced or not line.strip() or re.match(r"\s*(\||#|    \S)", line) and not words
        item = re.match(r"\s*([-*]|\d+\.)\s", line)
        if (apart or item or re.match(r"\s*\|", line)) and words:
            yield begun, " ".join(words)
            words = []
        if fence:
            fenced = not fenced
        elif not apart and not re.match(r"\s*(\||#)", line):
            begun = begun if words else number
            words.append(re.sub(r"^\s*([-*]|\d+\.)\s+", "", line).strip())

def sentences(paragraph):
    # What is in backticks is one word, whatever stops are in it; so is a link.
    plain = re.sub(r"`[^`]*`", "code", paragraph)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    return re.split(r"(?<=[.?!])[\"')*]*\s+(?=[\"'(*]*[A-Z0-9c])", plain)

def long_sentences(path):
    for line, paragraph in paragraphs(path.read_text()):
        for sentence in sentences(paragraph):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MOST_WORDS:
                yield line, len(words), " ".join(sentence.split()[:8])

def blank(text):
    return re.sub(r"[^\n]", "_", text)

def program_text(source):
    """The string literals and help texts of a source file, on their lines; everything else is blanked."""
    source = re.sub(r"^#\[cfg\(test\)\]\nmod \w+ \{\n.*?^\}", lambda match: blank(match[0]), source, flags=re.MULTILINE | re.DOTALL)
    lines, parser = source.split("\n"), False
    for number, line in enumerate(lines):
        if PARSER.search(line):
            parser, above = True, number
            while above and lines[above - 1].startswith(("///", "#[")):
                above -= 1
            lines[above:number] = [above_it.replace("///", "//\0") for above_it in lines[above:number]]
        elif parser and line.startswith("}"):
            parser = False
        elif parser or line.startswith("///") and any(map(PARSER.search, lines[number:number + 4])):
            lines[number] = line.replace("///", "//\0", 1)
    out, end = [], 0
    source = "\n".join(lines)
    for token in TOKEN.finditer(source):
        out.append(blank(source[end:token.start()]))
        says = token[0].startswith(("//\0", '"', 'r#"'))
        # A string that goes on in the next line has a backslash at the end, and a help text slashes at the beginning.
        out.append(re.sub(r"\\\n", " \n", token[0]).replace("//\0", "   ") if says else blank(token[0]))
        end = token.end()
    return re.sub(r"\n_+(?=   )", lambda match: "\n" + " " * (len(match[0]) - 1), "".join(out))

def turns(path):
    """The lines on which turns begin; code is blanked, for its lines count."""
    if path.suffix == ".rs":
        text = program_text(path.read_text())
    else:
        code = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.MULTILINE | re.DOTALL)
        text = code.sub(lambda match: blank(match[0]), path.read_text())
    return [text.count("\n", 0, turn.start()) + 1 for turn in TURNS.finditer(text)]

def wrong_turns(paths):
    allowed = dict(line.split() for line in open("tests/turns.txt"))
    for path in paths:
        lines, most = turns(path), int(allowed.pop(str(path), 0))
        if len(lines) > most:
            yield f"{path}: {len(lines)} turns to avoid (tests/prose.py); at most {most}; on lines {', '.join(map(str, lines))}"
        elif len(lines) < most:
            yield f"{path}: {len(lines)} turns, and {most} allowed: lower the number in tests/turns.txt"
    yield from (f"tests/turns.txt: there is no {path}" for path in allowed)

def comment_turns(path):
    """The number of turns in a source file's comments; a comment of several lines is one text."""
    tokens = TOKEN.findall(path.read_text().replace("///", "//").replace("//!", "//"))
    return len(TURNS.findall(" ".join(token.removeprefix("//") for token in tokens if token.startswith("//"))))

COMMENT_TURNS = pathlib.Path("tests/comment_turns.txt")

def wrong_comments(rewrite):
    allowed = {path: int(most) for path, most in map(str.split, COMMENT_TURNS.read_text().splitlines())}
    sources = [path for path in sorted(pathlib.Path(".").rglob("*.rs")) if path.parts[0] != "target" and path.parts[:2] != ("fuzz", "target")]
    found = {str(path): comment_turns(path) for path in sources}
    # A file that has moved is not listed yet; the sum shows that it has no more than before.
    risen = any(count > allowed[path] for path, count in found.items() if path in allowed)
    if rewrite and not risen and sum(found.values()) <= sum(allowed.values()):
        COMMENT_TURNS.write_text("".join(f"{path} {count}\n" for path, count in found.items() if count))
        allowed = dict(found)
    for path, count in found.items():
        most = allowed.pop(path, 0)
        if count > most:
            yield f"{path}: {count} turns to avoid in comments (tests/prose.py); at most {most}"
        elif count < most:
            yield f"{path}: {count} turns in comments, and {most} allowed: run `python3 tests/prose.py --count`"
    yield from (f"{COMMENT_TURNS}: there is no {path}" for path in allowed)

FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)

def headings(text):
    """The anchors of a document's headings, as GitHub makes them."""
    found = re.findall(r"^#+ +(.*)$", FENCED.sub("", text), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in found]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}

def wrong_links(paths):
    for path in paths:
        for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", path.read_text())):
            name, _, anchor = target.partition("#")
            to = path.parent / name if name else path
            if re.match(r"[a-z]+:", target):
                continue
            if not to.exists():
                yield f"{path}: there is no {target}"
            elif anchor and anchor not in headings(to.read_text()):
                yield f"{path}: {to} has no heading for {target}"

def main():
    docs, others = sorted(pathlib.Path("docs").rglob("*.md")), [pathlib.Path(p) for p in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    bad = []
    for path in docs + others + [pathlib.Path("CHANGELOG.md")]:
        found = list(long_sentences(path))
        bad += [f"{path}:{line}: {words} words; at most {MOST_WORDS}: {begins} ..." for line, words, begins in found]
    sources = [path for folder in SOURCES for path in sorted(pathlib.Path(folder).rglob("*.rs")) if not A_TEST.search(str(path))]
    bad += wrong_turns(docs + others + sources)
    bad += wrong_links(docs + others + [pathlib.Path("CHANGELOG.md")])
    bad += wrong_comments("--count" in sys.argv)
    print("\n".join(bad) or f"sentences of the documentation have at most {MOST_WORDS} words, its links lead somewhere, and turns to avoid grow no more")
    sys.exit(bool(bad))

main()
