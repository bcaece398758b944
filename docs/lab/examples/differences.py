#!/usr/bin/env python3
"""Compares two designs of a sweep, run by run: the n-th runs of two points have met the same requests.

    weft sim tickertaip/commit --out results
    python3 docs/lab/examples/differences.py results volume.commit none late

It takes the directory that `weft sim --out` has written, a key, and two of its values. Nothing but Python is needed;
`pandas.read_csv("results/results.csv")` and `pandas.DataFrame(points(directory))` read the same into frames.
"""

import json
import math
import pathlib
import statistics
import sys


def points(directory):
    """Each point as one flat dictionary: the values of the axes, the metrics, and `runs`."""
    results = json.loads((pathlib.Path(directory) / "results.json").read_text())["results"]
    return [{**row["point"], **{k: v for k, v in row.items() if k != "point"}} for row in results]


def axes(directory):
    """The keys that tell points apart."""
    results = json.loads((pathlib.Path(directory) / "results.json").read_text())["results"]
    return list(results[0]["point"])


def pairs(directory, key, first, second):
    """Points that differ in nothing but this key."""
    others = [axis for axis in axes(directory) if axis != key]
    place = lambda point: tuple(str(point[axis]) for axis in others)
    having = lambda value: {place(p): p for p in points(directory) if str(p[key]) == value}
    a, b = having(first), having(second)
    return others, [(at, a[at], b[at]) for at in a if at in b]


def difference(a, b, metric):
    """The mean of the differences of runs, and their standard error."""
    each = [y[metric] - x[metric] for x, y in zip(a["runs"], b["runs"], strict=True)]
    error = statistics.stdev(each) / math.sqrt(len(each)) if len(each) > 1 else math.nan
    return statistics.mean(each), error


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    directory, key, first, second = sys.argv[1:]
    others, found = pairs(directory, key, first, second)
    if not found:
        sys.exit(f"no two points differ only in {key} = {first} and {second}; there are the keys {', '.join(axes(directory))}")
    print(*others, f"response of {first} (ms)", f"{second} - {first} (ms)", "standard error", sep="\t")
    for at, a, b in found:
        mean, error = difference(a, b, "response_ms")
        print(*at, f"{a['response_ms']:.3f}", f"{mean:+.3f}", f"{error:.3f}", sep="\t")


if __name__ == "__main__":
    main()
