"""A host of tests/bad_disks.sh. URI SECONDS DOES: no request may take longer, or fail.

`read` reads a little. `fill` writes all of the first 48 MiB, `write` parts of it, and both read them again; `check` reads all, `reads`
reads at random for 15 s.
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
elif does == "reads":
    # Small ones at random places, for a while: what most of them take is said.
    chance, took, end = random.Random(7), [], time.monotonic() + 15
    while time.monotonic() < end:
        begun = time.monotonic()
        handle.pread(4096, chance.randrange(0, SIZE, 4096))
        took.append(time.monotonic() - begun)
    took.sort()
    print(f"half of {len(took)} reads took {took[len(took) // 2] * 1e3:.2f} ms, 90 % {took[len(took) * 9 // 10] * 1e3:.2f} ms")
    if took[len(took) * 9 // 10] > 0.02:
        sys.exit("reads wait for the slow disk")
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
