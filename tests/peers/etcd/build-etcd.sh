#!/usr/bin/env bash
# build-etcd.sh [etcd] [etcdutl] [benchmark] : builds the real etcd (server, etcdctl), its tool for files, and its load generator,
# each as an ordinary Go module dependency of a throw-away module, into $PEER_CACHE/etcd/bin. What is there already is not built again.
# Needs Go >= 1.26 in PATH. Env: ETCD_VERSION, ETCD_BENCHMARK_VERSION (see lib.sh), GO_JOBS (default 2)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
set -e

module() { # module NAME : enters a fresh module
  rm -rf "$ETCD_HOME/src/$1"
  mkdir -p "$ETCD_HOME/src/$1" "$ETCD_HOME/bin"
  cd "$ETCD_HOME/src/$1"
  printf 'module peers/%s\n\ngo %s.0\n' "$1" "$GO_MIN" >go.mod
}

build() { # build OUTPUT PACKAGE
  go build -p "${GO_JOBS:-2}" -o "$1.new" "$2"
  mv "$1.new" "$1"
}

build_etcd() {
  local root=go.etcd.io/etcd
  module etcd
  go get "$root/server/v3@$ETCD_VERSION" "$root/etcdctl/v3@$ETCD_VERSION"
  mkdir -p main
  printf 'package main\n\nimport (\n\t"os"\n\n\t"%s/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' $root >main/main.go
  build "$(etcdctl_bin)" "$root/etcdctl/v3"
  build "$(etcd_bin)" ./main
}

build_etcdutl() {
  module etcdutl
  go get "go.etcd.io/etcd/etcdutl/v3@$ETCD_VERSION"
  build "$(etcdutl_bin)" go.etcd.io/etcd/etcdutl/v3
}

build_benchmark() {
  module benchmark
  go get "go.etcd.io/etcd/v3/tools/benchmark@$ETCD_BENCHMARK_VERSION"
  build "$(benchmark_bin)" go.etcd.io/etcd/v3/tools/benchmark
}

[ $# -gt 0 ] || set -- etcd etcdutl benchmark
for what in "$@"; do
  case "$what" in
    etcd) bin="$(etcd_bin)" ;;
    etcdutl) bin="$(etcdutl_bin)" ;;
    benchmark) bin="$(benchmark_bin)" ;;
    *) die "unknown: $what" ;;
  esac
  [ ! -x "$bin" ] || continue
  need_go "the real etcd is not built"
  say "building $what with $(go env GOVERSION), some minutes"
  "build_$what" >"$ETCD_HOME/$what.log" 2>&1 || die "$what does not build, see $ETCD_HOME/$what.log"
done
