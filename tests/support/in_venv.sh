#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# in_venv.sh VENV 'PACKAGES' SCRIPT ARGUMENTS...: installs packages of PyPI, or
# folders, in a virtual environment and runs a script there. A VENV with a name
# that ends in -system also has the packages of Debian, such as PyTorch.
set -eu
venv=$1
packages=$2
shift 2
case $venv in *-system) more=--system-site-packages ;; *) more= ;; esac
# shellcheck disable=SC2086
[ -x "$venv/bin/pip" ] || /usr/bin/python3 -m venv $more "$venv"
# shellcheck disable=SC2086
"$venv/bin/pip" install -q $packages
exec "$venv/bin/python" "$@"
