"""Prints the median latency of the reads of fio's first job, in microseconds.

Argument: the file of fio's results as JSON.
"""

import json, sys
text = open(sys.argv[1]).read()
# Notes come first.
read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
print(round(read["clat_ns"]["percentile"]["50.000000"] / 1000, 1))
