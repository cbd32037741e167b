#!/usr/bin/env python3
"""Runs an unmodified kazoo client, and a bare-wire one where kazoo has no call, against one server.

    kazoo_smoke.py [NAME-PART ...]      run the scenarios whose name contains one of the parts

Every function marked `scenario` is one counted test on a shared server; one marked `own_server` gets a folder and
starts what it needs; one marked `ours_only` says something only Quorate promises and is left out for another server
(see server.py for SERVER_CMD). The last line is `N passed, N failed`.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NoNodeError,
    NodeExistsError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.security import ACL, Id, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions, make_acl, make_digest_acl

import server as peer
import wire
from wire import Refused, Wire

WAIT_SECONDS = 20
SESSION_SECONDS = 8.0
UNIMPLEMENTED = -6
SCENARIOS = []


def scenario(function, kind="shared"):
    SCENARIOS.append((function, kind))
    return function


def own_server(function):
    return scenario(function, "own")


def ours_only(function):
    return scenario(function, "ours")


class Shared:
    """The server most scenarios share, with the clients the running scenario has open."""

    def __init__(self, server):
        self.server = server
        self.clients = []

    def client(self, **options):
        options.setdefault("timeout", SESSION_SECONDS)
        client = KazooClient(hosts=self.server.address, **options)
        self.clients.append(client)
        client.start(timeout=WAIT_SECONDS)
        return client

    def wire(self, **options):
        return Wire(self.server.port, **options)

    def close_clients(self):
        for client in self.clients:
            client.stop()
            client.close()
        self.clients = []


class Events:
    """Collects watch events; `next` waits for one."""

    def __init__(self):
        self.seen = []
        self.changed = threading.Condition()

    def __call__(self, event):
        with self.changed:
            self.seen.append((event.type, event.path))
            self.changed.notify_all()

    def next(self):
        with self.changed:
            if not self.changed.wait_for(lambda: self.seen, WAIT_SECONDS):
                raise AssertionError("no watch event within %d s" % WAIT_SECONDS)
            return self.seen.pop(0)


class States:
    """Follows a client's connection state; `wait` blocks until one is reported after `mark`."""

    def __init__(self, client):
        self.seen = []
        self.changed = threading.Condition()
        client.add_listener(self)

    def __call__(self, state):
        with self.changed:
            self.seen.append(state)
            self.changed.notify_all()

    def wait(self, state):
        with self.changed:
            if not self.changed.wait_for(lambda: state in self.seen, WAIT_SECONDS * 2):
                raise AssertionError("state %s not reached, only %s" % (state, self.seen))


def refuses(error, call, *args, **kwargs):
    try:
        result = call(*args, **kwargs)
    except error:
        return
    raise AssertionError("expected %s, got the result %r" % (error, result))


def same(actual, expected):
    assert actual == expected, "got %r, expected %r" % (actual, expected)


# ---- nodes


@scenario
def create_then_get_gives_the_data_and_a_fresh_stat(s):
    c = s.client()
    same(c.create("/nodes", b"one"), "/nodes")
    data, stat = c.get("/nodes")
    same(data, b"one")
    same((stat.version, stat.cversion, stat.aversion, stat.numChildren, stat.dataLength), (0, 0, 0, 0, 3))
    same((stat.czxid, stat.ephemeralOwner), (stat.mzxid, 0))
    assert stat.czxid == stat.pzxid, "pzxid of a new node is its czxid"


@scenario
def create_with_stat_returns_path_and_stat(s):
    path, stat = s.client().create("/create2", b"abc", include_data=True)
    same((path, stat.version, stat.dataLength), ("/create2", 0, 3))


@scenario
def create_of_an_existing_node_is_refused(s):
    c = s.client()
    c.create("/exists")
    refuses(NodeExistsError, c.create, "/exists")


@scenario
def create_below_a_missing_parent_is_refused(s):
    refuses(NoNodeError, s.client().create, "/missing/child")


@scenario
def null_data_is_not_empty_data(s):
    w = s.wire()
    w.create("/null", None)
    w.create("/empty", b"")
    same(w.get("/null")[2][:4], b"\xff\xff\xff\xff")
    same(w.get("/empty")[2][:4], b"\0\0\0\0")
    w.close_session()


@scenario
def set_counts_versions(s):
    c = s.client()
    c.create("/set", b"a")
    same([c.set("/set", b"b").version, c.set("/set", b"c", version=1).version], [1, 2])
    data, stat = c.get("/set")
    same((data, stat.version), (b"c", 2))
    assert stat.mzxid > stat.czxid, "mzxid grows"


@scenario
def set_with_a_stale_version_is_refused_and_changes_nothing(s):
    c = s.client()
    c.create("/stale", b"a")
    refuses(BadVersionError, c.set, "/stale", b"b", version=7)
    same(c.get("/stale")[0], b"a")
    refuses(NoNodeError, c.set, "/stale-missing", b"b")


@scenario
def delete_checks_children_and_version(s):
    c = s.client()
    c.create("/delete")
    c.create("/delete/child")
    refuses(NotEmptyError, c.delete, "/delete")
    refuses(BadVersionError, c.delete, "/delete/child", version=3)
    c.delete("/delete/child", version=0)
    c.delete("/delete")
    same(c.exists("/delete"), None)
    refuses(NoNodeError, c.delete, "/delete")


@scenario
def exists_and_children_describe_the_tree(s):
    c = s.client()
    c.create("/family")
    for name in ("a", "b", "c"):
        c.create("/family/" + name)
    c.delete("/family/b")
    names, stat = c.get_children("/family", include_data=True)
    same((sorted(names), stat.numChildren, stat.cversion), (["a", "c"], 2, 4))
    same(c.exists("/family").numChildren, 2)
    refuses(NoNodeError, c.get_children, "/family/b")


@scenario
def sequence_numbers_count_every_create_below_the_parent(s):
    c = s.client()
    c.create("/sequence")
    same(c.create("/sequence/n-", sequence=True), "/sequence/n-0000000000")
    c.create("/sequence/plain")
    c.delete("/sequence/plain")
    same(c.create("/sequence/n-", sequence=True), "/sequence/n-0000000002")
    same(c.create("/sequence/", ephemeral=True, sequence=True), "/sequence/0000000003")


@scenario
def a_megabyte_less_a_kilobyte_of_data_fits(s):
    c = s.client()
    data = bytes(range(256)) * 4092
    c.create("/large", data)
    same(c.get("/large")[0], data)


@scenario
def a_request_above_jute_maxbuffer_closes_the_connection(s):
    c = s.client()
    refuses(ConnectionLoss, c.create, "/too-large", b"x" * (2 << 20))
    same(s.client().exists("/too-large"), None)


@scenario
def bad_paths_are_refused_by_the_server(s):
    w = s.wire()
    w.create("/bad")
    for path in ("", "relative", "/bad/", "/bad/.", "/bad/..", "/bad\0", "/bad/\x1f", "/bad/\ue000"):
        same((path, w.create(path)[1]), (path, -8))
    w.close_session()


@scenario
def the_system_nodes_are_there_and_stay(s):
    c = s.client()
    same(sorted(c.get_children("/zookeeper")), ["config", "quota"])
    w = s.wire()
    for path in ("/", "/zookeeper", "/zookeeper/quota"):
        same((path, w.call(wire.DELETE, wire.string(path) + b"\xff\xff\xff\xff")[1]), (path, -8))
    w.close_session()


@scenario
def ttl_nodes_are_unimplemented_unless_switched_on(s):
    w = s.wire()
    body = wire.string("/ttl") + wire.buffer(b"") + wire.WORLD_ALL + b"\0\0\0\x05" + b"\0\0\0\0\0\0\x10\0"
    same(w.call(wire.CREATE_TTL, body)[1], UNIMPLEMENTED)
    w.drop()


# ---- order


@scenario
def pipelined_reads_and_writes_answer_in_order(s):
    c = s.client()
    c.create("/pipeline", b"0")
    calls = []
    for number in range(1, 201):
        calls.append(c.set_async("/pipeline", b"%d" % number))
        calls.append(c.get_async("/pipeline"))
    for number in range(1, 201):
        same(calls[2 * number - 2].get(WAIT_SECONDS).version, number)
        same(calls[2 * number - 1].get(WAIT_SECONDS)[0], b"%d" % number)


@scenario
def zxids_never_fall_and_failed_writes_take_one(s):
    w = s.wire()
    first, error, _ = w.create("/zxid")
    same(error, 0)
    failed, error, _ = w.create("/zxid")
    same(error, -110)
    assert failed > first, "a refused write has a zxid of its own"
    read, error, _ = w.get("/zxid")
    assert read >= failed, "a read shows the last zxid"
    w.close_session()


@scenario
def sync_returns_its_path(s):
    same(s.client().sync("/"), "/")


# ---- multi


@scenario
def a_transaction_applies_all_of_its_operations(s):
    c = s.client()
    c.create("/multi")
    t = c.transaction()
    t.create("/multi/a", b"1")
    t.set_data("/multi/a", b"2")
    t.check("/multi/a", version=1)
    t.create("/multi/n-", sequence=True)
    t.delete("/multi/a")
    created, stat, checked, numbered, deleted = t.commit()
    same((created, stat.version, checked, numbered, deleted), ("/multi/a", 1, True, "/multi/n-0000000001", True))
    same(c.get_children("/multi"), ["n-0000000001"])


@scenario
def a_failing_transaction_applies_none_and_names_the_culprit(s):
    c = s.client()
    c.create("/multi-fails")
    t = c.transaction()
    t.create("/multi-fails/a")
    t.check("/multi-fails", version=9)
    t.create("/multi-fails/b")
    before, culprit, after = t.commit()
    same(
        (type(before), type(culprit), type(after)), (RolledBackError, BadVersionError, RuntimeInconsistency)
    )
    same(c.get_children("/multi-fails"), [])


# ---- watches


@scenario
def a_data_watch_fires_once(s):
    c, events = s.client(), Events()
    c.create("/watch-data", b"0")
    c.get("/watch-data", watch=events)
    c.set("/watch-data", b"1")
    same(events.next(), (EventType.CHANGED, "/watch-data"))
    c.set("/watch-data", b"2")
    c.sync("/")
    same(events.seen, [])


@scenario
def a_child_watch_fires_for_create_and_delete_of_children(s):
    c, events = s.client(), Events()
    c.create("/watch-child")
    c.get_children("/watch-child", watch=events)
    c.create("/watch-child/a")
    same(events.next(), (EventType.CHILD, "/watch-child"))
    c.get_children("/watch-child", watch=events)
    c.delete("/watch-child/a")
    same(events.next(), (EventType.CHILD, "/watch-child"))


@scenario
def an_exists_watch_fires_for_create_and_for_delete(s):
    c, events = s.client(), Events()
    same(c.exists("/watch-exists", watch=events), None)
    c.create("/watch-exists")
    same(events.next(), (EventType.CREATED, "/watch-exists"))
    c.exists("/watch-exists", watch=events)
    c.delete("/watch-exists")
    same(events.next(), (EventType.DELETED, "/watch-exists"))


@scenario
def another_sessions_change_fires_the_watch(s):
    watcher, writer, events = s.client(), s.client(), Events()
    writer.create("/watch-other", b"0")
    watcher.sync("/")
    watcher.get("/watch-other", watch=events)
    writer.set("/watch-other", b"1")
    same(events.next(), (EventType.CHANGED, "/watch-other"))


@scenario
def the_event_comes_before_the_reply_to_the_own_write(s):
    w = s.wire()
    w.create("/watch-order", b"0")
    w.get("/watch-order", watch=True)
    zxid, _, _ = w.call(wire.SET_DATA, wire.string("/watch-order") + wire.buffer(b"1") + b"\xff\xff\xff\xff")
    same(w.events, [(3, "/watch-order", zxid)])
    w.close_session()


@scenario
def set_watches_on_reconnect_reports_what_was_missed(s):
    c, w = s.client(), s.wire()
    for path in ("/missed", "/missed/changed", "/missed/deleted", "/missed/quiet", "/missed/parent"):
        c.create(path, b"0")
    seen, _, _ = w.get("/missed/quiet")
    w.drop()
    c.set("/missed/changed", b"1")
    c.delete("/missed/deleted")
    c.create("/missed/created", b"1")
    c.create("/missed/parent/child", b"1")
    again = s.wire(session=w.session, last_zxid=seen)
    again.set_watches(
        seen,
        data=["/missed/changed", "/missed/deleted", "/missed/quiet"],
        exist=["/missed/created", "/missed/later"],
        child=["/missed/parent"],
    )
    same(
        sorted((kind, path) for kind, path, _ in again.events),
        [(1, "/missed/created"), (2, "/missed/deleted"), (3, "/missed/changed"), (4, "/missed/parent")],
    )
    again.events.clear()
    c.set("/missed/quiet", b"1")
    c.create("/missed/later")
    again.call(9, wire.string("/"))
    same(sorted(e[:2] for e in again.events), [(1, "/missed/later"), (3, "/missed/quiet")])
    again.close_session()


# ---- access control


@scenario
def acls_read_back_as_they_were_set(s):
    c = s.client()
    c.create("/acl")
    acls, stat = c.get_acls("/acl")
    same((acls, stat.aversion), (OPEN_ACL_UNSAFE, 0))
    stat = c.set_acls("/acl", READ_ACL_UNSAFE + [make_acl("ip", "127.0.0.1", all=True)])
    same((stat.aversion, stat.version), (1, 0))
    same(sorted(a.id.scheme for a in c.get_acls("/acl")[0]), ["ip", "world"])
    refuses(BadVersionError, c.set_acls, "/acl", OPEN_ACL_UNSAFE, version=0)


@scenario
def world_read_only_refuses_writes(s):
    c = s.client()
    c.create("/acl-world", b"x", acl=READ_ACL_UNSAFE)
    same(c.get("/acl-world")[0], b"x")
    refuses(NoAuthError, c.set, "/acl-world", b"y")
    refuses(NoAuthError, c.create, "/acl-world/child")
    refuses(NoAuthError, c.set_acls, "/acl-world", OPEN_ACL_UNSAFE)


@scenario
def a_digest_opens_only_with_its_password(s):
    owner, other = s.client(), s.client()
    owner.create("/acl-digest", b"secret", acl=[make_digest_acl("user", "password", all=True)])
    other.sync("/")
    refuses(NoAuthError, other.get, "/acl-digest")
    other.add_auth("digest", "user:wrong")
    refuses(NoAuthError, other.get, "/acl-digest")
    other.add_auth("digest", "user:password")
    same(other.get("/acl-digest")[0], b"secret")


@scenario
def the_auth_scheme_stands_for_the_sessions_identities(s):
    c, other = s.client(), s.client()
    auth = [ACL(Permissions.ALL, Id("auth", ""))]
    refuses(InvalidACLError, c.create, "/acl-auth", b"", acl=auth)
    c.add_auth("digest", "me:mine")
    c.create("/acl-auth", b"", acl=auth)
    acls, _ = c.get_acls("/acl-auth")
    same([(a.id.scheme, a.id.id.split(":")[0], a.perms) for a in acls], [("digest", "me", Permissions.ALL)])
    other.sync("/")
    refuses(NoAuthError, other.get, "/acl-auth")


@scenario
def an_ip_acl_admits_by_address(s):
    c = s.client()
    c.create("/acl-ip", b"x", acl=[make_acl("ip", "127.0.0.0/8", all=True)])
    same(c.get("/acl-ip")[0], b"x")
    c.create("/acl-ip-other", b"x", acl=[make_acl("ip", "203.0.113.7", all=True)])
    refuses(NoAuthError, c.get, "/acl-ip-other")


@scenario
def unknown_and_empty_acls_are_invalid(s):
    c = s.client()
    refuses(InvalidACLError, c.create, "/acl-bad", b"", acl=[make_acl("nosuch", "x", all=True)])
    refuses(InvalidACLError, c.create, "/acl-bad", b"", acl=[make_acl("ip", "not-an-address", all=True)])
    w = s.wire()
    same(w.call(wire.CREATE, wire.string("/acl-bad") + wire.buffer(b"") + b"\0\0\0\0" + b"\0\0\0\0")[1], -114)
    w.close_session()


# ---- sessions


@scenario
def an_ephemeral_goes_when_its_session_closes(s):
    c, other, events = s.client(), s.client(), Events()
    c.create("/ephemeral", b"x", ephemeral=True)
    same(c.exists("/ephemeral").ephemeralOwner, c.client_id[0])
    refuses(NoChildrenForEphemeralsError, c.create, "/ephemeral/child")
    other.sync("/")
    other.exists("/ephemeral", watch=events)
    c.stop()
    same(events.next(), (EventType.DELETED, "/ephemeral"))
    same(other.exists("/ephemeral"), None)


@scenario
def an_abandoned_session_expires_and_takes_its_ephemerals(s):
    c, events, w = s.client(), Events(), s.wire(timeout_ms=1000)
    w.create("/abandoned", b"x", flags=1)
    c.sync("/")
    assert c.exists("/abandoned", watch=events), "the ephemeral is there"
    w.drop()
    same(events.next(), (EventType.DELETED, "/abandoned"))
    refuses(Refused, s.wire, session=w.session)


@scenario
def the_session_timeout_is_clamped_to_the_servers_limits(s):
    low, high = s.wire(timeout_ms=1), s.wire(timeout_ms=3_600_000)
    same((low.timeout_ms, high.timeout_ms), (2 * peer.TICK_MS, 20 * peer.TICK_MS))
    low.close_session()
    high.close_session()


@scenario
def a_ping_keeps_the_session(s):
    w = s.wire()
    same(w.call(wire.PING, b"", wire.PING_XID)[1], 0)
    w.close_session()


@scenario
def a_wrong_session_password_is_refused(s):
    w = s.wire()
    refuses(Refused, s.wire, session=(w.session_id, b"not the password"))
    again = s.wire(session=w.session)
    same(again.exists("/")[1], 0)
    again.close_session()


@scenario
def a_session_moves_to_its_newest_connection(s):
    old = s.wire()
    new = s.wire(session=old.session)
    same(new.session_id, old.session_id)
    same(old.read_frame(), None)
    same(new.exists("/")[1], 0)
    new.close_session()


@scenario
def a_client_that_saw_a_later_zxid_is_turned_away(s):
    refuses(Refused, s.wire, last_zxid=1 << 60)


@scenario
def a_closed_session_cannot_be_resumed(s):
    w = s.wire()
    w.close_session()
    refuses(Refused, s.wire, session=w.session)


def restarted(s, number):
    c = s.client()
    states = States(c)
    base = "/restart-%d" % number
    c.create(base, b"kept", makepath=True)
    c.create(base + "/ephemeral", b"mine", ephemeral=True)
    c.create(base + "/n-", sequence=True)
    before, zxid = c.client_id, c.exists(base).pzxid
    status = s.server.end(number)
    if number == signal.SIGTERM and peer.OURS:
        same(status, 0)
    states.wait(KazooState.SUSPENDED)
    s.server.start()
    states.wait(KazooState.CONNECTED)
    c.retry(c.sync, "/")
    same(c.client_id, before)
    same(c.get(base)[0], b"kept")
    data, stat = c.get(base + "/ephemeral")
    same((data, stat.ephemeralOwner), (b"mine", before[0]))
    same(c.create(base + "/n-", sequence=True), base + "/n-0000000002")
    assert c.exists(base).pzxid > zxid, "zxids go on where they were"
    c.stop()
    other = s.client()
    same(other.exists(base + "/ephemeral"), None)


@scenario
def session_and_data_survive_a_clean_restart(s):
    restarted(s, signal.SIGTERM)


@scenario
def session_and_data_survive_kill_9(s):
    restarted(s, signal.SIGKILL)


@scenario
def a_session_whose_client_is_gone_expires_after_a_restart(s):
    w = s.wire(timeout_ms=1000)
    w.create("/orphan", b"x", flags=1)
    s.server.end(signal.SIGKILL)
    w.drop()
    s.server.start()
    c, events = s.client(), Events()
    if c.exists("/orphan", watch=events):
        same(events.next(), (EventType.DELETED, "/orphan"))
    same(c.exists("/orphan"), None)


# ---- recipes


@scenario
def a_lock_passes_from_one_client_to_the_next(s):
    first, second = s.client(), s.client()
    held, waiting = first.Lock("/lock", "first"), second.Lock("/lock", "second")
    assert held.acquire(timeout=WAIT_SECONDS), "the free lock is taken"
    assert not waiting.acquire(blocking=False), "the held lock is not"
    taken = threading.Thread(target=waiting.acquire, kwargs={"timeout": WAIT_SECONDS})
    taken.start()
    held.release()
    taken.join(WAIT_SECONDS)
    assert waiting.is_acquired, "the lock went over"
    waiting.release()


# ---- four-letter words


@scenario
def ruok_answers_imok(s):
    same(wire.four_letter(s.server.port, "ruok"), "imok")


@scenario
def srvr_and_stat_describe_the_server(s):
    c = s.client()
    c.create("/four-letter")
    srvr, stat = wire.four_letter(s.server.port, "srvr"), wire.four_letter(s.server.port, "stat")
    for answer in (srvr, stat):
        assert answer.startswith("Zookeeper version:"), answer
        for field in ("Latency min/avg/max:", "Received:", "Sent:", "Connections:", "Outstanding:", "Zxid: 0x"):
            assert field in answer, "%s is missing in %s" % (field, answer)
        assert "Mode: standalone" in answer, answer
        assert "Node count:" in answer, answer
    assert "Clients:" in stat, stat


@scenario
def mntr_has_the_keys_exporters_read(s):
    answer = wire.four_letter(s.server.port, "mntr")
    keys = dict(line.split("\t", 1) for line in answer.splitlines() if "\t" in line)
    for key in (
        "zk_version zk_server_state zk_avg_latency zk_max_latency zk_min_latency zk_packets_received zk_packets_sent "
        "zk_num_alive_connections zk_outstanding_requests zk_znode_count zk_watch_count zk_ephemerals_count "
        "zk_approximate_data_size zk_open_file_descriptor_count zk_max_file_descriptor_count"
    ).split():
        assert key in keys, "%s is missing" % key
    same(keys["zk_server_state"], "standalone")


@scenario
def isro_answers_rw(s):
    same(wire.four_letter(s.server.port, "isro"), "rw")


@scenario
def cons_lists_the_connections(s):
    c = s.client()
    c.exists("/")
    assert "sid=0x%x" % c.client_id[0] in wire.four_letter(s.server.port, "cons")


@scenario
def conf_prints_the_configuration(s):
    answer = wire.four_letter(s.server.port, "conf")
    for line in (
        "clientPort=%d" % s.server.port,
        "tickTime=%d" % peer.TICK_MS,
        "maxClientCnxns=60",
        "minSessionTimeout=%d" % (2 * peer.TICK_MS),
        "maxSessionTimeout=%d" % (20 * peer.TICK_MS),
    ):
        assert line in answer.splitlines(), "%s is missing in %s" % (line, answer)
    assert "dataDir=%s" % s.server.data in answer, answer


@own_server
def only_srvr_is_allowed_unless_listed(folder):
    s = peer.Server(folder, **{"4lw.commands.whitelist": None})
    try:
        s.start()
        assert "Mode: standalone" in wire.four_letter(s.port, "srvr")
        same(
            wire.four_letter(s.port, "ruok").strip(), "ruok is not executed because it is not in the whitelist."
        )
    finally:
        s.kill()


@own_server
def connections_of_one_address_are_limited(folder):
    s = peer.Server(folder, maxClientCnxns=2)
    try:
        s.start()
        first, second = Wire(s.port), Wire(s.port)
        refuses((Refused, OSError), Wire, s.port)
        same((first.exists("/")[1], second.exists("/")[1]), (0, 0))
    finally:
        s.kill()


@own_server
def properties_reach_the_server_through_the_environment(folder):
    os.environ["SERVER_JVMFLAGS"] = "-Dzookeeper.skipACL=yes"
    s = peer.Server(folder)
    try:
        s.start()
        w = Wire(s.port)
        readable = b"\0\0\0\1" + b"\0\0\0\1" + wire.string("world") + wire.string("anyone")
        same(w.call(wire.CREATE, wire.string("/skip") + wire.buffer(b"") + readable + b"\0\0\0\0")[1], 0)
        same(w.create("/skip/child")[1], 0)
    finally:
        del os.environ["SERVER_JVMFLAGS"]
        s.kill()


@own_server
def the_file_wins_over_a_property(folder):
    os.environ["SERVER_JVMFLAGS"] = "-Dzookeeper.4lw.commands.whitelist=stat -Dzookeeper.skipACL=no"
    s = peer.Server(folder, **{"4lw.commands.whitelist": "ruok"})
    try:
        s.start()
        same(wire.four_letter(s.port, "ruok"), "imok")
        assert "not in the whitelist" in wire.four_letter(s.port, "stat")
    finally:
        del os.environ["SERVER_JVMFLAGS"]
        s.kill()


@own_server
def the_file_is_read_as_java_reads_properties(folder):
    lines = "! a comment\n  tickTime : 700\nmaxClientCnxns 7\\\n    0\nminSessionTimeout=\\u0031500 \n"
    s = peer.Server(folder, tickTime=None, lines=lines)
    try:
        s.start()
        answer = wire.four_letter(s.port, "conf").splitlines()
        for line in ("tickTime=700", "maxClientCnxns=70", "minSessionTimeout=1500", "maxSessionTimeout=14000"):
            assert line in answer, "%s is missing in %s" % (line, answer)
    finally:
        s.kill()


@own_server
def the_own_server_line_names_the_client_port(folder):
    s = peer.Server(folder, clientPort=None, clientPortAddress=None)
    os.makedirs(s.data)
    with open(os.path.join(s.data, "myid"), "w") as myid:
        myid.write("1\n")
    with open(s.config, "a") as config:
        config.write("server.1=127.0.0.1:2888:3888;127.0.0.1:%d\n" % s.port)
    try:
        s.start()
        assert "Mode: standalone" in wire.four_letter(s.port, "srvr")
        same(Wire(s.port).exists("/")[1], 0)
    finally:
        s.kill()


# ---- starting, refused


def refused_with(folder, *parts, **config):
    status, error = peer.run_refused(folder, **config)
    lines = [line for line in error.splitlines() if line.strip()]
    assert status != 0, "the server started"
    last = lines[-1] if lines else ""
    for part in parts:
        assert part in last, "%r is not in %r" % (part, error)
    return lines


@ours_only
def zookeepers_own_data_directory_is_refused(folder):
    version = os.path.join(folder, "data", "version-2")
    os.makedirs(version)
    with open(os.path.join(version, "log.1"), "wb") as log:
        log.write(b"ZKLG\0\0\0\2" + b"\0" * 8)
    refused_with(folder, os.path.join(folder, "data"), "quorate import")
    same(sorted(os.listdir(os.path.join(folder, "data"))), ["version-2"])


@ours_only
def a_data_directory_in_use_is_refused(folder):
    first = peer.Server(os.path.join(folder, "first"))
    try:
        first.start()
        refused_with(os.path.join(folder, "second"), first.data, dataDir=first.data)
        same(wire.four_letter(first.port, "ruok"), "imok")
    finally:
        first.kill()


@ours_only
def a_configured_port_in_use_is_refused(folder):
    first = peer.Server(os.path.join(folder, "first"))
    try:
        first.start()
        refused_with(os.path.join(folder, "second"), str(first.port), clientPort=first.port)
    finally:
        first.kill()


@ours_only
def a_malformed_value_names_file_line_and_key(folder):
    lines = refused_with(folder, "zoo.cfg:1", "tickTime", "fast", tickTime="fast")
    same(len(lines), 1)


@ours_only
def a_wrong_option_is_one_line(folder):
    done = subprocess.run([peer.BINARY, "serve", "--no-such-option"], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0, "the option was taken"
    same(len(done.stderr.splitlines()), 1)
    assert "--no-such-option" in done.stderr, done.stderr


@ours_only
def the_ready_line_names_the_address_and_unknown_keys_are_warnings(folder):
    s = peer.Server(folder, noSuchKey="1")
    try:
        s.start()
        with open(s.log) as log:
            text = log.read()
        assert "quorate ready zk=%s" % s.address in text, text
        assert "noSuchKey" in text, text
        same(s.end(), 0)
    finally:
        s.kill()


@ours_only
def inspect_verifies_a_stopped_servers_data(folder):
    s = peer.Server(folder)
    try:
        s.start()
        w = Wire(s.port)
        w.create("/inspected", b"x")
        w.close_session()
        same(s.end(), 0)
    finally:
        s.kill()
    done = subprocess.run([peer.BINARY, "inspect", s.data], capture_output=True, text=True, timeout=60)
    same((done.returncode, done.stderr), (0, ""))
    assert done.stdout.strip(), "inspect says nothing"


def run_one(function, kind, shared, scratch):
    folder = os.path.join(scratch, function.__name__)
    try:
        if kind == "shared":
            if shared.server.process is None or shared.server.process.poll() is not None:
                shared.server.start()
            function(shared)
        else:
            os.makedirs(folder)
            function(folder)
        return True
    except Exception:  # every failure of a scenario is a counted failure, whatever its kind
        print("FAILED %s\n%s" % (function.__name__, traceback.format_exc()), flush=True)
        return False
    finally:
        try:
            shared.close_clients()
        except Exception:
            print("while closing the clients of %s:\n%s" % (function.__name__, traceback.format_exc()), flush=True)


def main():
    logging.basicConfig(level=logging.CRITICAL)
    parts = sys.argv[1:]
    chosen = [
        (function, kind)
        for function, kind in SCENARIOS
        if (peer.OURS or kind != "ours") and (not parts or any(p in function.__name__ for p in parts))
    ]
    scratch = tempfile.mkdtemp(prefix="quorate-kazoo.")
    shared = Shared(peer.Server(os.path.join(scratch, "shared")))
    passed = failed = 0
    try:
        for function, kind in chosen:
            if run_one(function, kind, shared, scratch):
                passed += 1
            else:
                failed += 1
    finally:
        shared.server.kill()
    if failed:
        print("the servers' folders are kept in %s" % scratch)
    else:
        shutil.rmtree(scratch)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
