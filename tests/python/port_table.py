"""Prints what tests/ports.sh has measured, and whether it is as it should be.

Argument: the limit of a port. On standard input a line for each run: roles, read or write, size of requests, bytes at
the controller's port, bytes of payload, seconds. Of several runs of a kind the middle counts, of two the mean.
"""

import statistics, sys
runs = {}
for line in sys.stdin:
    roles, way, size, port, moved, seconds = line.split()
    rate, share = float(moved) / float(seconds) / 1e6, float(port) / float(moved)
    runs.setdefault((size, way, roles), []).append((rate, share))
middle = lambda key, of: statistics.median(run[of] for run in runs[key])
LEAST = {("1m", "read"): 3.0, ("1m", "write"): 2.2}
MOST = {"1m": 0.02, "64k": 0.05}
missed = []
print(f"ports of {sys.argv[1]}, five targets, four hosts\n")
print("| requests | | controller, MB/s | central, MB/s | ratio | at the controller's port | central |")
print("|---|---|---|---|---|---|---|")
for size, way in [(s, w) for s in ("1m", "64k") for w in ("read", "write")]:
    ours, central = [middle((size, way, roles), 0) for roles in ("controller", "central")]
    share, through = [middle((size, way, roles), 1) for roles in ("controller", "central")]
    print(f"| {size} | {way}s | {ours:.1f} | {central:.1f} | {ours / central:.2f} | {share:.2%} | {through:.0%} |")
    if ours / central < LEAST.get((size, way), 0):
        missed.append(f"{way}s of {size}: {ours / central:.2f} times central's, and {LEAST[size, way]} is wanted")
    if share > MOST[size]:
        missed.append(f"{way}s of {size}: {share:.2%} of the payload at the controller's port, and {MOST[size]:.0%} is the most")
print()
print("\n".join(missed) or "all as wanted")
sys.exit(bool(missed))
