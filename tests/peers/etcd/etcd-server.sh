#!/usr/bin/env bash
# etcd-server.sh start|stop|status single|cluster3
# Starts the real etcd on loopback, which is built on first use.
# Env: ETCD_PORT  client port of the first member (default 22379); its peer port is one more; the next members add 10 each
#      ETCD_DATA  data, logs and process ids (default $PEER_CACHE/etcd/run), kept between start and stop; ETCD_FRESH=1 wipes it first
#      ETCD_ARGS  more flags, blank separated
# Prints the members as a target of `quorate bench` on success.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
act="${1:-}" shape="${2:-single}" base="${ETCD_PORT:-22379}"
case "$shape" in single) n=1 ;; cluster3) n=3 ;; *) die "shape: single|cluster3" ;; esac
data="${ETCD_DATA:-$ETCD_HOME/run}/$shape-$base"
port() { echo $((base + 10 * $1)); }
members="" peers=""
for ((i = 0; i < n; i++)); do
  members+="${members:+,}127.0.0.1:$(port $i)"
  peers+="${peers:+,}m$i=http://127.0.0.1:$(($(port $i) + 1))"
done

is_healthy() { # is_healthy PORT
  (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET /health HTTP/1.0\r\n\r\n' >&3 && timeout 3 cat <&3 | grep -q '"health":"true"') 2>/dev/null
}

start_all() {
  local i client peer tries
  "$ETCD_HERE/build-etcd.sh" etcd || exit 2
  [ -z "${ETCD_FRESH:-}" ] || rm -rf "$data"
  mkdir -p "$data"
  for ((i = 0; i < n; i++)); do
    client="http://127.0.0.1:$(port $i)" peer="http://127.0.0.1:$(($(port $i) + 1))"
    # shellcheck disable=SC2086
    (exec setsid "$(etcd_bin)" --name m$i --data-dir "$data/m$i" --log-level warn \
      --listen-client-urls "$client" --advertise-client-urls "$client" \
      --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
      --initial-cluster "$peers" --initial-cluster-token "peers-$base" ${ETCD_ARGS:-} >"$data/m$i.log" 2>&1 </dev/null) &
    echo $! >"$data/m$i.pid"
  done
  for ((i = 0; i < n; i++)); do
    for tries in $(seq 150); do
      is_healthy "$(port $i)" && continue 2
      kill -0 "$(cat "$data/m$i.pid")" 2>/dev/null || break
      sleep 0.2
    done
    tail -n 5 "$data/m$i.log" >&2
    die "member $i did not come up, see $data/m$i.log"
  done
  echo "etcd://$members"
}

case "$act" in
  start) start_all ;;
  stop)
    for ((i = 0; i < n; i++)); do
      [ ! -f "$data/m$i.pid" ] || { end_pid "$(cat "$data/m$i.pid")"; rm -f "$data/m$i.pid"; }
    done ;;
  status) "$(etcdctl_bin)" --endpoints "$members" endpoint status -w table ;;
  *) die "start|stop|status" ;;
esac
