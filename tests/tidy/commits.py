#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the subjects of commits: 'area: imperative', at most 72 characters.

    tests/tidy/commits.py              # the commits since the rule began
    tests/tidy/commits.py BASE         # the commits since BASE
    tests/tidy/commits.py --subject 'router: record when a batch arrived'"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULE_BEGAN = "fd963b1"
LENGTH_MAX = 72

# Words that end like a past or third-person form, and are imperatives.
IMPERATIVES = {"embed", "exceed", "feed", "need", "proceed", "read", "seed", "shed",
               "speed", "spread", "bring", "string", "ping", "focus", "canvas"}
NO_VERBS = set("a an the no not one it its that this those these what who more less fewer "
               "all each every some under over with for from of in on at where when".split())


def faults(subject):
    """Yields what is wrong with a subject."""
    if len(subject) > LENGTH_MAX:
        yield f"{len(subject)} characters (at most {LENGTH_MAX})"
    match = re.match(r"[\w./-]+(?:,? [\w./-]+){0,3}: (\S+)", subject)
    if not match:
        yield "no 'area: ' at the start"
        return
    verb = match.group(1).lower()
    third_person = verb.endswith("s") and not verb.endswith("ss")
    if verb in NO_VERBS or (verb not in IMPERATIVES and (
            verb.endswith(("ed", "ing")) or third_person)):
        yield f"'{match.group(1)}' is not an imperative (expected 'add', 'fix', ...)"


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", default=RULE_BEGAN)
    parser.add_argument("--subject", help="check this text instead of commits")
    args = parser.parse_args()
    if args.subject is not None:
        lines = ["subject " + args.subject]
    else:
        found = git("rev-parse", "--verify", "-q", args.base + "^{commit}").returncode == 0
        span = [f"{args.base}..HEAD"] if found else ["-1"] # a shallow clone
        lines = git("log", "--no-merges", "--format=%h %s", *span).stdout.splitlines()
    wrong = 0
    for line in lines:
        number, subject = line.split(" ", 1)
        for fault in faults(subject):
            wrong += 1
            print(f"{number} {subject}\n  {fault}")
    print(f"commits: {len(lines)} subjects, {wrong} fault(s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
