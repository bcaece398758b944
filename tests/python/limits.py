"""Measures how long strangers are waited for, and how many are let in.

Arguments: the Unix socket, the TCP port.
"""

import socket, struct, sys, time
def unix():
    s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1]); return s
def tcp(): return socket.create_connection(("127.0.0.1", int(sys.argv[2])), 30)
def refused(s):
    try: return s.recv(1) == b""
    except ConnectionResetError: return True
def ended(s, byte):
    # However often something comes.
    begun = time.monotonic()
    s.settimeout(0.2)
    while time.monotonic() - begun < 30:
        try:
            s.send(byte)
            if s.recv(4096) == b"": return time.monotonic() - begun
        except TimeoutError: pass
        except OSError: return time.monotonic() - begun
    raise SystemExit("it is still there after 30 s")
# One that has said what it wants may be silent.
patient = unix()
patient.recv(18, socket.MSG_WAITALL)
patient.sendall(struct.pack(">I8sII4s", 3, b"IHAVEOPT", 1, 4, b"vol0"))
patient.recv(10, socket.MSG_WAITALL)
here, there = [unix() for _ in range(4)], [tcp() for _ in range(3)]
for s in here + there: assert s.recv(1) != b"", "there is place"
assert refused(unix()) and refused(tcp()), "there were more than may be"
print("a handshake lasted", ended(here.pop(), b"\0"))
patient.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 1, 7, 0, 1 << 20))
print("a request lasted", ended(patient, b"x"))