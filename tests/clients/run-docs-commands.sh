#!/usr/bin/env bash
# run-docs-commands.sh [FILE...] : runs the commands of the README and of docs/ (docs_commands.py says how) with real clients of
# ZooKeeper and etcd, in a network namespace of its own: the ports are those of the text, whatever this machine has on them.
# Env: PEER_CACHE, PEER_TMP, KAZOO_VERSION; see tests/peers/README.md. The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/etcd/lib.sh"
peer_tmp
export ROOT; ROOT="$(cd "$HERE/../.." && pwd)"
in_own_network || exit 0
"$HERE/etcd/build-etcd.sh" etcd etcdutl >&2 || exit 2
python="$(python_venv "kazoo-client-${KAZOO_VERSION:-2.11.0}" "kazoo==${KAZOO_VERSION:-2.11.0}")" || exit 2
need_java; zk_jars >/dev/null || exit 2
programs="$(mktemp -d "$PEER_TMP/programs.XXXXXX")"
ln -s "$QUORATE" "$programs/quorate"
ln -s "$(etcdctl_bin)" "$programs/etcdctl"
ln -s "$(etcdutl_bin)" "$programs/etcdutl"
printf '#!/bin/sh\nexec "%s/zkcli.sh" "$@"\n' "$HERE" >"$programs/zkCli.sh"
chmod +x "$programs/zkCli.sh"
cd "$ROOT" || exit 2
[ $# -gt 0 ] || set -- README.md docs/*.md
PATH="$programs:$PATH" own_network "$python" -B tests/clients/docs_commands.py "$@"
