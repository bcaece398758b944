"""Plays a section of docs/use/runbook.md: runs its commands and compares what they say.

Usage: runbook.py PAGE SECTION [FROM=TO]...   plays the blocks of a section, with these words replaced
       runbook.py PAGE                        lists the sections that have commands

In a block, a line that begins with `box3$ ` or `box3# ` is a command. Lines after it are what it says, in this order:
`...` stands for anything. A command that looks (`weft status`) is run until it says that, for LIMIT seconds; any other once.
`weft1-...` is the token that was issued last. A command runs by `ON box3 bash -c COMMAND`, where ON is a program that the
environment names. In what comes in place of a word, BOX is the machine's name.
"""

import os, re, subprocess, sys, time

ON = os.environ.get("ON")
LIMIT = int(os.environ.get("LIMIT", "60"))
COMMAND = re.compile(r"^\s*(box\d)[$#] (.*)$")

def sections(page):
    """The commands of each section, each with its machine and the lines that it is to say."""
    found, title, fenced = {}, None, False
    for line in open(page).read().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and re.match("##+ ", line):
            title = line.lstrip("#").strip()
        elif fenced and (command := COMMAND.match(line)):
            found.setdefault(title, []).append((command[1], command[2].strip(), []))
        elif fenced and line.strip():
            found[title][-1][2].append(line.strip())
    return found

def says(output, expected):
    """Whether a text has these lines in this order, perhaps with others between."""
    lines = iter(output.splitlines())
    pattern = lambda line: ".*".join(re.escape(part) for part in line.split("..."))
    return all(any(re.search(pattern(line), said) for said in lines) for line in expected)

def play(box, command, expected, token):
    end = time.monotonic() + LIMIT
    looks = command.startswith("weft status")
    while True:
        done = subprocess.run([ON, box, "bash", "-c", command.replace("weft1-...", token)], capture_output=True, text=True, timeout=5 * LIMIT)
        said = done.stdout + done.stderr
        # What only looks may fail to say that all is well.
        if says(said, expected) and (looks or done.returncode == 0):
            return said
        if not looks or time.monotonic() > end:
            sys.exit(f"`{command}` ended with {done.returncode} and was to say\n" + "\n".join(expected) + f"\nbut said\n{said}")
        time.sleep(0.2)

def main(page, section=None, *words):
    found = sections(page)
    if section is None:
        return print("\n".join(found))
    token = ""
    for box, command, expected in found[section]:
        for word in words:
            what, by = word.split("=", 1)
            command = command.replace(what, by.replace("BOX", box))
        print(f"{box}$", command, flush=True)
        said = play(box, command, expected, token)
        print(said, flush=True)
        token = next(iter(re.findall(r"weft1-\S+", said)), token)

main(*sys.argv[1:])
