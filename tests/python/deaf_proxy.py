"""Passes one connection on, and what the other side answers only until the first has said its second thing.

Arguments: the port to listen at, the port to pass on to.
"""

import select, socket, sys
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
near = door.accept()[0]
far = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
said = 0
while True:
    ready = select.select([near, far], [], [])[0]
    if near in ready:
        data = near.recv(65536)
        if not data: break
        said += 1
        far.sendall(data)
    if far in ready:
        data = far.recv(65536)
        if not data: break
        if said < 2: near.sendall(data)