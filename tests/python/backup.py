"""An incremental backup by NBD: copies the parts of a volume that block status names into a file, and prints how many
bytes that were.

Arguments: the URI, the metadata context, the file.
"""

import nbd, sys

uri, context, path = sys.argv[1:]
handle = nbd.NBD()
handle.add_meta_context(context)
handle.connect_uri(uri)
assert handle.can_meta_context(context), f"{context} is not offered"
size, at, wanted = handle.get_size(), 0, []


def take(name, offset, entries, error):
    """Lengths and flags: 1 is a hole of the allocation, and what has changed in a bitmap."""
    global at
    for length, flags in zip(entries[::2], entries[1::2]):
        if bool(flags & 1) != (context == "base:allocation"):
            wanted.append((offset, length))
        offset += length
    at = offset


while at < size:
    before = at
    handle.block_status(min(32 << 20, size - at), at, take)
    assert at > before
with open(path, "r+b") as backup:
    for offset, length in wanted:
        backup.seek(offset)
        for part in range(0, length, 1 << 20):
            backup.write(handle.pread(min(1 << 20, length - part), offset + part))
print(sum(length for _, length in wanted))
