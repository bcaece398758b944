"""Sends what makes no sense to the NBD socket and to the control socket.

Arguments: both sockets.
"""

import os, socket, struct, sys
def send(path, *pieces):
    s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect(path)
    try:
        for data in pieces:
            s.sendall(data)
            try: s.recv(4096)
            except TimeoutError: pass
    except (BrokenPipeError, ConnectionResetError): pass
    s.close()
opt = lambda number, length, data=b"": struct.pack(">8sII", b"IHAVEOPT", number, length) + data
flags = struct.pack(">I", 3)
vol0 = flags + opt(1, 4, b"vol0")
nbd, control = sys.argv[1:]
send(nbd)
send(nbd, os.urandom(65536))
send(nbd, bytes(64))
send(nbd, flags + b"IHAVEOPT")
send(nbd, flags + opt(7, 0xffffffff), bytes(65536))
send(nbd, flags + opt(12345, 3, b"abc"), os.urandom(100))
send(nbd, vol0, os.urandom(280))
send(nbd, vol0, struct.pack(">IHHQQI", 0x25609513, 0, 1, 1, 0, 0xffffffff), bytes(65536))
send(nbd, vol0, struct.pack(">IHHQQI", 0x25609513, 0, 1, 1, 0, 65536), bytes(100))
send(control, os.urandom(4096) + b"\n")
send(control, b"{" * 100000 + b"\n")
send(control, b'{"nonsense": 1}\n')