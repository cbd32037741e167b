# Sourced by every script here, after which that of the folder above is as well.
# Environment:
#   ETCD_VERSION            the real etcd (default v3.6.16)
#   ETCD_BENCHMARK_VERSION  etcd's load generator (default v3.6.8)
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
ETCD_HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
ETCD_HOME="$PEER_CACHE/etcd"
ETCD_VERSION="${ETCD_VERSION:-v3.6.16}"
ETCD_BENCHMARK_VERSION="${ETCD_BENCHMARK_VERSION:-v3.6.8}"
GO_MIN=1.26
mkdir -p "$ETCD_HOME"

etcd_bin() { echo "$ETCD_HOME/bin/etcd-$ETCD_VERSION"; }
etcdctl_bin() { echo "$ETCD_HOME/bin/etcdctl-$ETCD_VERSION"; }
etcdutl_bin() { echo "$ETCD_HOME/bin/etcdutl-$ETCD_VERSION"; }
benchmark_bin() { echo "$ETCD_HOME/bin/benchmark-$ETCD_BENCHMARK_VERSION"; }

# real_or_skip PART... : builds these parts of the real etcd. Without them there is nothing to compare with: that is named, and is
# no fault of this tree.
real_or_skip() {
  local lack
  lack="$("$ETCD_HERE/build-etcd.sh" "$@" 2>&1)" && return
  echo "skipped: ${lack##*$'\n'}"
  echo "passed=0 failed=0 skipped=1"
  exit 0
}

# end_pid PID : ends a process that was started here, and waits until it is gone
end_pid() {
  local i
  kill "$1" 2>/dev/null || return 0
  for i in $(seq 50); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "$1" 2>/dev/null
}

# need_go WHAT : ends with "WHAT: ..." unless Go is there in a version that builds etcd
need_go() {
  local have
  have="$(go env GOVERSION 2>/dev/null | sed 's/^go//')" || true
  [ -n "$have" ] || die "$1: Go >= $GO_MIN is missing (no go in PATH)"
  [ "$(printf '%s\n%s\n' "$GO_MIN" "$have" | sort -V | head -n 1)" = "$GO_MIN" ] \
    || die "$1: Go >= $GO_MIN is missing (go in PATH is $have)"
}
