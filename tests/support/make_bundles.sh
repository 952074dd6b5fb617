#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make_bundles.sh MILLRACE FOLDER: the bundles that tests serve, once per build
# (format 3).
set -eu
millrace=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
[ "$folder/done" -nt "$here/make_models.py" ] &&
  [ "$folder/done" -nt "$here/make_bundles.sh" ] && exit 0
rm -rf "$folder"
mkdir -p "$folder"
"${PYTHON:-/usr/bin/python3}" "$here/make_models.py" "$folder/scripts"
import() {
  name=$1
  shift
  "$millrace" model import "$folder/scripts/$name.pt" --name "$name" \
    --store "$folder/bundles" "$@"
}
import identity --input x:F32:-1,4
import affine --input x:F32:-1,4 --output y
import picky --input x:F32:-1,4
import tallying --input x:F32:-1,4 --stateful
import ballast --input x:F32:-1,4
import lasting --input x:F32:-1,4 --rows-independent
import wide --input x:F32:-1,4
import keeping --input x:F32:-1,4 --stateful
import lookup --input x:F32:-1,4
import fatal --input x:F32:-1,4 --rows-independent
import relay --input x:F32:-1,4 --layer-size 0
import residual --input x:F32:-1,4 --layer-size 0
import prying --input x:F32:-1,4 --trusted
touch "$folder/done"
