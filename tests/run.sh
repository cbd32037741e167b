#!/usr/bin/env bash
# run.sh [all] : the tests of this repository. The last line is `N passed, N failed`, summed over all kinds; status 1 if any failed.
# Without `all` it is the round of `make test`: build, unit tests, formats, simulated runs, the real binary with a real client of
# ZooKeeper and one of etcd. With `all` it is that of `make test-all`, which CI runs: everything, also what docs/testing.md lists as
# "only in make test-all". It installs what the tests need (rustup takes the toolchain's parts from rust-toolchain.toml; the client
# suites fetch Java, jars, Go modules, Python packages and the C client on first use, see tests/peers/README.md) and goes on after a
# failing part. In the round of `all` a test that this machine cannot run has failed, unless tests/skipped-allowed.txt has its reason.
# Env: ONLY="part ..." runs only these parts of the round (the names are those that it prints)
#      SERVER_CMD     what the client suites test (default: the binary that the round has built)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
ROOT="$PWD"
# The parts find the binary there, wherever builds go otherwise.
export CARGO_TARGET_DIR="$ROOT/target"
LOGS="$ROOT/target/test-logs"
mkdir -p "$LOGS"
export PEER_TMP="$LOGS/peers"
rm -rf "$PEER_TMP"
mkdir -p "$PEER_TMP"
export QUORATE_SKIPPED_FILE="$LOGS/skipped"
rm -f "$QUORATE_SKIPPED_FILE"
# Many tests wait, for a disk or for a process that starts: twice as many threads as cores do not wait for each other.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"

case "${1:-}" in
  "") parts="fmt build tests kazoo-smoke etcd3-smoke default-faces" ;;
  all) parts="fmt build tests clippy kazoo-smoke etcd3-smoke default-faces java-smoke zkcli-smoke c-smoke go-smoke kazoo etcd-differential \
go-members etcd-backup report-look docs-commands" ;;
  *) echo "run.sh [all]" >&2; exit 2 ;;
esac
round="${1:-}"
# `make test` builds faster what it tests; `make test-all` tests what is shipped.
if [ "$round" = all ]; then profile=release; else profile=quick; fi
export QUORATE="$ROOT/target/$profile/quorate"
export SERVER_CMD="${SERVER_CMD:-$QUORATE serve --config}"
passed_all=0 failed_all=0 failed_names="" times="" running="" job=""

# at : the time since the beginning
at() { printf '%2d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }

# report PART PASSED FAILED SECONDS : adds up, and shows the end of the log of a part that failed. What has failed, and how long each
# part took, is said once more at the very end: whoever sees only that must know what to run again.
report() {
  passed_all=$((passed_all + $2)) failed_all=$((failed_all + $3)) times+=", $1 $4 s"
  printf '%s  %-17s %5d passed %5d failed %5d s\n' "$(at)" "$1" "$2" "$3" "$4"
  [ "$3" = 0 ] || { echo "--- the end of $LOGS/$1.log"; tail -n 60 "$LOGS/$1.log"; echo "---"; }
  [ "$3" = 0 ] || failed_names+="$(failures "$1")"$'\n'
}

# failures PART : a line for each failed test of a part, with what its panic said; the part where none has a name
failures() {
  local log="$LOGS/$1.log"
  { grep -E '^test .* \.\.\. FAILED$' "$log" || grep -E '^(FAILED|ERROR|error)' "$log" || echo "the whole part"; } |
    head -n 20 | sed "s|^|failed in $1: |"
  grep -A 3 -E "panicked at" "$log" | head -n 12
  unended "$log" | sed "s|^|has not ended in $1: |"
}

# unended LOG : the tests that ran for more than a minute and have no result
unended() {
  awk '/has been running for over 60 seconds$/ { late[$2] = 1 } /^test .* \.\.\. / { delete late[$2] } END { for (it in late) print it }' "$1"
}

# part PART LIMIT COUNTER COMMAND... : runs a part for LIMIT seconds at most, with its output in a log; COUNTER prints `PASSED
# FAILED` for that log
part() {
  local name="$1" limit="$2" counter="$3" start=$SECONDS status passed failed
  shift 3
  case " $parts " in *" $name "*) ;; *) return ;; esac
  parts="${parts#*"$name"}" parts="${parts# }"
  case " ${ONLY:-$name} " in *" $name "*) ;; *) return ;; esac
  echo "$(at)  $name begins${parts:+; then: $parts}"
  running="$name"
  timeout --kill-after=10 "$limit" "$@" >"$LOGS/$name.log" 2>&1 </dev/null &
  job=$!
  wait "$job"
  status=$?
  running=""
  [ "$status" != 124 ] || echo "error: it did not end within $limit s" >>"$LOGS/$name.log"
  read -r passed failed <<<"$("$counter" "$LOGS/$name.log" "$status")"
  # A part that ends badly without a failed test (it did not build, a server did not start) has failed once.
  if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
  report "$name" "$passed" "$failed" "$((SECONDS - start))"
  grep -h "^skipped: " "$LOGS/$name.log" | tee -a "$QUORATE_SKIPPED_FILE"
}

# ended : says where the round was when a signal ends it
ended() {
  echo "ended in ${running:-no part}, $(at)"
  [ -z "$running" ] || { tail -n 20 "$LOGS/$running.log"; unended "$LOGS/$running.log" | sed 's|^|has not ended: |'; }
  [ -z "$job" ] || kill "$job" 2>/dev/null
  exit 1
}
trap ended TERM INT

# The whole command is one test.
count_one() { if [ "$2" = 0 ]; then echo "1 0"; else echo "0 1"; fi; }

# `test result: ok. N passed; M failed; ...`, once for each test binary.
count_cargo() {
  awk '/^test result: / { for (i = 2; i <= NF; i++) { if ($i == "passed;") p += $(i - 1); if ($i == "failed;") f += $(i - 1) } }
       END { print p + 0, f + 0 }' "$1"
}

# The last line that says `N passed, N failed` or `passed=N failed=N ...`.
count_suite() {
  awk '/^[0-9]+ passed, [0-9]+ failed$/ { p = $1; f = $3 }
       /^passed=[0-9]+ failed=[0-9]+/ { split($1, a, "="); split($2, b, "="); p = a[2]; f = b[2] }
       END { print p + 0, f + 0 }' "$1"
}

part fmt 60 count_one cargo fmt --all --check
part build 3000 count_one cargo test --profile "$profile" --workspace --no-run
part tests 2400 count_cargo tests/cargo-tests.sh $round
part clippy 900 count_one cargo clippy --release --workspace --all-targets -- -D warnings
part kazoo-smoke 300 count_suite tests/clients/run-kazoo-smoke.sh
part etcd3-smoke 300 count_suite tests/clients/run-etcd3-smoke.sh
part default-faces 300 count_suite tests/clients/run-default-faces.sh
part java-smoke 600 count_suite tests/clients/run-java-smoke.sh
part zkcli-smoke 600 count_suite tests/clients/run-zkcli-smoke.sh
part c-smoke 600 count_suite tests/clients/run-c-smoke.sh
part go-smoke 900 count_suite tests/clients/run-go-smoke.sh
part kazoo 600 count_suite env KAZOO_CLUSTER=1 tests/peers/run-kazoo.sh \
  kazoo/tests/test_client.py kazoo/tests/test_lock.py kazoo/tests/test_watchers.py
part etcd-differential 1200 count_suite tests/peers/etcd/run-differential.sh
part go-members 900 count_suite tests/clients/run-go-members.sh
part etcd-backup 600 count_suite tests/peers/etcd/run-backup.sh
part report-look 600 count_suite tests/clients/run-report-look.sh
part docs-commands 900 count_suite tests/clients/run-docs-commands.sh

if [ "$round" = all ] && [ -s "$QUORATE_SKIPPED_FILE" ] && grep -vFf tests/skipped-allowed.txt "$QUORATE_SKIPPED_FILE"; then
  echo "tests were skipped, above, for a reason that tests/skipped-allowed.txt does not have"
  failed_all=$((failed_all + 1))
fi
[ ! -s "$QUORATE_SKIPPED_FILE" ] || sort -u "$QUORATE_SKIPPED_FILE"
printf '%s' "$failed_names"
echo "times: ${times#, }"
echo "$passed_all passed, $failed_all failed"
[ "$failed_all" = 0 ] && [ "$passed_all" != 0 ]
