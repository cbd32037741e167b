#!/usr/bin/env bash
# zkcli.sh [-server HOST:PORT] [COMMAND ...] : the real command line of ZooKeeper (zkCli.sh), with the jars of ZK_VERSION.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_java; cp="$(zk_jars)" || exit 2
lb="$PEER_CACHE/logconf/off.xml"
[ -e "$lb" ] || { mkdir -p "${lb%/*}"; log_config "$lb" OFF; }
exec java -Xmx128m -XX:TieredStopAtLevel=1 -Dlogback.configurationFile="$lb" -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$cp" org.apache.zookeeper.ZooKeeperMain "$@"
