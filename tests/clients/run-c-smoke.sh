#!/usr/bin/env bash
# run-c-smoke.sh [NAME-PART...] : compiles c/c_smoke.c and runs it with the unmodified C client, libzookeeper_mt.
# Env: SERVER_CMD (this tree's release binary), PEER_CACHE, PEER_TMP; see tests/peers/README.md.
# The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
own_server_cmd
say "server under test: $SERVER_CMD"
peer_tmp

client="$PEER_CACHE/c-client" # where Debian's packages are unpacked
flags=()
links() { # the compiler finds the header and the library, and what it makes starts
  printf '#include <zookeeper/zookeeper.h>\nint main(void) { return zerror(0) == 0; }\n' >"$PEER_TMP/c-probe.c"
  cc -DTHREADED "$PEER_TMP/c-probe.c" -o "$PEER_TMP/c-probe" "${flags[@]}" -lzookeeper_mt >"$PEER_TMP/c-probe.log" 2>&1 \
    && "$PEER_TMP/c-probe"
}
unpacked_links() {
  local library; library="$(find "$client/root/usr/lib" -name libzookeeper_mt.so 2>/dev/null | head -n 1)"
  [ -n "$library" ] || return 1
  flags=("-I$client/root/usr/include" "-L${library%/*}" "-Wl,-rpath,${library%/*}")
  links
}
unpack() { # needs no root: a user who has no up-to-date package lists makes own ones
  local packages=(libzookeeper-mt-dev libzookeeper-mt2) package
  local own_lists=(-o "Dir::State::lists=$client/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
  say "unpacking ${packages[*]}"
  mkdir -p "$client/lists/partial" || return 1
  (
    cd "$client" || exit 1
    apt-get download "${packages[@]}" \
      || { apt-get "${own_lists[@]}" update && apt-get "${own_lists[@]}" download "${packages[@]}"; } || exit 1
    rm -rf lists
    for package in libzookeeper-mt*.deb; do dpkg -x "$package" root || exit 1; done
  ) >"$client/log" 2>&1
}
may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

if ! command -v cc >/dev/null; then
  may_install || die "a C compiler (cc) is missing"
  apt_need cc gcc libc6-dev
fi
# What is installed comes first. A failing apt_need ends only its subshell: unpacking may still work.
links || { may_install && (apt_need /nonexistent libzookeeper-mt-dev) && links; } || unpacked_links \
  || { unpack && unpacked_links; } \
  || die "libzookeeper_mt and its headers (Debian: libzookeeper-mt-dev) are missing, see $PEER_TMP/c-probe.log and $client/log"

real_server || true
folder="$(mktemp -d "$PEER_TMP/c-smoke.XXXXXX")"
port="$(free_port)"
printf '%s\n' "tickTime=500" "dataDir=$folder/data" "clientPort=$port" "clientPortAddress=127.0.0.1" \
  "4lw.commands.whitelist=*" "admin.enableServer=false" >"$folder/zoo.cfg"
cc -std=gnu11 -O1 -g -Wall -Wextra -DTHREADED "$HERE/../clients/c/c_smoke.c" -o "$folder/c_smoke" \
  "${flags[@]}" -lzookeeper_mt -lpthread || die "c_smoke.c does not compile"
# The last line comes from c_smoke itself.
"$folder/c_smoke" "$folder" "$port" "$@" || exit 1
rm -rf "$folder"
