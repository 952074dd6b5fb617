# SPDX-License-Identifier: Apache-2.0
# Functions shared by quickstart, test, package and others: packages, steps with
# progress, the build. To be sourced with $root set to the project's folder.

# Debian packages to build and run the programs.
packages="build-essential cmake ninja-build pkg-config ccache mold git
  libcaf-dev libzmq3-dev cppzmq-dev libmsgpack-cxx-dev prometheus-cpp-dev
  libyaml-cpp-dev libcli11-dev libspdlog-dev nlohmann-json3-dev
  libmicrohttpd-dev libsodium-dev libssl-dev libedit-dev libseccomp-dev libmimalloc-dev zlib1g-dev libzip-dev
  libcurl4-openssl-dev gnuplot-nox
  libtorch-dev libopenblas0-pthread python3-torch python3-numpy
  python3-venv python3-pip"

# Additional packages for the tests.
test_packages="doctest-dev strace faketime busybox libnetfilter-queue-dev iptables
  iproute2 python3-torchvision python3-yaml prometheus curl"

logs=$root/build/logs

say() { printf '%s\n' "$*"; }

# Prints the line of a log with the cause of a failure: the first compiler
# error, otherwise the last non-empty line.
why() {
  grep -m1 -E '(fatal )?error:|CMake Error|^E: |^millrace:|\(Failed\)|ERROR:' "$1" ||
    grep -v '^[[:space:]]*$' "$1" | tail -n 1
}

# step TITLE COMMAND...: runs the command with its output in a log, and shows
# the progress. On failure, prints the cause in one line and ends the script.
step() {
  title=$1
  shift
  mkdir -p "$logs"
  log=$logs/$(printf '%s' "$title" | tr -c 'a-zA-Z0-9\n' '-').log
  start=$(date +%s)
  "$@" >"$log" 2>&1 &
  job=$!
  while kill -0 "$job" 2>/dev/null; do
    if [ -t 1 ]; then
      at=$(tail -c 4000 "$log" | grep -oE '\[[0-9]+/[0-9]+\]|^ *[0-9]+/[0-9]+ ' | tail -n 1)
      printf '\r\033[K  %s %s (%s s)' "$title" "$at" $(($(date +%s) - start))
    fi
    sleep 0.5
  done
  if wait "$job"; then
    [ -t 1 ] && printf '\r\033[K'
    say "  $title: done in $(($(date +%s) - start)) s"
  else
    [ -t 1 ] && printf '\r\033[K'
    say "  $title: FAILED: $(why "$log")" >&2
    say "  (complete log: $log)" >&2
    exit 1
  fi
}

missing_packages() {
  for p in $1; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' ||
      printf '%s ' "$p"
  done
}

apt_install() {
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      say "E: packages are missing ($*) and there is neither root nor sudo"
      return 1
    }
    as_root=sudo
  fi
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
      --no-install-recommends "$@"
}

# install_packages LIST: does nothing when all packages are installed.
install_packages() {
  command -v dpkg-query >/dev/null || {
    say "  packages: not a Debian system; install the packages of README.md yourself"
    return
  }
  missing=$(missing_packages "$1")
  if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    step "installing packages" apt_install $missing
  else
    say "  packages: all installed"
  fi
}

# build PRESET FOLDER TESTS [TARGET...]: builds the targets; default: all.
# TESTS: ON, or OFF, which does not need test_packages
build() {
  preset=$1
  folder=$2
  tests=$3
  shift 3
  step "configuring ($preset)" cmake --preset "$preset" -DMILLRACE_TESTS="$tests"
  step "building ($preset)" env NINJA_STATUS='[%f/%t] ' ninja -C "$folder" "$@"
}

# prepare_tour FOLDER: makes the models, config and images for tools/tour.
prepare_tour() {
  tools/example-models --store "$1/bundles" digits
  cp config/quickstart.yaml "$1/quickstart.yaml"
  cp build/examples/digits/heldout.npy "$1/digits.npy"
}

# Builds CAF and ZeroMQ with ThreadSanitizer. Both libraries synchronise
# messages; with Debian's builds each message would be reported as a race.
libraries_for_tsan() {
  [ ! -e "$root/build/tsan-libraries/complete" ] || return 0
  library_for_tsan a/actor-framework actor-framework_0.17.6 actor-framework-0.17.6 \
    e2bf5bd243f08bb7d8adde197cfe3e6d71314ed3378fe0692f8932f4c3b3928c \
    -DCAF_NO_IO=ON -DCAF_NO_TOOLS=ON -DCAF_NO_UNIT_TESTS=ON \
    -DCAF_NO_EXAMPLES=ON -DCAF_NO_OPENSSL=ON -DCAF_NO_PYTHON=ON
  library_for_tsan z/zeromq3 zeromq3_4.3.4 libzmq-4.3.4 \
    0ff5a531c9ffaf0dfdc7dc78d13d1383088f454896d252934c429b2554d10559 \
    -DWITH_LIBSODIUM=ON -DENABLE_CURVE=ON -DBUILD_STATIC=OFF -DBUILD_TESTS=OFF \
    -DWITH_PERF_TOOL=OFF -DWITH_DOCS=OFF
  rm -f "$root/build/tsan/CMakeCache.txt" # it may refer to other libraries
  touch "$root/build/tsan-libraries/complete"
}

# library_for_tsan PLACE NAME FOLDER SHA256 CMAKE-OPTIONS: builds one of
# Debian's source packages
library_for_tsan() {
  work=$root/build/tsan-libraries/source
  archive=$2.orig.tar.gz
  folder=$work/$3
  mkdir -p "$work"
  curl -sSfo "$work/$archive" "http://deb.debian.org/debian/pool/main/$1/$archive"
  echo "$4  $work/$archive" | sha256sum -c -
  tar -xzf "$work/$archive" -C "$work"
  shift 4
  cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$root/build/tsan-libraries" \
    -DCMAKE_C_FLAGS="-fsanitize=thread -O1 -g1" \
    -DCMAKE_CXX_FLAGS="-fsanitize=thread -O1 -g1" \
    -DCMAKE_SHARED_LINKER_FLAGS=-fsanitize=thread "$@"
  env NINJA_STATUS='[%f/%t] ' ninja -C "$folder/build" install
}
