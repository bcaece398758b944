"""Asks over NBD for what is beyond the end of the volume, and for what there is not; prints the errors.

Arguments: the Unix socket, the size of the volume in bytes.
"""

import socket, struct, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]); size = int(sys.argv[2])
def get(n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data)); assert more, "the server hung up"; data += more
    return data
get(18); s.sendall(struct.pack(">I8sII4s", 3, b"IHAVEOPT", 1, 4, b"vol0")); get(10)
def ask(what, flags, command, offset, length, payload=b"", want=None):
    s.sendall(struct.pack(">IHHQQI", 0x25609513, flags, command, 7, offset, length) + payload)
    magic, error, cookie = struct.unpack(">IIQ", get(16))
    print(what, "answered with error", error)
    assert (magic, cookie) == (0x67446698, 7) and error in want, (what, error, want)
    if command == 0 and not error: get(length)
EINVAL, ENOSPC = 22, 28
past = (EINVAL, ENOSPC)
ask("read past the end", 0, 0, size, 4096, want=(EINVAL,))
ask("read across the end", 0, 0, size - 512, 4096, want=(EINVAL,))
ask("read at 2^64", 0, 0, 2**64 - 512, 4096, want=(EINVAL,))
ask("write across the end", 0, 1, size - 512, 4096, b"x" * 4096, want=past)
ask("trim past the end", 0, 4, size, 4096, want=past)
ask("zero past the end", 0, 6, size - 512, 4096, want=past)
ask("unknown command", 0, 99, 0, 0, want=(EINVAL,))
ask("unknown flag", 1 << 9, 0, 0, 512, want=(EINVAL,))
ask("read", 0, 0, size - 512, 512, want=(0,))