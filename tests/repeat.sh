#!/usr/bin/env bash
# repeat.sh [ROUNDS] : the tests of `make test` that cargo runs, ROUNDS times (10), each beside two loops that keep two cores busy: a
# test that fails beside other load is found here. A round that was run for this commit is not run again, so the command can be
# ended and given again. The last line is `N rounds, N failed`; status 1 if any failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
rounds="${1:-10}"
export CARGO_TARGET_DIR="$PWD/target"
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"
logs="target/repeat/$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD || echo -changed)"
mkdir -p "$logs"
cargo test --quiet --profile quick --workspace --no-run || exit 1

busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
for _ in 1 2; do
  (while :; do :; done) &
  busy+=($!)
done

failed=0
for round in $(seq "$rounds"); do
  log="$logs/$round"
  if [ ! -e "$log.status" ]; then
    start=$SECONDS
    timeout --kill-after=10 3600 tests/cargo-tests.sh >"$log.log" 2>&1 </dev/null
    echo $? >"$log.status"
    echo "round $round: status $(cat "$log.status"), $((SECONDS - start)) s"
  fi
  [ "$(cat "$log.status")" = 0 ] || { failed=$((failed + 1)); grep -E '^test .* FAILED$|^error' "$log.log"; }
done
echo "$rounds rounds, $failed failed"
[ "$failed" = 0 ]
