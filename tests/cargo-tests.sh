#!/usr/bin/env bash
# cargo-tests.sh [all] : every test that cargo builds. Without `all` those are left out that docs/testing.md lists as "only in
# make test-all". Status 1 if any failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
if [ "${1:-}" = all ]; then exec cargo test --release --workspace --no-fail-fast; fi

# Always the whole workspace: some packages alone would have other features, and be built again.
test=(cargo test --profile quick --workspace --no-fail-fast)
status=0
"${test[@]}" --lib --bins --test generated --test formats --test real_disk --test fuzz_bodies --test tidy || status=1
listed="$("${test[@]}" --test it -- --list 2>/dev/null)"
skips=()
while read -r name; do
  skips+=(--skip "$name")
  grep -q "^$name" <<<"$listed" || { echo "error: docs/testing.md lists $name, which is no test"; status=1; }
done < <(sed -n 's/^| \(quorate\|sim\) | `\([^`]*\)` |.*/\2/p' docs/testing.md)
[ "${#skips[@]}" -gt 0 ] || { echo "error: docs/testing.md lists no test for make test-all only"; status=1; }
"${test[@]}" --test it -- "${skips[@]}" || status=1
exit $status
