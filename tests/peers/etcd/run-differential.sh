#!/usr/bin/env bash
# run-differential.sh [option of `quorate bench differential` ...] : this tree's release binary beside the real etcd; every answer
# to equal requests must be equal. Without options 300 seeds, some 1.5 minutes. The last line is `passed=N failed=M skipped=0`,
# counted in seeds; up to the first difference, which is shown.
# Env: SEEDS (default 300), QUORATE (default target/release/quorate), ETCD_VERSION (see lib.sh)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
seeds="${SEEDS:-300}"
quorate="$QUORATE"
[ -x "$quorate" ] || die "$quorate is not built"
real_or_skip etcd

# Requests go one at a time, each with an fsync: memory is as good as a disk here, and faster.
scratch="$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/etcd-differential.XXXXXX")"
export ETCD_DATA="$scratch" ETCD_PORT
ETCD_PORT="$(free_port 2)"
ours=""
clean_up() {
  "$ETCD_HERE/etcd-server.sh" stop single
  [ -z "$ours" ] || end_pid "$ours"
  rm -rf "$scratch"
}
trap clean_up EXIT

# Hashes of passwords take a ms then, and not 50.
export ETCD_BCRYPT_COST=4
compare="$("$ETCD_HERE/etcd-server.sh" start single)" || exit 2
port="$(free_port 1)"
url="http://127.0.0.1:$port"
# Changes of the members are compared, too, which need level 5.
QUORATE_LEVEL_MAX=5 setsid "$quorate" etcd --data-dir "$scratch/quorate" --listen-client-urls "$url" --advertise-client-urls "$url" \
  >"$scratch/quorate.log" 2>&1 </dev/null &
ours=$!
ready=""
for _ in $(seq 150); do
  ready="$(grep 'ready to serve client requests' "$scratch/quorate.log" || true)"
  [ -z "$ready" ] || break
  kill -0 "$ours" 2>/dev/null || break
  sleep 0.2
done
[ -n "$ready" ] || { tail -n 5 "$scratch/quorate.log" >&2; die "quorate did not come up"; }
[ $# -gt 0 ] || set -- --seeds "$seeds"
"$quorate" bench differential --target "etcd://127.0.0.1:$port" --compare "$compare" "$@" | tee "$scratch/out"
status=${PIPESTATUS[0]}
if [ "$status" = 0 ]; then
  passed="$seeds" failed=0
else
  # The seeds before the one that differs were equal.
  passed="$(sed -n 's/^seed \([0-9]*\) differs.*/\1/p' "$scratch/out")" failed=1
  passed=$((${passed:-1} - 1))
fi
echo "passed=$passed failed=$failed skipped=0"
exit "$status"
