#!/usr/bin/env bash
# run-go-smoke.sh [members [NAME PART ...]] : builds go/ and runs it: locks, elections, transactional memory and users of the
# unmodified Go client of etcd (client/v3/concurrency), whose versions go/go.mod and go/go.sum pin. `members`: see run-go-members.sh
# Env: ETCD_PROGRAM (takes etcd's flags; default: this tree's release binary under the name etcd), PEER_CACHE, PEER_TMP
# The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/etcd/lib.sh"
peer_tmp
# Without Go this client cannot be built: that is named, and is no fault of this tree.
if ! lack="$(need_go "the Go client is not built" 2>&1)"; then
  echo "skipped: ${lack##*ERROR: }"
  echo "0 passed, 0 failed"
  exit 0
fi
folder="$(mktemp -d "$PEER_TMP/go-smoke.XXXXXX")"
mkdir -p "$PEER_CACHE/etcd/bin"
smoke="$PEER_CACHE/etcd/bin/go-smoke"
(cd "$HERE/../clients/go" && go build -p "${GO_JOBS:-2}" -o "$smoke" .) || die "go-smoke does not build"
ln -s "$QUORATE" "$folder/etcd"
program="${ETCD_PROGRAM:-$folder/etcd}"
say "server under test: $program"
if [ "${1:-}" = members ]; then
  "$ETCD_HERE/build-etcd.sh" etcd || exit 1
  # Level 5, which changes of the members need, is not released. A real etcd does not look at this variable.
  shift
  ETCDCTL="$(etcdctl_bin)" QUORATE_LEVEL_MAX=5 "$smoke" members "$program" "$folder" "$@" || exit 1
else
  "$smoke" "$program" "$folder" || exit 1
fi
rm -rf "$folder"
