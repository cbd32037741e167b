#!/usr/bin/env bash
# run-default-faces.sh : the scenarios of default_faces.py, in a network namespace, where the default ports are free.
# Env: PEER_CACHE, PEER_TMP. The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
peer_tmp
in_own_network || exit 0
python="$(etcd3_python)" || exit 2
folder="$(mktemp -d "$PEER_TMP/default-faces.XXXXXX")"
own_network "$python" -B "$HERE/../clients/default_faces.py" "$QUORATE" "$folder" || exit 1
rm -rf "$folder"
