"""What has grown too large, for `./test.sh rules`.

A struct has at most 16 fields, and at most two of them are bools; the methods of a type stand in at most three files; a
function that is no table has at most 70 lines. What is larger is listed in tests/sizes.txt with its size, which may only
fall: `python3 tests/sizes.py write` records what has become smaller. Tests and examples are not looked at.
"""

import collections, pathlib, re, sys

MOST = {"fields": 16, "bools": 2, "files": 3, "lines": 70}
LIST = pathlib.Path("tests/sizes.txt")
TEST = re.compile(r"(^|[/_])(tests?|benches|examples|reference|proptests?)(/|\.rs$|_)|_tests(/|\.rs)")
TOKEN = re.compile(
    r"""//[^\n]*|/\*[\s\S]*?\*/|b?r(#+)"[\s\S]*?"\1|b?r"[^"]*"|b?"(?:\\[\s\S]|[^"\\])*"|b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])'"""
)
CLOSING = {"{": "}", "(": ")", "[": "]"}

def blank(text):
    return re.sub(r"[^\n]", " ", text)

def end_of_block(code, start):
    """Behind the block that opens there."""
    opening, closing, depth = code[start], CLOSING[code[start]], 0
    for at in range(start, len(code)):
        depth += (code[at] == opening) - (code[at] == closing)
        if depth == 0:
            return at + 1
    return len(code)

def production(source):
    """The code without comments, literals and what is for tests alone; all lines stay."""
    code = TOKEN.sub(lambda found: blank(found[0]), source)
    for found in reversed(list(re.finditer(r"#\[cfg\((?:all\()?test\b[^\]]*\]", code))):
        body = re.compile(r"[{;]").search(code, found.end())
        if body:
            end = end_of_block(code, body.start()) if body[0] == "{" else body.end()
            code = code[: found.start()] + blank(code[found.start() : end]) + code[end:]
    return code

def fields(body):
    """The fields of a struct, without attributes."""
    body = re.sub(r"#\[[^\]]*(\[[^\]]*\][^\]]*)*\]", "", body)
    out, depth, field = [], 0, ""
    for at, letter in enumerate(body):
        arrow = letter == ">" and body[at - 1 : at] in ("-", "=")
        depth += (letter in "([{<") - (letter in ")]}" or (letter == ">" and not arrow))
        if letter == "," and depth == 0:
            out.append(field)
            field = ""
        else:
            field += letter
    return [field.strip() for field in [*out, field] if field.strip()]

def structs(code):
    for found in re.finditer(r"\bstruct\s+(\w+)\s*(<[^{;(]*>)?(\s*where[^{;]*)?\s*\{", code):
        yield found[1], fields(code[found.end() : end_of_block(code, found.end() - 1) - 1])

def inherent(code):
    """The types that have methods of their own here."""
    for found in re.finditer(r"^[ \t]*(?:unsafe )?impl\b\s*(?:<(?:[^<>]|<[^<>]*>)*>)?\s*([^{;]*?)\{", code, re.M):
        head = found[1].split(" where ")[0]
        if " for " not in head:
            yield re.sub(r"<.*", "", head, flags=re.S).split("::")[-1].strip("& \n")

def functions(code):
    for found in re.finditer(r"\bfn\s+(\w+)", code):
        at, depth = found.end(), 0
        while at < len(code) and not (depth == 0 and code[at] in "{;"):
            depth += (code[at] in "([") - (code[at] in ")]")
            at += 1
        if at < len(code) and code[at] == "{":
            yield found[1], code.count("\n", found.start(), end_of_block(code, at)) + 1

def measured():
    """What is too large: by kind, place and name, how large."""
    sizes, places = {}, collections.defaultdict(set)
    for path in sorted(pathlib.Path().glob("*/src/**/*.rs")):
        if TEST.search(str(path)):
            continue
        code = production(path.read_text())
        found = [("lines", *function) for function in functions(code)]
        for name, own in structs(code):
            bools = sum(bool(re.search(r":\s*bool$", field)) for field in own)
            found += [("fields", name, len(own)), ("bools", name, bools)]
        for kind, name, size in found:
            if size > MOST[kind]:
                key = (kind, str(path), name)
                sizes[key] = max(size, sizes.get(key, 0))
        for name in inherent(code):
            places[path.parts[0], name].add(path)
    for (crate, name), paths in places.items():
        if len(paths) > MOST["files"]:
            sizes["files", crate, name] = len(paths)
    return sizes

def listed():
    lines = (line.split() for line in LIST.read_text().splitlines())
    return {(kind, place, name): int(size) for kind, place, name, size in lines}

def wrong(sizes, known):
    for key in sorted(sizes.keys() | known.keys()):
        kind, place, name = key
        size, before = sizes.get(key, 0), known.get(key, 0)
        if size > max(before, MOST[kind]):
            yield f"{place}: {name} has {size} {kind}, and may have {max(before, MOST[kind])}"
        elif size < before:
            yield f"{place}: {name} has become smaller: record it with `python3 tests/sizes.py write`"

if __name__ == "__main__":
    sizes = measured()
    if sys.argv[1:] == ["write"]:
        LIST.write_text("".join(f"{' '.join(key)} {size}\n" for key, size in sorted(sizes.items())))
    errors = list(wrong(sizes, listed()))
    print("\n".join(errors) or f"{len(sizes)} things are larger than they should be, none has grown")
    sys.exit(bool(errors))
