#!/usr/bin/env bash
# real-etcd.sh FLAGS... : run the real etcd in the foreground with these flags; SIGTERM stops it. It is built on first use.
# Env: ETCD_VERSION (default v3.5.35, the last release line that serves etcd v2 as well)
export ETCD_VERSION="${ETCD_VERSION:-v3.5.35}"
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$ETCD_HERE/build-etcd.sh" etcd >&2 || exit 2
exec "$(etcd_bin)" "$@"
