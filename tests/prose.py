"""Finds sentences of 30 words and more in the documentation, for `./test.sh rules`.

Code, tables and headings are not looked at. A list's item and a paragraph are prose. A sentence ends
with a full stop, a question mark, an exclamation mark, a colon at the end of its paragraph, or with
the paragraph.
"""

import pathlib, re, sys

MOST_WORDS = 29

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

def main():
    files = sorted(pathlib.Path("docs").glob("*.md")) + [pathlib.Path(p) for p in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    bad = []
    for path in files:
        found = list(long_sentences(path))
        bad += [f"{path}:{line}: {words} words; at most {MOST_WORDS}: {begins} ..." for line, words, begins in found]
    print("\n".join(bad) or f"sentences of the documentation have at most {MOST_WORDS} words")
    sys.exit(bool(bad))

main()
