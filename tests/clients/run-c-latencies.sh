#!/usr/bin/env bash
# run-c-latencies.sh HOST:PORT[,HOST:PORT...] [CLIENTS [ZNODES [WATCHES]]] : the phases of zk-latencies with the unmodified C client,
# libzookeeper_mt, and what they cost the processes that listen on these ports. Not a part of `make test`.
# Defaults: 10 clients, each a thread with a session and 10,000 znodes, each of which is watched 5 times.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
[ $# -ge 1 ] || die "usage: run-c-latencies.sh HOST:PORT[,HOST:PORT...] [CLIENTS [ZNODES [WATCHES]]]"
peer_tmp
. "$HERE/../clients/c-client.sh"
apt_need ss iproute2
pids=()
for address in ${1//,/ }; do
  pid="$(ss -Hltnp "sport = :${address##*:}" | sed -n 's/.*pid=\([0-9]*\).*/\1/p' | head -n 1)"
  [ -n "$pid" ] || die "nobody listens on $address on this machine, or it may not be seen who does"
  pids+=("$pid")
done
program="$PEER_TMP/c_latencies"
cc -std=gnu11 -O2 -Wall -Wextra -DTHREADED "$HERE/../clients/c/c_latencies.c" -o "$program" "${flags[@]}" -lzookeeper_mt -lpthread \
  || die "c_latencies.c does not compile"
"$program" "$1" "${2:-10}" "${3:-10000}" "${4:-5}" "${pids[@]}"
