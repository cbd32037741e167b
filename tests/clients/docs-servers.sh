#!/usr/bin/env bash
# docs-servers.sh etcd N NAME.. [existing] | zk N SERVER.. | ready N.. | raised N.. | kill N.. : servers on other machines that a page
# takes for granted. They know level 5, and keep their files in the current folder. docs_commands.py runs this as the command `servers`
# of a `<!-- given: ... -->`, in the network of run-docs-commands.sh, where m1 and zk1 are the address 10.0.0.1, and so on.
#   etcd N NAME.. [existing]  starts the member mN of a new cluster of these members, or of one that exists
#   zk N SERVER..             starts server N, with these servers in its zoo.cfg; the password of `super` is `secret`
#   ready N..                 waits until these are ready
#   raised N..                waits until they are at level 5, too
#   kill N.. | all            ends them at once and for good, as machines that are lost
set -eu

start() { # start N COMMAND...
  local number="$1" folder="given-$1"
  shift
  rm -f "$folder/log"
  (cd "$folder"; setsid nohup "$@" >log 2>&1 </dev/null & echo $! >pid)
}

case "$1" in
  etcd)
    number="$2" address="10.0.0.$2" cluster="" state=new
    shift 2
    for name in "$@"; do
      [ "$name" != existing ] || { state=existing; continue; }
      cluster="$cluster,$name=http://$name:2380"
    done
    mkdir -p "given-$number"
    start "$number" env QUORATE_LEVEL_MAX=5 etcd --name "m$number" --data-dir data \
      --listen-peer-urls "http://$address:2380" --initial-advertise-peer-urls "http://m$number:2380" \
      --listen-client-urls "http://$address:2379" --advertise-client-urls "http://m$number:2379" \
      --initial-cluster "${cluster#,}" --initial-cluster-state "$state"
    ;;
  zk)
    number="$2"
    shift 2
    mkdir -p "given-$number"
    echo "$number" >"given-$number/myid"
    {
      printf '%s\n' dataDir=. tickTime=2000 initLimit=10 syncLimit=5 "admin.serverAddress=10.0.0.$number" reconfigEnabled=true \
        quorate.levelMax=5 DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=
      for server in "$@"; do echo "server.$server=zk$server:2888:3888;zk$server:2181"; done
    } >"given-$number/zoo.cfg"
    start "$number" quorate serve --config zoo.cfg
    ;;
  ready | raised)
    case "$1" in
      ready) line="quorate ready\|ready to serve client requests" ;;
      raised) line="the level is 5" ;;
    esac
    shift
    for number in "$@"; do
      for _ in $(seq 300); do
        grep -q "$line" "given-$number/log" && continue 2
        sleep 0.1
      done
      echo "server $number does not say \"$line\":" >&2
      cat "given-$number/log" >&2
      exit 1
    done
    ;;
  kill)
    shift
    [ "$1" != all ] || set -- $(ls -d given-* 2>/dev/null | sed 's/given-//')
    for number in "$@"; do
      kill -9 "$(cat "given-$number/pid")" 2>/dev/null || true
      rm -rf "given-$number"
    done
    ;;
esac
