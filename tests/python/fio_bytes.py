"""Prints the bytes that fio's jobs moved together, and the seconds that they took.

Arguments: files of fio's results as JSON, of jobs that ran at the same time.
"""

import json, sys
moved, seconds = 0, 0.0
for name in sys.argv[1:]:
    text = open(name).read()
    # Notes come first.
    for job in json.loads(text[text.index("{"):])["jobs"]:
        for way in ("read", "write"):
            moved += job[way]["io_bytes"]
            seconds = max(seconds, job[way]["runtime"] / 1000)
print(moved, seconds)
