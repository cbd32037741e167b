# Finds the unmodified C client, libzookeeper_mt, or gets it: sourced behind ../peers/lib.sh and peer_tmp. Sets `flags` for cc.

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
