"""Makes files one after the other durable, and notes each, until there is a file called enough.

Argument: the directory with the mounted file system.
"""

import hashlib, itertools, os, random, sys, time
top, rng, longest = sys.argv[1], random.Random(2026), 0
with open(top + "/noted", "w") as noted:
    for n in itertools.count():
        if os.path.exists(top + "/enough"):
            break
        content, begun = rng.randbytes(rng.randrange(1, 200_000)), time.monotonic()
        # The room of older files is used again.
        path = f"{top}/mnt/{n % 150}"
        with open(path + ".new", "wb") as file:
            file.write(content)
            os.fsync(file.fileno())
        os.rename(path + ".new", path)
        directory = os.open(top + "/mnt", os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        longest = max(longest, time.monotonic() - begun)
        print(hashlib.sha256(content).hexdigest(), n % 150, file=noted, flush=True)
print(f"note: {n} files, the slowest took {longest:.2f} s")