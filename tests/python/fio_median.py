"""Prints the median latency of the reads of fio's first job, in microseconds.

Argument: the file of fio's results as JSON.
"""

import json, sys
read = json.load(open(sys.argv[1]))["jobs"][0]["read"]
print(round(read["clat_ns"]["percentile"]["50.000000"] / 1000, 1))
