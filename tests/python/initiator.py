"""An iSCSI initiator for tests: one session, commands in turn, as many in flight as one likes."""
import socket


class Moved(Exception):
    """The login is to be made at another address."""


class Initiator:
    """A session with a target, of an initiator of this name."""

    def __init__(self, port, target, name="iqn.1999-01.example:a", isid=1):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.tag, self.number, self.answers = 0, 1, {}
        text = f"InitiatorName={name}\0TargetName={target}\0".encode()
        head = bytearray(48)
        head[0], head[1], head[5:8] = 0x43, 0x87, len(text).to_bytes(3, "big")
        head[8:14] = b"\x80" + isid.to_bytes(5, "big")
        head[24:28] = self.number.to_bytes(4, "big")
        self.socket.sendall(head + text + b"\0" * (-len(text) % 4))
        answer, text = self.unit()
        if answer[36:38] == b"\1\1":
            raise Moved(text.decode().removeprefix("TargetAddress=").rstrip("\0"))
        assert answer[0] == 0x23 and answer[36:38] == b"\0\0", answer.hex()

    def exactly(self, n):
        found = b""
        while len(found) < n:
            more = self.socket.recv(n - len(found))
            if not more:
                raise ConnectionError("the target has closed the connection")
            found += more
        return found

    def unit(self):
        head = self.exactly(48)
        length = int.from_bytes(head[5:8], "big")
        return head, self.exactly(length + -length % 4)[:length]

    def send(self, cdb, out=b"", expected=0):
        """Sends a command with its data, and says by what tag it is answered."""
        self.tag += 1
        head = bytearray(48)
        head[0], head[1] = 0x01, 0x80 | (0x20 if out else 0) | (0x40 if expected else 0)
        head[5:8] = len(out).to_bytes(3, "big")
        head[16:20] = self.tag.to_bytes(4, "big")
        head[20:24] = (len(out) or expected).to_bytes(4, "big")
        head[24:28] = self.number.to_bytes(4, "big")
        head[32:32 + len(cdb)] = cdb
        self.number += 1
        self.socket.sendall(head + out + b"\0" * (-len(out) % 4))
        return self.tag

    def answer(self, tag):
        """The status, the data and the sense data that answer a command: key, code and qualifier."""
        data = b""
        while tag not in self.answers:
            head, body = self.unit()
            its = int.from_bytes(head[16:20], "big")
            if head[0] == 0x25:
                data += body
                if head[1] & 0x01:
                    self.answers[its] = (head[3], data, None)
            elif head[0] == 0x21:
                sense = (body[4], body[14], body[15]) if body else None
                self.answers[its] = (head[3], b"", sense)
            else:
                raise ConnectionError(f"an answer of kind {head[0]:#x}")
        return self.answers.pop(tag)

    def event(self):
        """The next unit, an asynchronous message: its event, and the second and third parameter."""
        head, _ = self.unit()
        assert head[0] == 0x32 and head[16:20] == b"\xff" * 4, head.hex()
        return head[36], int.from_bytes(head[40:42], "big"), int.from_bytes(head[42:44], "big")

    def logout(self):
        """Ends the session in good order."""
        head = bytearray(48)
        head[0], head[1], head[16:20] = 0x46, 0x80, b"\0\0\xff\xff"
        head[24:28] = self.number.to_bytes(4, "big")
        self.socket.sendall(head)
        answer, _ = self.unit()
        assert answer[0] == 0x26 and answer[2] == 0, answer.hex()
        assert self.socket.recv(1) == b""

    def ask(self, cdb, out=b"", expected=0):
        return self.answer(self.send(cdb, out, expected))

    def write(self, block, data):
        """Sends a write, without waiting for it."""
        cdb = b"\x2a\0" + block.to_bytes(4, "big") + b"\0" + (len(data) // 512).to_bytes(2, "big") + b"\0"
        return self.send(cdb, data)

    def read(self, block, count=1):
        cdb = b"\x28\0" + block.to_bytes(4, "big") + b"\0" + count.to_bytes(2, "big") + b"\0"
        return self.ask(cdb, expected=512 * count)

    def compare_and_write(self, block, expected, data):
        """Sends a COMPARE AND WRITE of one block, without waiting for it."""
        return self.send(b"\x89\0" + block.to_bytes(8, "big") + b"\0\0\0\1\0\0", expected + data)

    def or_write(self, block, data):
        cdb = b"\x8b\0" + block.to_bytes(8, "big") + (len(data) // 512).to_bytes(4, "big") + b"\0\0"
        return self.ask(cdb, data)

    def reserve(self, action, kind=0, key=0, other=0):
        """PERSISTENT RESERVE OUT; the status and sense data."""
        cdb = bytes([0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0])
        status, _, sense = self.ask(cdb, key.to_bytes(8, "big") + other.to_bytes(8, "big") + b"\0" * 8)
        return status, sense

    def hold(self):
        """RESERVE(6); the status and sense data."""
        status, _, sense = self.ask(b"\x16\0\0\0\0\0")
        return status, sense

    def release(self):
        """RELEASE(6); the status and sense data."""
        status, _, sense = self.ask(b"\x17\0\0\0\0\0")
        return status, sense

    def move(self, key, other, port, name, isid=1, unregister=False, length=None):
        """PERSISTENT RESERVE OUT, REGISTER AND MOVE to a session of an initiator; the status and sense data."""
        name = f"{name},i,0x80{isid:010x}".encode() + b"\0"
        name += b"\0" * (-len(name) % 4)
        identifier = b"\x45\0" + len(name).to_bytes(2, "big") + name
        out = key.to_bytes(8, "big") + other.to_bytes(8, "big") + bytes([0, 2 if unregister else 0])
        out += port.to_bytes(2, "big") + (length or len(identifier)).to_bytes(4, "big") + identifier
        status, _, sense = self.ask(bytes([0x5f, 7, 0, 0, 0, 0, 0, *len(out).to_bytes(2, "big"), 0]), out)
        return status, sense

    def reset(self):
        """LOGICAL UNIT RESET: the response."""
        self.tag += 1
        head = bytearray(48)
        head[0], head[1], head[16:20] = 0x42, 0x85, self.tag.to_bytes(4, "big")
        head[20:24], head[24:28] = b"\xff" * 4, self.number.to_bytes(4, "big")
        self.socket.sendall(head)
        while True:
            answer, _ = self.unit()
            if answer[0] == 0x22:
                return answer[2]

    def port_groups(self):
        """REPORT TARGET PORT GROUPS: for each group whether the unit can be used through it."""
        _, data, _ = self.ask(bytes([0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]), expected=1024)
        return {int.from_bytes(data[at + 2:at + 4], "big"): data[at] == 0 for at in range(4, len(data), 12)}

    def keys(self):
        """PERSISTENT RESERVE IN: the keys that are registered."""
        _, data, _ = self.ask(bytes([0x5e, 0, 0, 0, 0, 0, 0, 4, 0, 0]), expected=1024)
        return sorted(int.from_bytes(data[at:at + 8], "big") for at in range(8, len(data), 8))

    def naa(self):
        """The unit's number, as the page of identification has it."""
        _, data, _ = self.ask(bytes([0x12, 1, 0x83, 1, 0, 0]), expected=256)
        assert data[5] == 3, data.hex()
        return data[8:16]

    def copy(self, units, segments, name=1):
        """EXTENDED COPY: units by number; segments as source, destination, blocks, from and to. The status and sense data."""
        devices = b"".join(bytes([0xe4, 0, 0, 0, 1, 3, 0, 8]) + naa + b"\0" * 16 for naa in units)
        wanted = b"".join(
            bytes([2, 0, 0, 24]) + source.to_bytes(2, "big") + destination.to_bytes(2, "big") + b"\0\0"
            + blocks.to_bytes(2, "big") + at.to_bytes(8, "big") + to.to_bytes(8, "big")
            for source, destination, blocks, at, to in segments)
        head = bytes([name, 0]) + len(devices).to_bytes(2, "big") + b"\0" * 4 + len(wanted).to_bytes(4, "big") + b"\0" * 4
        out = head + devices + wanted
        status, _, sense = self.ask(b"\x83" + b"\0" * 9 + len(out).to_bytes(4, "big") + b"\0\0", out)
        return status, sense
