"""A host of tests/bad_disks.sh. URI SECONDS DOES: no request may take longer, or fail.

`read` reads a little. `fill` writes all of the first 48 MiB, `write` parts of it, and both read them again; `check` reads all, `reads`
reads at random for 15 s. `watch FOR` reads all again and again for so many seconds. `press FOR` writes for as long; what is refused
since there is no free space has changed nothing, and is tried again.
What is expected is kept in a file beside the volume's socket.
"""

import errno, os, random, sys, time, urllib.parse

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

def compare(place, length):
    if timed(handle.pread, length, place) != expected[place : place + length]:
        sys.exit(f"at {place}: other bytes than were written")

def written(data, place):
    """Whether there was space for it."""
    try:
        timed(handle.pwrite, data, place)
    except nbd.Error as error:
        if error.errnum != errno.ENOSPC:
            raise
        return False
    return True

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
    end = time.monotonic() + float(sys.argv[4]) if does in ("watch", "press") else 0
    looks = done = refused = 0
    while does == "watch" and time.monotonic() < end:
        compare(looks * PIECE % SIZE, PIECE)
        looks += 1
        time.sleep(0.01)
    while does == "press" and time.monotonic() < end:
        data, place = chance.randbytes(chance.choice([4096, 65536])), chance.randrange(0, SIZE - PIECE, 4096)
        if written(data, place):
            expected[place : place + len(data)] = data
            done += 1
        else:
            refused += 1
            time.sleep(0.1)
        compare(place, len(data))
    if does == "press":
        print(f"{done} writes were done, {refused} were refused")
    for place in places if does in ("fill", "write") else []:
        data = chance.randbytes(PIECE if does == "fill" else chance.choice([4096, 65536, PIECE]))
        timed(handle.pwrite, data, place)
        expected[place : place + len(data)] = data
        compare(place, len(data))
    for place in range(0, SIZE, PIECE) if does == "check" else []:
        compare(place, PIECE)
    with open(path, "wb") as file:
        file.write(expected)
print(f"longest {longest:.2f} s")
if longest > most:
    sys.exit(f"a request took {longest:.2f} s, and {most} s are the most")
