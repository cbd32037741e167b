#!/usr/bin/env bash
# run-kazoo-smoke.sh [NAME-PART...] : the scenarios of kazoo_smoke.py with an unmodified kazoo from PyPI.
# Env: SERVER_CMD (this tree's release binary), KAZOO_VERSION (2.11.0), PEER_CACHE; see tests/peers/README.md.
# The last line is `N passed, N failed`.
. "$(dirname "${BASH_SOURCE[0]}")/../peers/lib.sh"
own_server_cmd
say "server under test: $SERVER_CMD"
python="$(python_venv "kazoo-client-${KAZOO_VERSION:-2.11.0}" "kazoo==${KAZOO_VERSION:-2.11.0}")" || exit 2
real_server || true
exec "$python" -B "$HERE/../clients/kazoo_smoke.py" "$@"
