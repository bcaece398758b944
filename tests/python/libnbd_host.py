"""A host with libnbd that goes to the next address when its own is gone, and asks again what was not answered.

Arguments: a file to make after half of the writes, the URIs.
"""

import nbd, os, random, sys, time
half, uris = sys.argv[1], sys.argv[2:]

class Volume:
    """One of several addresses, and the next when it is gone."""
    def __init__(self, uris):
        self.uris, self.at, self.handle, self.moves = uris, 0, None, 0
    def connected(self):
        while self.handle is None:
            try:
                handle = nbd.NBD()
                handle.connect_uri(self.uris[self.at])
                self.handle = handle
            except nbd.Error:
                self.next()
                time.sleep(0.02)
        return self.handle
    def next(self):
        self.handle, self.at, self.moves = None, (self.at + 1) % len(self.uris), self.moves + 1
    def ask(self, what):
        while True:
            handle = self.connected()
            try:
                return what(handle)
            except nbd.Error:
                if not (handle.aio_is_dead() or handle.aio_is_closed()):
                    raise        # an error that the volume answered with
                self.next()

volume, rng, blocks, longest, n = Volume(uris), random.Random(7), {}, 0, 0
# Until it has moved, and then as much again.
while n < 300 or volume.moves == 0:
    n += 1
    block = rng.randrange(1024)
    content, begun = rng.randbytes(4096), time.monotonic()
    volume.ask(lambda h: h.pwrite(content, block * 4096, nbd.CMD_FLAG_FUA))
    longest, blocks[block] = max(longest, time.monotonic() - begun), content
    if n == 150:
        open(half, "w").close()
for _ in range(300):
    block = rng.choice(sorted(blocks))
    content = rng.randbytes(4096)
    volume.ask(lambda h: h.pwrite(content, block * 4096, nbd.CMD_FLAG_FUA))
    blocks[block] = content
for block, content in blocks.items():
    assert volume.ask(lambda h: h.pread(4096, block * 4096)) == content, f"block {block}"
print(f"note: {n + 300} writes, {len(blocks)} blocks as written, {volume.moves} moves, the slowest took {longest:.2f} s")