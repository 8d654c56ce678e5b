"""Opens many connections to a server, and prints what each costs: compare-connections.sh calls it.

connections.py NAME PID CONNECTIONS PORT
"""

import pathlib
import resource
import socket
import struct
import sys
import time

PROTOCOL = 3 << 16


def pss_kib(pid):
    """Memory of a process and those that it started, pages that several of them have counted by shares."""
    total = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            total += int(line.split()[1])
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            total += pss_kib(child)
    return total


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        names = b"user\0postgres\0database\0ankerdb\0\0"
        self.socket.sendall(struct.pack(">II", len(names) + 8, PROTOCOL) + names)
        self.read_until_ready()

    def read_until_ready(self):
        data = b""
        while True:
            while len(data) < 5 or len(data) < 1 + struct.unpack(">I", data[1:5])[0]:
                more = self.socket.recv(65536)
                if not more:
                    sys.exit("the server has closed a connection")
                data += more
            end = 1 + struct.unpack(">I", data[1:5])[0]
            if data[:1] == b"E":
                sys.exit(f"the server says {data[5:end]!r}")
            if data[:1] == b"Z":
                return
            data = data[end:]

    def run(self, sql):
        body = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack(">I", len(body) + 4) + body)
        self.read_until_ready()


def main():
    name, pid, count, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    first = Connection(port)
    first.run("CREATE TABLE account (id int PRIMARY KEY, balance int)")
    first.run("INSERT INTO account SELECT i, i FROM generate_series(1, 1000) AS i")
    before = pss_kib(pid)

    def each():
        return (pss_kib(pid) - before) / count

    begun = time.monotonic()
    connections = [Connection(port) for _ in range(count)]
    connecting = (time.monotonic() - begun) / count * 1000
    connected = each()
    for number, connection in enumerate(connections):
        connection.run(f"SELECT balance FROM account WHERE id = {number % 1000 + 1}")
        connection.run("BEGIN")
        connection.run(f"UPDATE account SET balance = balance + 1 WHERE id = {number % 1000 + 1}")
        connection.run("ROLLBACK")
    used = each()
    time.sleep(8)
    print(
        f"{name:10}  {count} connections  {connecting:6.2f} ms to connect  KiB each: {connected:7.1f} connected"
        f"  {used:7.1f} used  {each():7.1f} silent"
    )


main()
