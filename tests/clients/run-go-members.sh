#!/usr/bin/env bash
# run-go-members.sh [NAME PART ...] : changes the members of clusters, as etcd's own tests do, with its unmodified Go client and
# etcdctl, whose versions go/go.mod and ../peers/etcd pin. With name parts only the scenarios whose names have one of them.
# Env: as in run-go-smoke.sh. ETCD_PROGRAM= a real etcd tests the test: build-etcd.sh puts it into $PEER_CACHE/etcd/bin.
# The last line is `N passed, N failed`.
exec "$(dirname "${BASH_SOURCE[0]}")/run-go-smoke.sh" members "$@"
