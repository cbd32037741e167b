#!/usr/bin/env bash
# cargo-tests.sh [all] : every test that cargo builds. Without `all` those are left out that docs/testing.md lists as "only in
# make test-all". Status 1 if any failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
if [ "${1:-}" = all ]; then exec cargo test --release --workspace --no-fail-fast; fi

# kept PACKAGE : the names that the table has for the tests of a package, or their beginnings
kept() { sed -n "s/^| $1 | \`\([^\`]*\)\` |.*/\1/p" docs/testing.md; }

status=0
cargo test --profile quick --workspace --no-fail-fast --exclude quorate --exclude sim || status=1
cargo test --profile quick --no-fail-fast --package quorate --bins --test tidy --test fuzz_bodies || status=1
cargo test --profile quick --no-fail-fast --package sim --lib || status=1
for package in quorate sim; do
  listed="$(cargo test --profile quick --package "$package" --test it -- --list 2>/dev/null)"
  skips=()
  while read -r name; do
    skips+=(--skip "$name")
    grep -q "^$name" <<<"$listed" || { echo "error: docs/testing.md names $name of $package, which is no test"; status=1; }
  done < <(kept "$package")
  [ "${#skips[@]}" -gt 0 ] || { echo "error: docs/testing.md lists no test of $package"; status=1; }
  cargo test --profile quick --package "$package" --test it --no-fail-fast -- "${skips[@]}" || status=1
done
exit $status
