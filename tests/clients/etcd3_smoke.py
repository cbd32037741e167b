#!/usr/bin/env python3
"""Runs an unmodified client of etcd v3 (etcd3 from PyPI, over gRPC) against one server.

    etcd3_smoke.py PROGRAM FOLDER       PROGRAM takes etcd's flags; FOLDER holds its data

Every function marked `scenario` is one counted test. The last line is `N passed, N failed`.
"""

import os
import subprocess
import sys
import threading
import time
import traceback

import etcd3
from etcd3 import exceptions

from server import free_port

READY_SECONDS = 60
SCENARIOS = []


def scenario(test):
    SCENARIOS.append(test)
    return test


class Server:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.port, self.peer_port = free_port(), free_port()
        self.process = None

    def start(self):
        url, peer_url = "http://127.0.0.1:%d" % self.port, "http://127.0.0.1:%d" % self.peer_port
        flags = [
            "--name", "m0", "--data-dir", os.path.join(self.folder, "data"),
            "--listen-client-urls", url, "--advertise-client-urls", url,
            "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
            "--initial-cluster", "m0=" + peer_url,
        ]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen([self.program] + flags, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.client().status()
                return
            except exceptions.Etcd3Exception:
                assert time.monotonic() < deadline and self.process.poll() is None, "it does not serve"
                time.sleep(0.05)

    def client(self):
        return etcd3.client(port=self.port, timeout=20)

    def kill(self):
        self.process.kill()
        self.process.wait()


@scenario
def a_key_is_put_read_and_deleted(client):
    assert client.get("/a") == (None, None)
    client.put("/a", "1")
    value, meta = client.get("/a")
    assert (value, meta.version) == (b"1", 1)
    created = meta.create_revision
    client.put("/a", "2")
    value, meta = client.get("/a")
    assert (value, meta.version, meta.create_revision) == (b"2", 2, created)
    assert client.delete("/a") and not client.delete("/a")


@scenario
def a_prefix_is_listed_in_order_and_deleted(client):
    for name in "cab":
        client.put("/p/" + name, name)
    assert [value for value, _ in client.get_prefix("/p/")] == [b"a", b"b", b"c"]
    order = client.get_prefix("/p/", sort_order="descend", sort_target="key")
    assert [value for value, _ in order] == [b"c", b"b", b"a"]
    assert [value for value, _ in client.get_range("/p/a", "/p/c")] == [b"a", b"b"]
    assert client.delete_prefix("/p/").deleted == 3


@scenario
def a_transaction_does_one_branch(client):
    client.put("/t", "1")
    compare = [client.transactions.value("/t") == "1", client.transactions.version("/t") > 0]
    put = [client.transactions.put("/t", "2")]
    get = [client.transactions.get("/t")]
    succeeded, _ = client.transaction(compare=compare, success=put, failure=get)
    assert succeeded
    succeeded, responses = client.transaction(compare=compare, success=put, failure=get)
    assert not succeeded and responses[0][0][0] == b"2"
    assert client.replace("/t", "2", "3") and not client.replace("/t", "2", "4")
    assert client.put_if_not_exists("/new", "x") and not client.put_if_not_exists("/new", "y")


@scenario
def a_watch_gets_events_in_order_and_ends(client):
    events, cancel = client.watch_prefix("/w/")
    for number in range(20):
        client.put("/w/%d" % (number % 3), str(number))
    client.delete("/w/0")
    seen = [next(events) for _ in range(21)]
    assert [event.value for event in seen[:20]] == [str(number).encode() for number in range(20)]
    assert isinstance(seen[20], etcd3.events.DeleteEvent)
    revisions = [event.mod_revision for event in seen]
    assert revisions == sorted(revisions)
    cancel()
    assert list(events) == []


@scenario
def a_watch_begins_in_the_past_and_is_refused_behind_a_compaction(client):
    client.put("/h", "1")
    first = client.get("/h")[1].mod_revision
    client.put("/h", "2")
    events, cancel = client.watch("/h", start_revision=first)
    assert [next(events).value for _ in range(2)] == [b"1", b"2"]
    cancel()
    client.compact(first + 1)
    events, cancel = client.watch("/h", start_revision=first)
    try:
        next(events)
        raise AssertionError("it is not refused")
    except exceptions.RevisionCompactedError as error:
        assert error.compacted_revision == first + 1


@scenario
def a_lease_takes_its_keys_with_it(client):
    lease = client.lease(60)
    client.put("/l/1", "x", lease=lease)
    assert lease.keys == [b"/l/1"] and 0 < lease.remaining_ttl <= 60 and lease.granted_ttl == 60
    assert lease.refresh()[0].TTL == 60
    lease.revoke()
    assert client.get("/l/1") == (None, None)
    client.put("/l/2", "x", lease=client.lease(1))
    events, cancel = client.watch("/l/2")
    assert isinstance(next(events), etcd3.events.DeleteEvent)
    cancel()


@scenario
def a_lock_is_held_by_one(client):
    held, most, lock_of_counts = [], [], threading.Lock()

    def work():
        own = etcd3.client(port=client.port, timeout=20)
        with own.lock("one", ttl=30):
            with lock_of_counts:
                held.append(1)
                most.append(len(held))
            time.sleep(0.05)
            with lock_of_counts:
                held.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert most == [1, 1, 1, 1]


@scenario
def the_member_tells_of_itself(client):
    members = list(client.members)
    assert [member.name for member in members] == ["m0"]
    status = client.status()
    assert status.leader.id == members[0].id and status.db_size > 0 and status.version


@scenario
def a_backup_is_a_file(client):
    path = os.path.join(client.folder, "backup.db")
    with open(path, "wb") as out:
        client.snapshot(out)
    assert os.path.getsize(path) > 4096


@scenario
def what_was_acknowledged_outlives_a_kill(client):
    for number in range(200):
        client.put("/k/%03d" % number, str(number))
    client.server.kill()
    client.server.start()
    again = client.server.client()
    assert [value for value, _ in again.get_prefix("/k/")] == [str(number).encode() for number in range(200)]


def main():
    program, folder = sys.argv[1:]
    server = Server(program, folder)
    passed = failed = 0
    try:
        server.start()
        for test in SCENARIOS:
            client = server.client()
            client.port, client.folder, client.server = server.port, folder, server
            try:
                test(client)
                passed += 1
            except Exception:
                failed += 1
                print("FAILED %s\n%s" % (test.__name__, traceback.format_exc()), flush=True)
            client.close()
    finally:
        if server.process:
            server.kill()
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
