"""A ZooKeeper client reduced to its wire: for what kazoo has no call for.

Records are those of zookeeper.jute 3.9; every integer is big-endian, a string or buffer is a 32-bit length
and that many bytes, and a length of -1 is null.
"""

import socket
import struct

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA = 1, 2, 3, 4, 5
PING, CREATE_TTL, CREATE_CONTAINER, SET_WATCHES, SET_WATCHES2, ADD_WATCH = 11, 21, 19, 101, 105, 106
CLOSE = -11
PING_XID, SET_WATCHES_XID = -2, -8
WORLD_ALL = struct.pack(">ii", 1, 31) + b"\0\0\0\x05world\0\0\0\x06anyone"


def buffer(value):
    if value is None:
        return struct.pack(">i", -1)
    return struct.pack(">i", len(value)) + value


def string(value):
    return buffer(value.encode())


def strings(values):
    return struct.pack(">i", len(values)) + b"".join(string(v) for v in values)


class Refused(Exception):
    """The server answered the connect request with session 0, or closed the connection instead of answering."""


class Wire:
    """One connection: connects on construction; `events` holds (type, path, zxid) in the order of arrival."""

    def __init__(self, port, session=(0, b"\0" * 16), timeout_ms=10000, last_zxid=0, seconds=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.events = []
        self.xid = 0
        session_id, password = session
        self.send_frame(
            struct.pack(">iqiq", 0, last_zxid, timeout_ms, session_id) + buffer(password) + b"\0"
        )
        body = self.read_frame()
        if body is None:
            raise Refused("closed without an answer")
        _, self.timeout_ms, self.session_id, length = struct.unpack_from(">iiqi", body)
        self.password = body[20 : 20 + length]
        if self.timeout_ms <= 0 or self.session_id == 0:
            raise Refused("session refused")

    @property
    def session(self):
        return self.session_id, self.password

    def send_frame(self, body):
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def read_exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                return None
            data += piece
        return data

    def read_frame(self):
        """The next frame's body; None once the server has closed the connection."""
        header = self.read_exactly(4)
        return None if header is None else self.read_exactly(struct.unpack(">i", header)[0])

    def send(self, opcode, body, xid=None):
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.send_frame(struct.pack(">ii", xid, opcode) + body)
        return xid

    def read_reply(self):
        """The next reply as (xid, zxid, error, body); events that come first go to `events`."""
        while True:
            frame = self.read_frame()
            if frame is None:
                return None
            xid, zxid, error = struct.unpack_from(">iqi", frame)
            if xid != -1:
                return xid, zxid, error, frame[16:]
            kind, _, length = struct.unpack_from(">iii", frame, 16)
            self.events.append((kind, frame[28 : 28 + length].decode(), zxid))

    def call(self, opcode, body, xid=None):
        xid = self.send(opcode, body, xid)
        reply = self.read_reply()
        if reply is None:
            raise ConnectionError("the server closed the connection")
        assert reply[0] == xid, "reply %d for request %d" % (reply[0], xid)
        return reply[1], reply[2], reply[3]

    def create(self, path, data=b"", flags=0):
        return self.call(CREATE, string(path) + buffer(data) + WORLD_ALL + struct.pack(">i", flags))

    def get(self, path, watch=False):
        return self.call(GET_DATA, string(path) + struct.pack(">?", watch))

    def exists(self, path, watch=False):
        return self.call(EXISTS, string(path) + struct.pack(">?", watch))

    def set_watches(self, zxid, data=(), exist=(), child=()):
        body = struct.pack(">q", zxid) + strings(data) + strings(exist) + strings(child)
        return self.call(SET_WATCHES, body, SET_WATCHES_XID)

    def close_session(self):
        self.call(CLOSE, b"")
        self.socket.close()

    def drop(self):
        """Ends the connection and leaves the session to the server."""
        self.socket.close()


def four_letter(port, word, seconds=5):
    """The whole answer to a four-letter word."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(word.encode())
        answer = b""
        while True:
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                piece = b""
            if not piece:
                return answer.decode()
            answer += piece
