#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tree to its own rules; prints each breach and fails."""

import pathlib
import re
import subprocess
import sys

import language

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORDER = ["runtime", "models", "transport", "actors", "tools"]
MAY_INCLUDE = {
    folder: set(ORDER[: i + 1]) for i, folder in enumerate(ORDER)
}
MAY_INCLUDE["config"] = {"runtime", "models", "transport", "config"}
MAY_INCLUDE["actors"].add("config")
MAY_INCLUDE["tools"].update(
    {"config", "bench", "millrace", "client", "shell", "simulator", "trace"})

# Files that take apart what strangers send, and what has no place in them: a
# product of sizes that could overflow (runtime/sizes.hpp), a stack as deep as
# somebody likes.
DECODERS = [
    "models/bundle.cpp", "models/confined/arena.cpp",
    "models/confined/confined_backend.cpp", "runtime/records.cpp",
    "models/npy.cpp", "models/safetensors.cpp", "models/signature.cpp", "models/tensor.cpp",
    "transport/client_message.cpp", "transport/codec_kinds.hpp",
    "transport/decode.cpp", "transport/wire.cpp",
]
NOT_IN_DECODERS = r"^[^/\"]*([A-Za-z_)\]]\w* \* (?!sizeof)[\w(]|\balloca\b)"

MOST_LINES = 500
MOST_COLUMNS = 80

# What only some files may see or say, and which.
ONLY_IN = {
    r"#include <(torch|ATen|c10|caffe2)/": ["models/backend/torch/", "tests/bench/"],
    r"#include <zmq": ["transport/zmq/"],
    r"#include <msgpack": ["transport/encode.cpp", "transport/decode.cpp", "tests/"],
    r"#include <prometheus/": ["runtime/metrics.cpp", "runtime/metric_series.hpp"],
    r"#include <spdlog/": ["runtime/log.cpp"],
    r"#include <microhttpd": ["runtime/http_server.cpp"],
    r"caf/all\.hpp": [],
    r"_clock::now\(": ["runtime/time.hpp", "tests/bench/"],
    r"steady_now": [
        "runtime/time.hpp",
        "runtime/log.cpp",
        "runtime/http_server.cpp",
        "runtime/worker_thread.cpp",
        "runtime/records.cpp",
        "models/host_memory.cpp",
        "models/device/backend_device.cpp",
        "models/device/batch_run.cpp",
        "models/backend/warm_up.cpp",
        "models/confined/",
        "transport/zmq/zmq_bulk.cpp",
        "transport/objects/curl_store.cpp",
        "tools/",
        "tests/",
    ],
    r"system_clock": [],
    r"sleep_for|usleep": ["tests/support/", "tests/e2e/"],
    r"random_device": [],
    r"std::thread\b|caf::detached": [
        "runtime/worker_thread",
        "runtime/reactor",
        "models/gpu/cuda/upload.cpp",
        "models/confined/inside.cpp",
        "transport/zmq/",
        "transport/objects/curl_store.cpp",
        "tools/",
        "tests/e2e/",
        "tests/support/canary_load.hpp",
        "tests/support/bad_network",
        "tests/support/fake_cuda.cpp",
        "tests/support/besieged.hpp",
        "tests/support/echo_gateway",
        "tests/unit/cuda_test.cpp",
    ],
    r"caf::infinite": ["tests/"],
    r"std::cout": ["tools/", "tests/e2e/installed/"],
}


def tracked(*patterns):
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [p for p in out.splitlines() if (ROOT / p).exists()]


def check_includes(path, text):
    folder = path.split("/")[0]
    allowed = MAY_INCLUDE.get(folder)
    if allowed is None:
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'#include "([a-z_]+)/', line)
        of_policies = folder == "config" and '"actors/policies/' in line
        if match and match.group(1) not in allowed and not of_policies:
            yield f"{path}:{number}: {folder} may not include {match.group(1)}"


# What a policy's file may not see, even through others.
NOT_IN_POLICIES = re.compile(
    r'#include (<caf/|"runtime/(actor|log|metrics|store)|"simulator/|<zmq|<fstream|'
    r'<iostream|<thread)|steady_now\(\)|_clock::now')


def included_by(path, seen):
    """The files of the project that a file includes, itself first."""
    if path in seen or not (ROOT / path).exists():
        return
    seen.add(path)
    yield path
    for match in re.finditer(r'^#include "([^"]+)"', (ROOT / path).read_text(), re.M):
        yield from included_by(match.group(1), seen)


def check_policies(path):
    """Policies see no actors, clocks, log, I/O or simulator."""
    for file in included_by(path, set()):
        if file == "runtime/time.hpp":  # which names the clock, and policies do not
            continue
        for number, line in enumerate((ROOT / file).read_text().splitlines(), 1):
            if NOT_IN_POLICIES.search(line):
                yield f"{path}: sees {file}:{number}: {line.strip()}"


def check_bans(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, places in ONLY_IN.items():
            if re.search(pattern, line) and not any(map(path.startswith, places)):
                yield f"{path}:{number}: '{pattern}' does not belong here"
        if path in DECODERS and re.search(NOT_IN_DECODERS, line):
            yield f"{path}:{number}: multiplies sizes, which product() is for"


def check_form(path, text):
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        yield f"{path}: {len(lines)} lines (at most {MOST_LINES})"
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_COLUMNS:
            yield f"{path}:{number}: {len(line)} columns (at most {MOST_COLUMNS})"
    if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:3]):
        yield f"{path}: no licence tag in the first three lines"
    if path.endswith(".hpp") and "#pragma once" not in text:
        yield f"{path}: no #pragma once"


def check_test_names(path, text):
    """CTest has lists of names with semicolons: what is behind one is cut off,
    and a test of that name does not exist, which counts as passed."""
    for match in re.finditer(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)', text):
        if ";" in match.group(1):
            yield f"{path}: a test's name with a semicolon: {match.group(1)[:40]}"


def check_doc_paths(path, text):
    """Names of files in the docs lead somewhere."""
    base = (ROOT / path).parent
    for match in re.finditer(r"\]\(([^)#:]+)\)", text):
        if not (base / match.group(1)).exists():
            yield f"{path}: link to {match.group(1)}, which is not there"
    pattern = r"`((?:runtime|models|transport|actors|config|tools|tests)/[\w./-]+)`"
    for match in re.finditer(pattern, text):
        if not list(ROOT.glob(match.group(1) + "*")):
            yield f"{path}: names {match.group(1)}, which is not there"


def main():
    breaches = []
    for path in tracked("*.cpp", "*.hpp", "*.h"):
        text = (ROOT / path).read_text()
        for check in (check_includes, check_bans, check_form, check_test_names):
            breaches += check(path, text)
        if path.startswith("actors/policies/"):
            breaches += check_policies(path)
    for path in tracked("*.md"):
        breaches += check_doc_paths(path, (ROOT / path).read_text())
    readme = len((ROOT / "README.md").read_text().splitlines())
    if readme >= 200:
        breaches.append(f"README.md: {readme} lines (under 200)")
    breaches += language.too_many()
    for breach in breaches:
        print(breach)
    print(f"tidy: {len(breaches)} breach(es)")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
