"""Whether all packages have permissive licences, for `./test.sh licences`.

Reads what `cargo metadata` prints from standard input.
"""

import json, re, sys
GOOD = {"MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "Zlib",
        "Unicode-3.0", "Unlicense", "CC0-1.0"}

def allows(text):
    """Whether an SPDX expression can be met with permissive licences alone."""
    tokens = re.findall(r"[()]|[\w.+-]+", text.replace("/", " OR "))
    at = 0
    def term():
        nonlocal at
        token = tokens[at]; at += 1
        if token == "(":
            good = either(); at += 1
            return good
        good = token in GOOD
        if at < len(tokens) and tokens[at] == "WITH":
            at += 2
        return good
    def both():
        nonlocal at
        good = term()
        while at < len(tokens) and tokens[at] == "AND":
            at += 1; good = term() and good
        return good
    def either():
        nonlocal at
        good = both()
        while at < len(tokens) and tokens[at] == "OR":
            at += 1; good = both() or good
        return good
    return bool(tokens) and either()

packages = json.load(sys.stdin)["packages"]
bad = ["%s %s: %s" % (p["name"], p["version"], p["license"]) for p in packages if not allows(p["license"] or "")]
print(len(packages), "packages, all with permissive licences" if not bad else "packages; not permissive: " + "; ".join(bad))
sys.exit(bool(bad))
