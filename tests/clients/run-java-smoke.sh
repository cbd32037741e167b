#!/usr/bin/env bash
# run-java-smoke.sh : compiles JavaSmoke.java and runs it with the unmodified ZooKeeper client from Maven.
# Env: SERVER_CMD (this tree's release binary), ZK_VERSION (3.9.5), PEER_CACHE, PEER_TMP; see tests/peers/README.md.
# The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
own_server_cmd
say "server under test: $SERVER_CMD"
peer_tmp
need_javac
if real_server; then say "comparing with the real ZooKeeper $ZK_VERSION"; fi
jars="$(zk_jars)" || exit 2
classes="$PEER_TMP/java-smoke"
folder="$(mktemp -d "$PEER_TMP/java-server.XXXXXX")"
mkdir -p "$classes"
javac -nowarn -d "$classes" -cp "$jars" "$HERE/../clients/java/JavaSmoke.java" || die "javac failed"
log_config "$classes/logback.xml" OFF
# The last line comes from JavaSmoke itself.
java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlogback.configurationFile="$classes/logback.xml" \
  -cp "$classes:$jars" JavaSmoke "$folder" || exit 1
rm -rf "$folder"
