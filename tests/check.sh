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
step cargo test --quiet --workspace --lib --bins --no-fail-fast
step cargo test --quiet --package quorate --test tidy
step cargo test --quiet --package machine --package storage --package member --test formats
step cargo run --quiet --package quorate -- sim --seeds 4
