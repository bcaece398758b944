"""Forty strangers that begin a handshake and then send a byte a second, for a minute.

Argument: the port.
"""

import socket, sys, time
strangers = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(40)]
for s in strangers: s.send(b"\x16\x03\x01\x02")
print("all", flush=True)
for _ in range(60):
    for s in strangers:
        try: s.send(b"\0")
        except OSError: pass
    time.sleep(1)