"""What can be seen in the code, for `./test.sh rules`.

Pure crates do no I/O, read no clock, start no thread and draw no random number that they were not
given; nothing is left undone; a module stands where its name says; the modules of a crate do not use one another in a
circle. Comments are not looked at, and for the first rule tests are not either. In scripts nothing is piped into what
leaves before all has come.
"""

import pathlib, re, sys

OUTSIDE = re.compile(r"std::(net|fs|thread)\b|\bInstant::now|\bSystemTime\b|\btokio\b|\bHashMap\b|\bHashSet\b|\b(fast)?rand\b")
UNDONE = re.compile(r"\b(todo|unimplemented)!\s*\(")
PURE = ("bytes", "core", "model", "load", "report", "member", "route", "plan")
# What a simulation draws from: a generator that was handed in, or made of a seed.
SEEDED = re.compile(r"\bfastrand::Rng\b(?!::new)")

def lines(path):
    """Lines without comments and literals; blocks under #[cfg(test)] are marked."""
    skip, depth, begun = False, 0, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        code = re.sub(r"//.*", "", code)
        if not skip and "#[cfg(test)]" in code:
            skip, depth, begun = True, 0, False
        yield number, line, code, skip
        if skip:
            depth += code.count("{") - code.count("}")
            begun = begun or "{" in code
            # The item ends with its block, or with a semicolon if it has none.
            if (begun and depth <= 0) or (not begun and code.rstrip().endswith(";")):
                skip = False

# A file has one subject.
MOST_LINES = 600

def modules(crate):
    """Each module of a crate that has a file or folder of its own, and those of them that it names after `crate::`."""
    uses = {}
    for path in sorted(pathlib.Path(crate, "src").rglob("*.rs")):
        parts = path.relative_to(pathlib.Path(crate, "src")).parts
        if re.search(r"test", "/".join(parts)):
            continue
        code = "\n".join("" if skip else code for _, _, code, skip in lines(path))
        named = uses.setdefault(parts[0].removesuffix(".rs"), set())
        for after in code.split("crate::")[1:]:
            names = re.split("[{,}]", after[1:after.index(";")]) if after.startswith("{") else [after]
            named.update(re.match(r"\s*(\w*)", name)[1] for name in names)
    own = uses.keys() - {"lib", "main"}
    return {module: (uses[module] & own) - {module} for module in sorted(own)}

def circles(uses):
    """The modules that use one another in a circle: those left when all are gone that use only such as are gone."""
    left = dict(uses)
    while gone := [module for module, used in left.items() if not used & left.keys()]:
        left = {module: used for module, used in left.items() if module not in gone}
    # What only uses a circle, and is used by nobody in it, is not in one.
    while gone := [module for module in left if not any(module in used for used in left.values())]:
        left = {module: used for module, used in left.items() if module not in gone}
    return sorted(left)

assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}) == ["b", "c"]

bad = []
for crate in ("bytes", "code", "core", "model", "load", "report", "net", "front", "client", "client-c", "member", "route", "sim", "host", "terminal", "trial", "scenario", "plan", "page", "csi", "cli", "fuzz"):
    if circle := circles(modules(crate)):
        bad.append(f"{crate}/src: modules use one another in a circle: {', '.join(circle)}; give what both need a file")
    for path in sorted(pathlib.Path(crate).rglob("*.rs")):
        a_test = re.search(r"(^|[/_])(tests?|reference)(/|\.rs$)", str(path))
        length = len(path.read_text().splitlines())
        if length > MOST_LINES:
            bad.append(f"{path}: {length} lines; at most {MOST_LINES}: give what has a name of its own a file")
        for number, line, code, skip in lines(path):
            if "#[path" in code:
                bad.append(f"{path}:{number}: a module stands in the folder of the one that has it, without #[path]")
            if UNDONE.search(code):
                bad.append(f"{path}:{number}: unfinished: {line.strip()}")
            if crate in ("model", "load", "plan"):
                code = SEEDED.sub("", code)
            if crate in PURE and f"{crate}/src" in str(path) and not skip and not a_test and OUTSIDE.search(code):
                bad.append(f"{path}:{number}: brings the outside world into a pure crate: {line.strip()}")
# What still writes to `grep -q` when it has left dies of that, now and then, and with pipefail the whole pipe has failed.
LEAVES_EARLY = re.compile(r"\|\s*grep\s+(?:-\S+\s+)*(?:-[a-zA-Z]*[qm]|--quiet|--max-count)")
assert LEAVES_EARLY.search("ldd x | grep -q y") and LEAVES_EARLY.search("ldd x | grep -i -xq y")
assert not LEAVES_EARLY.search("grep -q y x || ldd x | grep -c y")
for path in sorted(pathlib.Path(".").glob("*.sh")) + [p for d in ("tests", "packaging", "client-c") for p in sorted(pathlib.Path(d).rglob("*.sh"))]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if LEAVES_EARLY.search(line) and not line.lstrip().startswith("#"):
            bad.append(f"{path}:{number}: grep leaves before all has come; let it read on, by `grep ... >/dev/null`: {line.strip()}")

print("\n".join(bad) or "the pure crates are free of the outside world, nothing is left undone, files are where they belong, no modules use one another in a circle, and no script pipes into what leaves early")
sys.exit(bool(bad))
