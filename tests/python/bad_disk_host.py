"""A host of tests/bad_disks.sh. URI SECONDS DOES: no request may take longer, or fail.

`read` reads a little. `fill` writes all of the first 48 MiB, `write` parts of it, and both read them again; `check` reads all.
What is expected is kept in a file beside the volume's socket.
"""

import os, random, sys, time, urllib.parse

import nbd

SIZE, PIECE = 48 << 20, 1 << 20
uri, most, does = sys.argv[1], float(sys.argv[2]), sys.argv[3]
parts = urllib.parse.urlparse(uri)
path = urllib.parse.parse_qs(parts.query)["socket"][0] + parts.path.replace("/", ".") + ".expected"
longest = 0.0

def timed(what, *arguments):
    global longest
    begun = time.monotonic()
    result = what(*arguments)
    longest = max(longest, time.monotonic() - begun)
    return result

handle = nbd.NBD()
handle.connect_uri(uri)
if does == "read":
    timed(handle.pread, 4096, 0)
else:
    old = open(path, "rb").read() if os.path.exists(path) else bytes(SIZE)
    expected = bytearray(old)
    chance = random.Random(len(os.listdir(os.path.dirname(path))) + time.monotonic_ns())
    places = range(0, SIZE, PIECE) if does == "fill" else chance.sample(range(0, SIZE - PIECE, 4096), 24)
    for place in [] if does == "check" else places:
        data = chance.randbytes(PIECE if does == "fill" else chance.choice([4096, 65536, PIECE]))
        timed(handle.pwrite, data, place)
        expected[place : place + len(data)] = data
        if timed(handle.pread, len(data), place) != data:
            sys.exit(f"at {place}: other bytes than were written")
    for place in range(0, SIZE, PIECE) if does == "check" else []:
        if timed(handle.pread, PIECE, place) != expected[place : place + PIECE]:
            sys.exit(f"at {place}: other bytes than were written")
    with open(path, "wb") as file:
        file.write(expected)
print(f"longest {longest:.2f} s")
if longest > most:
    sys.exit(f"a request took {longest:.2f} s, and {most} s are the most")
