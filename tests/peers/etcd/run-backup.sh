#!/usr/bin/env bash
# run-backup.sh : a backup that etcdctl takes of this tree's release binary is restored by etcdutl, and the real etcd serves it;
# a backup of the real etcd is restored by `quorate restore`, and this tree's binary serves it. Keys at several revisions, hashes,
# leases and users are compared. The last line is `passed=N failed=M skipped=0`.
# Env: QUORATE (default target/release/quorate), ETCD_VERSION (see lib.sh)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
quorate="$QUORATE"
[ -x "$quorate" ] || die "$quorate is not built"
real_or_skip etcd etcdutl

scratch="$(mktemp -d "${TMPDIR:-/tmp}/etcd-backup.XXXXXX")"
server=""
clean_up() {
  [ -z "$server" ] || end_pid "$server"
  rm -rf "$scratch"
}
trap clean_up EXIT
port="$(free_port 2)"
peer=$((port + 1))
ctl() { "$(etcdctl_bin)" --endpoints "127.0.0.1:$port" "$@" 2>>"$scratch/ctl.log"; }
passed=0 failed=0
check() { # check WHAT EXPECTED FOUND
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf '%s: expected\n%s\nfound\n%s\n' "$1" "$2" "$3"
  fi
}

# start PROGRAM DATA : the server takes etcd's flags
start() {
  local tries
  setsid "$1" --name m1 --data-dir "$2" --log-level warn --bcrypt-cost 4 \
    --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "m1=http://127.0.0.1:$peer" >>"$scratch/server.log" 2>&1 </dev/null &
  server=$!
  for tries in $(seq 100); do
    ! curl -sf "http://127.0.0.1:$port/health" | grep -q '"true"' || return 0
    sleep 0.1
  done
  tail -n 5 "$scratch/server.log" >&2
  die "$1 did not come up"
}

stop() {
  end_pid "$server"
  wait "$server" 2>/dev/null
  server=""
}

# shown : everything that the server says of its data, without what differs by server
shown() {
  local at
  for at in 0 "$revision" $((revision - 5)) $((revision - 30)) "$compacted"; do
    echo "at $at: $(ctl get '' --from-key --rev "$at" -w json | sed 's/"header":{[^}]*}//')"
  done
  echo "before: $(ctl get '' --from-key --rev $((compacted - 1)) 2>&1)"
  ctl lease timetolive 1267 --keys | sed 's/remaining([0-9]*s)//'
  ctl user list
  ctl user get bob
  ctl role get reader
  ctl get '' --from-key -w json | sed 's/.*"revision":\([0-9]*\),"raft_term.*/revision \1/'
}

# fill : keys with a history that is compacted, a large one, one of a lease; users. Sets revision and compacted.
fill() {
  for i in $(seq 60); do
    ctl put "key$((i % 20))" "value $i" >/dev/null
    [ $((i % 7)) != 0 ] || ctl del "key$((i * 3 % 20))" >/dev/null
  done
  head -c 1200000 /dev/zero | tr '\0' v | ctl put large >/dev/null
  ctl lease grant 3600 >/dev/null
  curl -sf "http://127.0.0.1:$port/v3/lease/grant" -d '{"ID":"4711","TTL":"3600"}' >/dev/null || die "no lease"
  ctl put --lease=1267 leased 1 >/dev/null
  printf 'version("none") = "0"\n\nput in-one 1\nput in-one-2 2\n\n\n' | ctl txn >/dev/null
  ctl user add root:r >/dev/null
  ctl user add bob:b >/dev/null
  ctl role add reader >/dev/null
  ctl role grant-permission reader read key1 key2 >/dev/null
  ctl user grant-role root root >/dev/null
  ctl user grant-role bob reader >/dev/null
  revision="$(ctl get none -w json | sed 's/.*"revision":\([0-9]*\).*/\1/')"
  compacted=$((revision - 40))
  ctl compaction "$compacted" >/dev/null
  ctl auth enable >/dev/null
}

hash_at() { ctl endpoint hashkv --rev "$1" | cut -d, -f 2; }

ln -s "$quorate" "$scratch/etcd"
start "$scratch/etcd" "$scratch/ours"
fill
check "a backup by nobody" "" "$(ctl snapshot save "$scratch/none.db")"
check "a backup by a user" "" "$(ctl --user bob:b snapshot save "$scratch/none.db")"
ctl --user root:r snapshot save "$scratch/backup.db" >/dev/null
ctl --user root:r auth disable >/dev/null
ours="$(shown)"
hash="$(hash_at "$revision")"
stop

status="$("$(etcdutl_bin)" snapshot status "$scratch/backup.db" -w json)"
check "the revision" "$revision" "$(sed 's/.*"revision":\([0-9]*\).*/\1/' <<<"$status")"
"$(etcdutl_bin)" snapshot restore "$scratch/backup.db" --data-dir "$scratch/real" --name m1 \
  --initial-cluster "m1=http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" >"$scratch/restore.log" 2>&1
check "the status of the restore" 0 $?
start "$(etcd_bin)" "$scratch/real"
check "permissions are enforced" "" "$(ctl get key1)"
check "bob reads" "key10" "$(ctl --user bob:b get key10 --keys-only | head -n 1)"
ctl --user root:r auth disable >/dev/null
check "the data" "$ours" "$(shown)"
ctl put more 1 >/dev/null
check "a write, a compaction and a defragmentation" "compacted revision $((revision + 1))" \
  "$(ctl compaction $((revision + 1)) && ctl defrag >/dev/null)"
stop

"$quorate" restore "$scratch/backup.db" --data-dir "$scratch/again" >"$scratch/restore.log" 2>&1
check "the status of a restore from our own backup" 0 $?
start "$scratch/etcd" "$scratch/again"
ctl --user root:r auth disable >/dev/null
check "our data again" "$ours" "$(shown)"
check "their hash again" "$hash" "$(hash_at "$revision")"
stop

rm -r "$scratch/real"
start "$(etcd_bin)" "$scratch/real"
fill
ctl --user root:r snapshot save "$scratch/backup.db" >/dev/null
ctl --user root:r auth disable >/dev/null
real="$(shown)"
stop
"$quorate" restore "$scratch/backup.db" --data-dir "$scratch/new" >"$scratch/restore.log" 2>&1
check "the status of a restore from a real backup" 0 $?
start "$scratch/etcd" "$scratch/new"
check "permissions are enforced here" "" "$(ctl get key1)"
check "bob reads here" "key10" "$(ctl --user bob:b get key10 --keys-only | head -n 1)"
ctl --user root:r auth disable >/dev/null
check "the data here" "$real" "$(shown)"
check "a write here" OK "$(ctl put more 1)"
stop
# The database of an etcd that was killed has no hash.
"$quorate" restore "$scratch/real/member/snap/db" --data-dir "$scratch/raw" >"$scratch/restore.log" 2>&1
check "the status of a restore without a hash" 1 $?
"$quorate" restore "$scratch/real/member/snap/db" --data-dir "$scratch/raw" --skip-hash-check \
  --bump-revision 1000 --mark-compacted >>"$scratch/restore.log" 2>&1
check "the status of one that needs none" 0 $?
start "$scratch/etcd" "$scratch/raw"
check "the revision is raised" $((revision + 1000)) "$(ctl get none -w json | sed 's/.*"revision":\([0-9]*\).*/\1/')"
check "older revisions are compacted" "etcdserver: mvcc: required revision has been compacted" \
  "$(curl -s "http://127.0.0.1:$port/v3/kv/range" -d '{"key":"AA==","revision":2}' | sed 's/.*"message":"\([^"]*\)".*/\1/')"
check "the keys are there" 11 "$(ctl get key1 --prefix --keys-only | grep -c .)"
stop
echo "passed=$passed failed=$failed skipped=0"
[ "$failed" = 0 ]
