#!/usr/bin/env bash
# run-c-smoke.sh [NAME-PART...] : compiles c/c_smoke.c and runs it with the unmodified C client, libzookeeper_mt.
# Env: SERVER_CMD (this tree's release binary), PEER_CACHE, PEER_TMP; see tests/peers/README.md.
# The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
own_server_cmd
say "server under test: $SERVER_CMD"
peer_tmp

. "$HERE/../clients/c-client.sh"

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
