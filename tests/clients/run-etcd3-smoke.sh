#!/usr/bin/env bash
# run-etcd3-smoke.sh : the scenarios of etcd3_smoke.py with an unmodified client of etcd from PyPI, over gRPC.
# Env: ETCD_PROGRAM (takes etcd's flags; default: this tree's release binary under the name etcd), PEER_CACHE, PEER_TMP
# The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
peer_tmp
python="$(etcd3_python)" || exit 2
folder="$(mktemp -d "$PEER_TMP/etcd3-smoke.XXXXXX")"
ln -s "$QUORATE" "$folder/etcd"
program="${ETCD_PROGRAM:-$folder/etcd}"
say "server under test: $program"
"$python" -B "$HERE/../clients/etcd3_smoke.py" "$program" "$folder" || exit 1
rm -rf "$folder"
