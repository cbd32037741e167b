#!/usr/bin/env bash
# run-docs-commands.sh [FILE...] : runs the commands of the README and of docs/ (docs_commands.py says how) with real clients of
# ZooKeeper and etcd, in a network namespace of its own: the ports are those of the text, whatever this machine has on them. There the
# addresses 10.0.0.1 to 10.0.0.9 are this machine's, under the names m1 and zk1 to m9 and zk9, and /var/lib is empty.
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
ln -s "$QUORATE" "$programs/etcd"
ln -s "$ROOT/tests/clients/docs-servers.sh" "$programs/servers"
ln -s "$(etcdctl_bin)" "$programs/etcdctl"
ln -s "$(etcdutl_bin)" "$programs/etcdutl"
printf '#!/bin/sh\nexec "%s/zkcli.sh" "$@"\n' "$HERE" >"$programs/zkCli.sh"
chmod +x "$programs/zkCli.sh"
cd "$ROOT" || exit 2
[ $# -gt 0 ] || set -- README.md docs/*.md
{ echo "127.0.0.1 localhost"; for i in $(seq 9); do echo "10.0.0.$i m$i zk$i"; done; } >"$programs/hosts"
export HOSTS="$programs/hosts"
PATH="$programs:$PATH" own_network sh -c '
  for i in $(seq 9); do ip address add "10.0.0.$i/32" dev lo || exit 2; done
  mount --bind "$HOSTS" /etc/hosts && mount -t tmpfs tmpfs /var/lib && exec "$@"' sh \
  "$python" -B tests/clients/docs_commands.py "$@"
