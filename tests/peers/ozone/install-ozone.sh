#!/usr/bin/env bash
# install-ozone.sh vapor|mini|client : fetches the jars of Apache Ozone (and what they depend on) by Maven, by name, into
# $OZONE_PEER_HOME/lib-SET-VERSION (default: ozone in $PEER_CACHE). Prints that folder on its last line: JAR-DIR of
# `quorate bench cmdw --compare freon:JAR-DIR`.
#   install-ozone.sh vapor   load generators: freon + vapor (cmdw lives in vapor since 2.2)
#   install-ozone.sh mini    the same + ozone-mini-cluster (a real datanode in one JVM)
#   install-ozone.sh client  hdds-client only (XceiverClientGrpc)
# Needs: java >= 11, mvn >= 3.6. About 235 MB of jars, under a minute on a fast link. OZONE_VERSION (2.2.0).
set -euo pipefail
SET=${1:-vapor}
V=${OZONE_VERSION:-2.2.0}
HOME_DIR=${OZONE_PEER_HOME:-${PEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quorate-peers}/ozone}
LIB=$HOME_DIR/lib-$SET-$V
if [ -f "$LIB/.complete" ]; then echo "$LIB"; exit 0; fi
command -v mvn >/dev/null || { echo "mvn not found" >&2; exit 2; }
W=$HOME_DIR/build-$SET-$V; mkdir -p "$W/stub" "$LIB"

# Ozone 2.2.0 was released without its parent POM hdds-hadoop-dependency-client,
# so Maven cannot read hdds-common, hdds-client, ... An empty stand-in with the
# right parent is enough: versions come from the grandparents.
cat > "$W/stub/pom.xml" <<X
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent><groupId>org.apache.ozone</groupId><artifactId>hdds</artifactId><version>$V</version></parent>
  <artifactId>hdds-hadoop-dependency-client</artifactId><version>$V</version><packaging>pom</packaging>
</project>
X
( cd "$W/stub" && mvn -q -B org.apache.maven.plugins:maven-install-plugin:3.1.1:install-file \
    -Dfile=pom.xml -DpomFile=pom.xml -Dpackaging=pom ) >&2

dep() { echo "<dependency><groupId>org.apache.ozone</groupId><artifactId>$1</artifactId><version>$V</version>${2:-}</dependency>"; }
case $SET in
  vapor)  DEPS="$(dep ozone-vapor)$(dep ozone-freon)";;
  mini)   DEPS="$(dep ozone-vapor)$(dep ozone-freon)$(dep ozone-mini-cluster)";;
  client) DEPS="$(dep hdds-client)$(dep hdds-common)$(dep hdds-interface-client)
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>2.0.17</version></dependency>";;
  *) echo "unknown set $SET" >&2; exit 2;;
esac
cat > "$W/pom.xml" <<X
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peer</groupId><artifactId>ozone-$SET</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>$DEPS</dependencies></project>
X
( cd "$W" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$LIB" -DincludeScope=runtime ) >&2
touch "$LIB/.complete"
echo "$LIB"
