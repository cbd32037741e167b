#!/usr/bin/env bash
# real-zk.sh ZOO_CFG : run the real Apache ZooKeeper in the foreground on that configuration file.
# It is the default SERVER_CMD. Same contract as `zkServer.sh start-foreground CFG`; SIGTERM stops it.
# Env: ZK_VERSION (3.9.5 | debian | any 3.x on Maven), SERVER_JVMFLAGS (-D... handed on), ZK_HEAP (default 512m), ZK_LOGLEVEL (WARN)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 1 ] || die "usage: real-zk.sh ZOO_CFG"
cfg="${!#}"
need_java
cp="$(zk_jars)" || exit 2
lb="$PEER_CACHE/logconf"; mkdir -p "$lb"
[ -e "$lb/logback.xml" ] || log_config "$lb/logback.xml" '${zkloglevel:-WARN}'
grep -q '^admin' "$cfg" || adm="-Dzookeeper.admin.enableServer=false"
jsa="$PEER_CACHE/zk-$ZK_VERSION.jsa"; cds=""
[ -n "${ZK_DUMP_CDS:-}" ] && cds="-XX:ArchiveClassesAtExit=$jsa" || { [ -e "$jsa" ] && cds="-XX:SharedArchiveFile=$jsa -Xshare:auto"; }
exec java $cds -Xmx"${ZK_HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel="${ZK_TIER:-4}" -Dfile.encoding=UTF-8 -Djava.net.preferIPv4Stack=true \
  -Dzookeeper.jmx.log4j.disable=true -Dzkloglevel="${ZK_LOGLEVEL:-WARN}" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  ${adm:-} ${SERVER_JVMFLAGS:-} -Dlogback.configurationFile="$lb/logback.xml" -cp "$cp" org.apache.zookeeper.server.quorum.QuorumPeerMain "$cfg"
