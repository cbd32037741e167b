# Common helpers, sourced by every script here.
# Environment:
#   PEER_CACHE   where jars, virtualenvs and test sources are kept (default: ~/.cache/quorate-peers)
#   PEER_TMP     scratch for one run, kept (default: a mktemp dir under ${TMPDIR:-/tmp})
#   ZK_VERSION   real ZooKeeper version taken from Maven (default 3.9.5), or "debian" for the Debian package (3.8.0)
#   SERVER_CMD   command that runs ONE server in the foreground when given a zoo.cfg path as last argument
#                (JVM-style -D flags of the test arrive in $SERVER_JVMFLAGS). Default: real-zk.sh, the real ZooKeeper.
set -u
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
PEER_CACHE="${PEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quorate-peers}"
ZK_VERSION="${ZK_VERSION:-3.9.5}"
mkdir -p "$PEER_CACHE"
# QUORATE        this tree's binary (default: the release binary)
export QUORATE="${QUORATE:-$(cd "$HERE/../.." && pwd)/target/release/quorate}"

say() { echo "[$(date +%H:%M:%S)] $*" >&2; }
die() { say "ERROR: $*"; exit 2; }

SUDO=""; [ "$(id -u)" = 0 ] || SUDO="sudo"
apt_need() { # apt_need COMMAND-OR-FILE PACKAGE...
  local probe="$1"; shift
  case "$probe" in /*) [ -e "$probe" ] && return 0 ;; *) command -v "$probe" >/dev/null 2>&1 && return 0 ;; esac
  say "installing $* (apt)"
  $SUDO env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@" >"$PEER_CACHE/apt.log" 2>&1 \
    || { $SUDO apt-get update >>"$PEER_CACHE/apt.log" 2>&1; \
         $SUDO env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@" >>"$PEER_CACHE/apt.log" 2>&1; } \
    || die "apt-get install $* failed, see $PEER_CACHE/apt.log"
}
need_java() { apt_need java openjdk-17-jdk-headless; }
need_javac() { apt_need javac openjdk-17-jdk-headless; }
need_mvn() { need_java; apt_need mvn maven; }

# mvn_dir NAME "g:a:v[:classifier]" ...   -> prints a directory holding those jars and their runtime dependencies
mvn_dir() {
  local name="$1"; shift
  local out="$PEER_CACHE/jars/$name" stamp; stamp="$(printf '%s\n' "$@" | sha1sum | cut -c1-12)"
  if [ ! -e "$out/.ok-$stamp" ]; then
    need_mvn
    rm -rf "$out"; mkdir -p "$out"
    { echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>peers</groupId><artifactId>p</artifactId><version>1</version><dependencies>'
      for c in "$@"; do
        IFS=: read -r g a v cl <<<"$c"
        echo "<dependency><groupId>$g</groupId><artifactId>$a</artifactId><version>$v</version>${cl:+<classifier>$cl</classifier><type>jar</type>}</dependency>"
      done
      echo '</dependencies></project>'; } >"$out/pom.xml"
    say "maven: fetching jars for $name"
    (cd "$out" && mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$out") >"$out/mvn.log" 2>&1 \
      || die "maven failed, see $out/mvn.log"
    # the console launcher brings its own JUnit; an older one beside it breaks discovery
    ls "$out"/junit-platform-console-standalone-*.jar >/dev/null 2>&1 && rm -f "$out"/junit-jupiter-*.jar "$out"/junit-platform-commons-*.jar "$out"/opentest4j-*.jar "$out"/apiguardian-*.jar
    touch "$out/.ok-$stamp"
  fi
  echo "$out"
}

zk_jars() { # class path of the real ZooKeeper
  if [ "$ZK_VERSION" = debian ]; then
    apt_need /usr/share/java/zookeeper.jar libzookeeper-java
    apt_need /usr/share/zookeeper/bin/zkEnv.sh zookeeper
    local j cp=""
    for j in zookeeper zookeeper-jute slf4j-api slf4j-simple netty-handler netty-transport netty-buffer netty-common \
             netty-codec netty-resolver netty-transport-native-epoll netty-transport-native-unix-common \
             metrics-core snappy-java commons-cli commons-io jackson-databind jackson-core jackson-annotations \
             audience-annotations yetus-audience-annotations; do
      [ -e "/usr/share/java/$j.jar" ] && cp="$cp:/usr/share/java/$j.jar"
    done
    echo "${cp#:}"
  else
    case "$ZK_VERSION" in 3.[4-7].*)
      local o; o="$(mvn_dir "zk-$ZK_VERSION" "org.apache.zookeeper:zookeeper:$ZK_VERSION" io.dropwizard.metrics:metrics-core:3.2.5 \
        org.xerial.snappy:snappy-java:1.1.10.5 commons-cli:commons-cli:1.2)" || exit 2
      echo "$o/*"; return;; esac
    local d; d="$(mvn_dir "zk-$ZK_VERSION" "org.apache.zookeeper:zookeeper:$ZK_VERSION" \
       io.dropwizard.metrics:metrics-core:4.1.12.1 org.xerial.snappy:snappy-java:1.1.10.5 commons-cli:commons-cli:1.5.0 \
       ch.qos.logback:logback-classic:1.3.15 com.fasterxml.jackson.core:jackson-databind:2.18.1 \
       org.eclipse.jetty:jetty-server:9.4.56.v20240826 org.eclipse.jetty:jetty-servlet:9.4.56.v20240826)" || exit 2
    echo "$d/*"
  fi
}

default_server_cmd() { [ -n "${SERVER_CMD:-}" ] || export SERVER_CMD="bash $HERE/real-zk.sh"; }
own_server_cmd() { # for tests of ours: without SERVER_CMD the release binary of this tree is tested
  [ -n "${SERVER_CMD:-}" ] || export SERVER_CMD="$QUORATE serve --config"
}

free_port() { # free_port [N] : a loopback port that nobody has, the first of N in a row (default 1)
  # Below those that the system gives to clients: one of them may be taken before the server starts.
  python3 - "${1:-1}" <<'X'
import random, socket, sys

def is_free(port):
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

count = int(sys.argv[1])
firsts = (random.randrange(20000, 32000) for _ in range(1000))
found = next((first for first in firsts if all(map(is_free, range(first, first + count)))), None)
sys.exit(f"there are no {count} free ports in a row") if found is None else print(found)
X
}

log_config() { # log_config FILE LEVEL : a logback configuration that writes to the console
  cat >"$1" <<X
<configuration><appender name="C" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d{HH:mm:ss.SSS} %-5p %c{0} - %m%n</pattern></encoder></appender>
<root level="$2"><appender-ref ref="C"/></root></configuration>
X
}

# python_venv NAME REQUIREMENT...   -> prints the python of a virtual environment that has those packages
python_venv() {
  local venv="$PEER_CACHE/$1" stamp; shift
  stamp="$(printf '%s\n' "$@" | sha1sum | cut -c1-12)"
  if [ ! -e "$venv/.ok-$stamp" ]; then
    apt_need python3 python3
    rm -rf "$venv"; say "installing $* (pip)"
    python3 -m venv "$venv" >/dev/null 2>&1 \
      || { apt_need /nonexistent python3-venv; python3 -m venv "$venv" >/dev/null; } || die "python3 cannot make a virtual environment"
    "$venv/bin/pip" install -q "$@" >"$venv/install.log" 2>&1 || die "pip failed, see $venv/install.log"
    touch "$venv/.ok-$stamp"
  fi
  echo "$venv/bin/python"
}

# etcd3_python : prints the python that has etcd3, an unmodified client of etcd, which needs protobuf 3 and the tenacity of its time
etcd3_python() { python_venv etcd3-client-0.12.0 etcd3==0.12.0 grpcio==1.85.3 protobuf==3.20.3 tenacity==6.3.1; }

# in_own_network : whether this machine lets us have a network namespace; says so if not, as a test that is skipped
in_own_network() {
  unshare -rnm ip link set lo up 2>/dev/null && return
  echo "skipped: the default ports need a network namespace, which this machine does not let us have"
  echo "0 passed, 0 failed"
  return 1
}

# own_network COMMAND... : runs a command in a network namespace, with nothing but a loopback interface; its mounts are its own, too
own_network() { unshare -rnm sh -c 'ip link set lo up && exec "$@"' sh "$@"; }

peer_tmp() { if [ -z "${PEER_TMP:-}" ]; then PEER_TMP="$(mktemp -d "${TMPDIR:-/tmp}/zkpeer.XXXXXX")"; export PEER_TMP; fi; mkdir -p "$PEER_TMP"; }

wait_ruok() { # wait_ruok HOST PORT SECONDS : until `srvr` answers
  local i
  for i in $(seq 1 $(( $3 * 4 ))); do
    if (exec 3<>"/dev/tcp/$1/$2" && printf srvr >&3 && timeout 3 cat <&3 | grep -q '^Mode:') 2>/dev/null; then return 0; fi
    sleep 0.25
  done
  return 1
}

real_server() { # true when SERVER_CMD is the real ZooKeeper; makes its jars and a class-data archive (halves its start-up) ready
  case "$SERVER_CMD" in *real-zk.sh*) ;; *) return 1;; esac
  zk_jars >/dev/null || exit 2
  local jsa="$PEER_CACHE/zk-$ZK_VERSION.jsa" d p port=$((24000 + RANDOM % 900))
  [ -e "$jsa" ] && return 0
  d="$(mktemp -d)"; printf 'clientPort=%s\ndataDir=%s\n4lw.commands.whitelist=*\nadmin.enableServer=false\n' "$port" "$d/data" >"$d/zoo.cfg"
  ( ZK_DUMP_CDS=1 exec bash "$HERE/real-zk.sh" "$d/zoo.cfg" >"$d/log" 2>&1 </dev/null ) & p=$!
  wait_ruok 127.0.0.1 "$port" 60; kill "$p" 2>/dev/null; wait "$p" 2>/dev/null; rm -rf "$d"
  return 0
}
