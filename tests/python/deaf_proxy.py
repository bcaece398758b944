"""Passes one TLS connection on, and what the server says only until the client has sent encrypted records.

In TLS 1.3 the client's first encrypted record ends the handshake, for which it needs nothing more of the server. So the
handshake succeeds, and every answer is lost.

Arguments: the port to listen at, the port to pass on to.
"""

import select, socket, sys

ENCRYPTED = 23  # The type of a record, RFC 8446, section 5.1.


def has_encrypted(stream):
    """Whether a stream of records contains an encrypted one, as far as it was received."""
    while len(stream) >= 5:
        if stream[0] == ENCRYPTED: return True
        stream = stream[5 + int.from_bytes(stream[3:5], "big"):]
    return False


door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
near = door.accept()[0]
far = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
said = b""
while True:
    ready = select.select([near, far], [], [])[0]
    if near in ready:
        data = near.recv(65536)
        if not data: break
        said += data
        far.sendall(data)
    if far in ready:
        data = far.recv(65536)
        if not data: break
        if not has_encrypted(said): near.sendall(data)
