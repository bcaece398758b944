"""Sixty hosts begin to write 32 MiB each and do not finish.

Argument: the Unix socket.
"""

import selectors, socket, struct, sys, time
ready, left = selectors.DefaultSelector(), {}
for _ in range(60):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    s.recv(18, socket.MSG_WAITALL)
    s.sendall(struct.pack(">I8sII4s", 3, b"IHAVEOPT", 1, 4, b"vol0"))
    s.recv(10, socket.MSG_WAITALL)
    s.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 7, 0, 32 << 20))
    s.setblocking(False)
    left[s] = 31 << 20
    ready.register(s, selectors.EVENT_WRITE)
piece, since = bytes(1 << 20), time.monotonic()
# Until the array has taken nothing more for a while.
while left and time.monotonic() - since < 1:
    for key, _ in ready.select(0.1):
        try: sent = key.fileobj.send(piece[:left[key.fileobj]])
        except BlockingIOError: continue
        since = time.monotonic()
        left[key.fileobj] -= sent
        if not left[key.fileobj]: ready.unregister(key.fileobj); del left[key.fileobj]
print("all, and", len(left), "wait", flush=True)
time.sleep(60)