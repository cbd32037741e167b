#!/usr/bin/env bash
# run-zkcli-smoke.sh : one session of the real zkCli.sh against a server, its output compared command by command.
# Env: SERVER_CMD (this tree's release binary), ZK_VERSION (3.9.5), PEER_CACHE, PEER_TMP; see tests/peers/README.md.
# The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
own_server_cmd
say "server under test: $SERVER_CMD"
peer_tmp
need_java
real_server || true
zk_jars >/dev/null || exit 2
folder="$(mktemp -d "$PEER_TMP/zkcli.XXXXXX")"
port="$(free_port)"
printf '%s\n' "tickTime=2000" "dataDir=$folder/data" "clientPort=$port" "clientPortAddress=127.0.0.1" \
  "admin.enableServer=false" >"$folder/zoo.cfg"
(exec $SERVER_CMD "$folder/zoo.cfg" >"$folder/server.log" 2>&1 </dev/null) &
server=$!
trap 'kill -9 "$server" 2>/dev/null' EXIT
wait_ruok 127.0.0.1 "$port" 60 || die "the server did not come up, see $folder/server.log"

# One `command => a part of its output` a line, `@` for a silent one; every command is one test. zkCli echoes nothing, so
# each command is followed by a marker that fails the same way on every server.
steps="$(cat <<'STEPS'
create /cli one => Created /cli
create -s /cli/n- x => Created /cli/n-0000000000
create -e /cli/e x => Created /cli/e
get /cli => one
set -s /cli two => dataVersion = 1
get -s /cli => dataLength = 3
set -v 9 /cli three => version No is not valid : /cli
ls /cli => [e, n-0000000000]
ls -R /cli => /cli/n-0000000000
stat /cli => numChildren = 2
create /cli two => Node already exists: /cli
create /missing/x two => Node does not exist: /missing/x
delete /cli => Node not empty: /cli
addauth digest user:password => @
create /secret x auth::cdrwa => Created /secret
getAcl /secret => : cdrwa
setAcl /cli world:anyone:cdrwa => @
sync / => Sync is OK
setquota -n 10 /cli => @
listquota /cli => count=10
delquota -n /cli => @
deleteall /cli => @
get /cli => Node does not exist: /cli
delete /secret => @
ls / => [zookeeper]
STEPS
)"
marker="get /no-such-marker"
index=0
while IFS= read -r step; do printf '%s\n%s-%s\n' "${step%% => *}" "$marker" "$((++index))"; done <<<"$steps" >"$folder/input"
echo quit >>"$folder/input"
timeout 120 "$HERE/zkcli.sh" -server "127.0.0.1:$port" <"$folder/input" >"$folder/output" 2>&1
passed=0 failed=0 index=0 from=1
while IFS= read -r step; do
  index=$((index + 1))
  command="${step%% => *}" expected="${step##* => }"
  to="$(grep -n -m1 -Fx "Node does not exist: /no-such-marker-$index" "$folder/output" | cut -d: -f1)"
  seen="$(awk -v from="$from" -v to="${to:-0}" 'NR >= from && NR < to' "$folder/output")"
  if [ -n "$to" ] && { { [ "$expected" = @ ] && [ -z "$seen" ]; } || grep -qF -- "$expected" <<<"$seen"; }; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED %s\n  expected: %s\n  got: %s\n' "$command" "$expected" "$seen"
  fi
  from=$((${to:-$((from - 1))} + 1))
done <<<"$steps"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && rm -rf "$folder"
