#!/usr/bin/env bash
# run.sh : every test of this repository. The last line is `N passed, N failed`, summed over all kinds; status 1 if any failed.
# It installs what the tests need (rustup takes the toolchain's parts from rust-toolchain.toml; the client suites fetch Java,
# jars, Python packages and the C client on first use, see tests/peers/README.md) and goes on after a failing part.
# Env: ONLY="part ..." runs only these parts: fmt clippy cargo kazoo-smoke java-smoke zkcli-smoke c-smoke go-smoke kazoo
#      etcd-differential etcd-backup report-look
#      SERVER_CMD   what the client suites test (default: this tree's release binary)
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
export SERVER_CMD="${SERVER_CMD:-$ROOT/target/release/quorate serve --config}"
passed_all=0 failed_all=0 failed_names=""

# report PART PASSED FAILED SECONDS : adds up, and shows the end of the log of a part that failed. What has failed is said once
# more at the very end: whoever sees only that must know what to run again.
report() {
  passed_all=$((passed_all + $2)) failed_all=$((failed_all + $3))
  printf '%-17s %5d passed %5d failed %5d s\n' "$1" "$2" "$3" "$4"
  [ "$3" = 0 ] || { echo "--- the end of $LOGS/$1.log"; tail -n 60 "$LOGS/$1.log"; echo "---"; }
  [ "$3" = 0 ] || failed_names+="$(failures "$1")"$'\n'
}

# failures PART : a line for each failed test of a part, with what its panic said; the part where none has a name
failures() {
  local log="$LOGS/$1.log"
  { grep -E '^test .* \.\.\. FAILED$' "$log" || grep -E '^(FAILED|ERROR|error)' "$log" || echo "the whole part"; } |
    head -n 20 | sed "s|^|failed in $1: |"
  grep -A 3 -E "panicked at" "$log" | head -n 12
}

# part PART COUNTER COMMAND... : runs a part with its output in a log; COUNTER prints `PASSED FAILED` for that log
part() {
  local name="$1" counter="$2" start=$SECONDS status passed failed
  shift 2
  case " ${ONLY:-$name} " in *" $name "*) ;; *) return ;; esac
  "$@" >"$LOGS/$name.log" 2>&1 </dev/null
  status=$?
  read -r passed failed <<<"$("$counter" "$LOGS/$name.log" "$status")"
  # A part that ends badly without a failed test (it did not build, a server did not start) has failed once.
  if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
  report "$name" "$passed" "$failed" "$((SECONDS - start))"
  grep -h "^skipped: " "$LOGS/$name.log"
}

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

part fmt count_one cargo fmt --all --check
# Many tests wait, for a disk or for a process that starts: twice as many threads as cores do not wait for each other.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"

part clippy count_one cargo clippy --release --workspace --all-targets -- -D warnings
part cargo count_cargo cargo test --release --workspace --no-fail-fast
# `cargo test` builds the binary as well; this says so, and names the error where it does not.
cargo build --release --bin quorate >"$LOGS/build.log" 2>&1 || { tail -n 20 "$LOGS/build.log"; echo "the binary does not build"; }
part kazoo-smoke count_suite tests/clients/run-kazoo-smoke.sh
part java-smoke count_suite tests/clients/run-java-smoke.sh
part zkcli-smoke count_suite tests/clients/run-zkcli-smoke.sh
part c-smoke count_suite tests/clients/run-c-smoke.sh
part go-smoke count_suite tests/clients/run-go-smoke.sh
part kazoo count_suite env KAZOO_CLUSTER=1 tests/peers/run-kazoo.sh \
  kazoo/tests/test_client.py kazoo/tests/test_lock.py kazoo/tests/test_watchers.py
part etcd-differential count_suite tests/peers/etcd/run-differential.sh
part etcd-backup count_suite tests/peers/etcd/run-backup.sh
part report-look count_suite tests/clients/run-report-look.sh

printf '%s' "$failed_names"
echo "$passed_all passed, $failed_all failed"
[ "$failed_all" = 0 ] && [ "$passed_all" != 0 ]
