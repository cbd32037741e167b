#!/usr/bin/env python3
"""A server for which nothing names a face, on its default ports: run in a network namespace of its own (run-default-faces.sh).

    default_faces.py QUORATE FOLDER

Every function marked `scenario` is one counted test, with a server in a folder of its own where it wants one. The last line is
`N passed, N failed`.
"""

import http.client
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import traceback

import etcd3

QUORATE, FOLDER = sys.argv[1:]
READY_SECONDS = 60
ALL = "quorate ready zk=127.0.0.1:2181 etcd=127.0.0.1:2379 metrics=127.0.0.1:8080 admin=127.0.0.1:8080"
SCENARIOS = []


def scenario(test):
    SCENARIOS.append(test)
    return test


class Server:
    """`quorate serve` with these options. `first` is the first line on its standard output, `log` what it says on its error output."""

    def __init__(self, *options, env=None):
        Server.count += 1
        self.folder = os.path.join(FOLDER, str(Server.count))
        os.makedirs(self.folder)
        self.errors = open(os.path.join(self.folder, "errors"), "w+")
        self.process = subprocess.Popen(
            [QUORATE, "serve"] + list(options), cwd=self.folder, env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )
        self.first = self.process.stdout.readline().strip()

    def log(self):
        self.errors.flush()
        return open(self.errors.name).read()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(READY_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


Server.count = 0


def status(port, path, headers=None, method="GET", body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for name, value in dict({"Host": "127.0.0.1:%d" % port}, **(headers or {})).items():
        if value is not None:
            connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body.encode() if body is not None else None)
    answer = connection.getresponse()
    text = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, text


def taken(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


@scenario
def every_face_is_served():
    with Server() as server:
        assert server.first == ALL, server.first
        assert os.path.isdir(os.path.join(server.folder, "quorate-data"))
        with socket.create_connection(("127.0.0.1", 2181), 20) as zk:
            zk.sendall(b"srvr")
            assert b"Mode: standalone" in zk.recv(4096)
        etcd3.client(timeout=20).put("a", "1")
        assert status(8080, "/commands/monitor")[0] == 200
        assert "znode_count" in status(8080, "/metrics")[1]
        assert status(8080, "/health/ready") == (200, "ready\n")
        # Only output for a terminal has hints.
        assert server.end() == 0 and server.process.stdout.read() == ""


@scenario
def a_folder_for_the_data_changes_no_face_and_a_named_port_is_the_only_one():
    with Server("--data-dir", "elsewhere") as server:
        assert server.first == ALL, server.first
    for option, face in [("--zk-addr", "zk"), ("--etcd-addr", "etcd"), ("--chunk-addr", "chunk")]:
        with Server(option, "127.0.0.1:7777") as server:
            assert server.first == "quorate ready %s=127.0.0.1:7777" % face, server.first
    with Server(env={"JVMFLAGS": "-Dzookeeper.quorate.etcdAddr=127.0.0.1:7777"}) as server:
        assert server.first == "quorate ready etcd=127.0.0.1:7777", server.first


@scenario
def a_default_port_in_use_is_a_warning_and_all_of_them_are_an_error():
    for port in (2181, 2379, 8080):
        with taken(port), Server() as server:
            assert server.first.startswith("quorate ready "), server.log()
            assert ":%d" % port not in server.first, server.first
            assert "127.0.0.1:%d" % port in server.log(), server.log()
    with taken(2181), taken(2379), taken(8080), Server() as server:
        assert server.process.wait(READY_SECONDS) == 1 and server.first == ""
        assert "every default port for clients is in use" in server.log(), server.log()
        assert not os.path.exists(os.path.join(server.folder, "quorate-data"))
    with taken(7777), Server("--etcd-addr", "127.0.0.1:7777") as server:
        assert server.process.wait(READY_SECONDS) == 1
        assert "port 7777 is in use" in server.log(), server.log()


@scenario
def pages_of_other_sites_reach_nothing():
    put = "/v2/keys/page"
    cases = [(8080, "/commands/srst", "GET", None), (8080, "/metrics", "GET", None), (2379, "/version", "GET", None),
             (2379, "/v3/kv/put", "POST", '{"key":"cGFnZQ==","value":"eA=="}'), (2379, put, "PUT", "value=1")]
    foreign = [{"Host": "evil.example:8080"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
               {"Sec-Fetch-Site": "cross-site"}]
    with Server("--etcd-v2") as server:
        for port, path, method, body in cases:
            for headers in foreign:
                assert status(port, path, headers, method, body)[0] == 403, (path, headers)
            own = {"Host": "localhost:%d" % port, "Origin": "http://localhost:3000"}
            assert status(port, path, own, method, body)[0] in (200, 201), path
        # A page cannot speak gRPC.
        client = etcd3.client(timeout=20, grpc_options={"grpc.default_authority": "evil.example"}.items())
        assert client.get("page")[0] == b"x"
    with Server("--admin-addr", "127.0.0.1:7777") as server:
        assert status(7777, "/commands/ruok", {"Host": "any.example"})[0] == 200


@scenario
def the_default_admin_server_has_no_snapshots():
    anyone = {"Authorization": "digest any:thing"}
    with Server() as server:
        assert status(8080, "/commands/snapshot", anyone)[0] == 503
        assert status(8080, "/commands/restore", anyone, "POST", "x")[0] == 503
    with Server("--zk-addr", "127.0.0.1:2181", "--admin-addr", "127.0.0.1:8080") as server:
        assert status(8080, "/commands/snapshot", anyone)[0] == 200


@scenario
def an_ensemble_serves_both_and_lists_the_ports():
    with Server("--local-ensemble", "3") as server:
        assert server.first.startswith(
            "quorate ready zk=127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183 "
            "etcd=127.0.0.1:2379,127.0.0.1:2380,127.0.0.1:2381 "), server.first
        for number in range(3):
            line = server.process.stdout.readline()
            assert line == "  server %d zk=127.0.0.1:%d etcd=127.0.0.1:%d metrics=127.0.0.1:%d admin=127.0.0.1:%d\n" % (
                number + 1, 2181 + number, 2379 + number, 8080 + number, 8080 + number), line
            etcd3.client(port=2379 + number, timeout=20).put("a%d" % number, "1")
            assert status(8080 + number, "/commands/ruok", {"Host": "evil.example"})[0] == 403
            assert status(8080 + number, "/commands/snapshot", {"Authorization": "ip"})[0] == 503
        assert server.end() == 0


@scenario
def a_terminal_is_told_what_to_try():
    own, others = pty.openpty()
    folder = os.path.join(FOLDER, "terminal")
    os.makedirs(folder)
    process = subprocess.Popen([QUORATE, "serve"], cwd=folder, stdin=subprocess.DEVNULL, stdout=others, stderr=subprocess.DEVNULL)
    try:
        text, deadline = "", time.monotonic() + READY_SECONDS
        wanted = ["etcdctl --endpoints 127.0.0.1:2379", "zkCli.sh -server 127.0.0.1:2181", "KazooClient", "zk --server",
                  os.path.join(folder, "quorate-data")]
        while not all(part in text for part in wanted):
            assert time.monotonic() < deadline, text
            if select.select([own], [], [], 0.1)[0]:
                text += os.read(own, 4096).decode()
    finally:
        process.kill()
        process.wait()


@scenario
def texts_speak_of_all_faces():
    def said(*words):
        return subprocess.run([QUORATE] + list(words), stdout=subprocess.PIPE, text=True, check=True).stdout

    for words in [["--help"], ["--version"], ["version"], ["serve", "--help"]]:
        text = said(*words)
        assert "ZooKeeper" in text and "etcd" in text, text
    assert "2379" in said("serve", "--help")


def main():
    passed = failed = 0
    for test in SCENARIOS:
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print("FAILED %s\n%s" % (test.__name__, traceback.format_exc()), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
