"""A program with a segment mapped, driven line by line: mapped.py LIBRARY SOCKET SEGMENT [lazy|resident] [poison|wait]

Commands on standard input, one JSON answer a line:
  sha OFFSET BYTES   SHA-256 of mapped bytes         tensor NAME   the same of a tensor
  head OFFSET BYTES  the bytes themselves
  status             the view's sticky status        again NAME    opens another segment's name; its error code
"""

import ctypes as c
import hashlib
import json
import sys

CHUNK = 1 << 20


class Handle(c.Structure):
    _fields_ = [("id", c.c_uint64)]


class ConnectOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("call_deadline_ms", c.c_int32), ("fault_deadline_ms", c.c_int32),
                ("socket_path", c.c_char_p), ("program", c.c_char_p)]


class MapOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("on_loss", c.c_int), ("deadline_ms", c.c_int32),
                ("offset", c.c_uint64), ("bytes", c.c_uint64), ("tensors", c.c_void_p), ("tensor_count", c.c_uint64)]


class Range(c.Structure):
    _fields_ = [("data", c.c_void_p), ("bytes", c.c_uint64)]


class ViewInfo(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("status", c.c_int), ("first_lost", c.c_uint64), ("losses", c.c_uint64),
                ("pages_lost", c.c_uint64), ("healed", c.c_uint32), ("lazy", c.c_uint32), ("bytes", c.c_uint64),
                ("message", c.c_char * 256)]


class Tensor(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("dtype", c.c_int), ("rank", c.c_uint32), ("reserved", c.c_uint32),
                ("shape", c.c_uint64 * 8), ("offset", c.c_uint64), ("bytes", c.c_uint64), ("name", c.c_char * 256),
                ("type_name", c.c_char * 32)]


def made(struct, **fields):
    return struct(struct_size=c.sizeof(struct), **fields)


class Mapped:
    def __init__(self, library, socket, name, lazy, on_loss):
        self.vp = c.CDLL(library)
        self.vp.vp_last_error.restype = c.c_char_p
        self.session, self.segment, self.view, self.range = Handle(), Handle(), Handle(), Range()
        options = made(ConnectOptions, socket_path=socket.encode(), program=b"mapped.py")
        self.check(self.vp.vp_connect(c.byref(options), c.byref(self.session)))
        self.check(self.vp.vp_open(self.session, name.encode(), c.byref(self.segment)))
        how = made(MapOptions, flags=int(lazy), on_loss={"poison": 0, "wait": 1}[on_loss])
        self.check(self.vp.vp_map(self.segment, c.byref(how), c.byref(self.view), c.byref(self.range)))

    def check(self, status):
        if status:
            raise SystemExit(json.dumps({"error": status, "message": self.vp.vp_last_error().decode()}))

    def sha(self, offset, count):
        digest = hashlib.sha256()
        while count:
            n = min(count, CHUNK)
            # A load by this thread: a page that is not there faults here.
            digest.update(c.string_at(self.range.data + offset, n))
            offset, count = offset + n, count - n
        return {"sha": digest.hexdigest()}

    def head(self, offset, count):
        return {"hex": c.string_at(self.range.data + offset, count).hex()}

    def tensor(self, name):
        found = made(Tensor)
        self.check(self.vp.vp_tensor_find(self.segment, name.encode(), c.byref(found)))
        return self.sha(found.offset, found.bytes)

    def status(self):
        info = made(ViewInfo)
        self.check(self.vp.vp_map_status(self.view, c.byref(info)))
        return {"status": info.status, "pages_lost": info.pages_lost, "healed": info.healed,
                "message": info.message.decode()}

    def read(self, offset, count):
        """An explicit read through the handle as it was opened."""
        buffer = c.create_string_buffer(count)
        return {"code": self.vp.vp_read(self.segment, c.c_uint64(offset), buffer, c.c_uint64(count))}

    def again(self, name):
        other = Handle()
        return {"code": self.vp.vp_open(self.session, name.encode(), c.byref(other))}


def main(library, socket, name, lazy="lazy", on_loss="poison"):
    mapped = Mapped(library, socket, name, lazy == "lazy", on_loss)
    print(json.dumps({"bytes": mapped.range.bytes}), flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        answer = getattr(mapped, verb)(*(int(w) if w.isdigit() else w for w in words))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
