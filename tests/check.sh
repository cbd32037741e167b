#!/usr/bin/env bash
# check.sh : the short round between two edits: format, lint, unit and script tests, the layout rules and a few simulated runs.
# Warm it takes under three minutes on two cores. tests/run.sh runs everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc)))}"

step() {
  local start=$SECONDS
  "$@" || { echo "failed: $*" >&2; exit 1; }
  echo "$((SECONDS - start)) s: $*"
}

step cargo fmt --all --check
step cargo clippy --quiet --workspace --all-targets -- -D warnings
# The profile is that of make test, so that both build the same once. Without optimisation the unit tests run for minutes.
step cargo test --quiet --profile quick --workspace --lib --bins --test tidy --test formats --no-fail-fast
step "${CARGO_TARGET_DIR:-target}/quick/quorate" sim --seeds 4
