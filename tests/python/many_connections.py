"""Opens 400 connections and holds them for a minute.

Argument: the TCP port.
"""

import socket, sys, time
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) for _ in range(400)]
print("all", flush=True)
time.sleep(60)