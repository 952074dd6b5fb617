#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python_client_test.sh VENV MILLRACE BUNDLES: installs the client as README.md
# says, in a virtual environment, and runs its test.
set -eu
venv=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -x "$venv/bin/pip" ] || /usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" install -q "$root/tools/client/python"
exec "$venv/bin/python" "$root/tests/e2e/python_client_test.py" "$2" "$3"
