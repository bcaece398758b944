"""Opens 400 connections that use a volume by NBD, and holds them for a minute.

Argument: the TCP port.
"""

import socket, struct, sys, time

# Flags (fixed newstyle, no zeroes), then NBD_OPT_EXPORT_NAME with an empty name. Nothing waits for the server's side.
LOGIN = struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0)
held = []
for _ in range(400):
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20))
    held[-1].sendall(LOGIN)
print("all", flush=True)
time.sleep(60)
