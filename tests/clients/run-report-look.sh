#!/usr/bin/env bash
# run-report-look.sh [PAGE.html [FOLDER]] : opens a report of `quorate bench` in headless Chromium, at 1280 and 420 pixels, light and
# dark, and looks at it with report_look.py. Without PAGE it looks at the example pages of the crate
# `results`, and at that of a quick reproduction by the release binary, if there is one.
# Screenshots and a PDF go to FOLDER (default: a folder in PEER_TMP).
# Env: CHROMIUM (a browser; default: Chromium of Debian, which is installed where it is missing), PLAYWRIGHT_VERSION (1.65.2),
# PEER_CACHE, PEER_TMP; see tests/peers/README.md. The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
peer_tmp
look="$HERE/../clients/report_look.py"

skip() { # skip REASON : without a browser nothing can be looked at, which is no fault of this tree
  echo "skipped: $1"
  echo "0 passed, 0 failed"
  exit 0
}

# find_browser  -> prints the browser
find_browser() {
  local name
  for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
    command -v "$name" && return 0
  done
  [ -z "${CHROMIUM:-}" ] || die "CHROMIUM=$CHROMIUM is no program"
  command -v apt-get >/dev/null || die "no Chromium here, and no apt-get to install it"
  apt_need /usr/bin/chromium chromium
  echo /usr/bin/chromium
}

browser="$(find_browser 2>"$PEER_TMP/browser.log")" || skip "$(tail -n 1 "$PEER_TMP/browser.log" | sed 's/.*ERROR: //')"
version="${PLAYWRIGHT_VERSION:-1.65.2}"
python="$(python_venv "playwright-$version" "playwright==$version" 2>"$PEER_TMP/python.log")" \
  || skip "$(tail -n 1 "$PEER_TMP/python.log" | sed 's/.*ERROR: //')"
say "browser: $("$browser" --version 2>/dev/null)"

folder="${2:-$(mktemp -d "$PEER_TMP/report-look.XXXXXX")}"
mkdir -p "$folder"
if [ $# -gt 0 ]; then
  pages=("$1")
else
  (cd "$HERE/../.." && REPORT_EXAMPLES="$folder" cargo test -q --release -p results the_example_makes_whole_pages) >"$folder/cargo.log" 2>&1 \
    || die "the example pages are not written, see $folder/cargo.log"
  pages=("$folder/report.html" "$folder/compare.html" "$folder/doubts.html")
  quorate="${CARGO_TARGET_DIR:-$HERE/../../target}/release/quorate"
  if [ -x "$quorate" ]; then
    "$quorate" reproduce hunt --quick --only "1 server" --peer none --dir "$folder" --html "$folder/hunt.html" >"$folder/hunt.txt" 2>&1 \
      || die "the reproduction failed, see $folder/hunt.txt"
    pages+=("$folder/hunt.html")
  fi
fi
say "screenshots: $folder"
exec "$python" -B "$look" "$browser" "$folder" "${pages[@]}"
