#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Counts idioms that make technical text hard to read, per 1,000 words.

    tests/tidy/language.py             # one row per folder and kind of text
    tests/tidy/language.py --list actors/router config/OPERATING.md

Counted are comments, string literals (messages, help, errors), test names and
Markdown outside of code blocks. Each idiom has legitimate uses; the limit keeps
them rare. tests/tidy/tidy.py fails a kind of text of a folder above the limit."""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

IDIOMS = re.compile(
    r"\b(who|whom|whose|somebody|nobody|says|tells|hears|any more|so many|so long|"
    r"of (it|them|those|that)|what (is|was|it|they|there|has))\b", re.I)

# Idioms per 1,000 words, and the words below which a rate means nothing.
RATE_MAX = 3.0
WORDS_MIN = 300

LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
TEST_NAME = re.compile(r'\b(?:TEST_CASE|SUBCASE)\w*\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)')


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def cpp_comments(text):
    """Yields (line, text) of each run of comment lines."""
    run, start = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = LITERAL.sub('""', line)
        at = bare.find("//")
        if at < 0:
            if run:
                yield start, "\n".join(run)
            run = []
            continue
        if not run:
            start = number
        run.append(re.sub(r"^/+<?", "", bare[at:]))
    if run:
        yield start, "\n".join(run)


def cpp_literals(text):
    """Yields (line, text) of each run of adjacent string literals."""
    code = re.sub(r"^\s*(//|#include).*$", "", text, flags=re.M)
    for match in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', code):
        joined = "".join(part[1:-1] for part in LITERAL.findall(match.group()))
        if " " in joined:
            yield line_of(code, match.start()), joined
    for match in re.finditer(r'R"(\w*)\((.*?)\)\1"', text, re.S):
        yield line_of(text, match.start()), match.group(2)


def test_names(text):
    for match in TEST_NAME.finditer(text):
        yield line_of(text, match.start()), "".join(
            part[1:-1] for part in LITERAL.findall(match.group(1)))


def script_comments(text):
    """Yields comments of Python, shell, CMake and YAML, and docstrings."""
    run, start = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        at = re.search(r"(^|\s)#(?!!)(.*)", line)
        if at:
            if not run:
                start = number
            run.append(at.group(2))
        elif run:
            yield start, "\n".join(run)
            run = []
    for match in re.finditer(r'"""(.*?)"""', text, re.S):
        yield line_of(text, match.start()), match.group(1)


def markdown(text):
    """Yields the paragraphs of a page without its code blocks."""
    fenced, paragraph, start = False, [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.startswith("```"):
            fenced = not fenced
            line = ""
        if fenced or line.startswith("    ") or not line.strip():
            if paragraph:
                yield start, "\n".join(paragraph)
            paragraph = []
            continue
        if not paragraph:
            start = number
        paragraph.append(line)


def texts(path):
    """Yields (kind, line, text) of all that people read in a file."""
    text = (ROOT / path).read_text(errors="replace")
    suffix = pathlib.PurePath(path).suffix
    if suffix in (".cpp", ".hpp", ".h", ".in", ".c"):
        kinds = {"comments": cpp_comments}
        if path.startswith("tests/"):
            kinds["test names"] = test_names
        else:
            kinds["strings"] = cpp_literals
    elif suffix == ".md":
        kinds = {"pages": markdown}
    elif suffix in (".py", ".yaml", ".yml", ".cmake", ".sh", ".toml") or (
            text.startswith("#!") or path.endswith("CMakeLists.txt")):
        kinds = {"comments": script_comments}
    else:
        return
    for kind, reader in kinds.items():
        for line, found in reader(text):
            yield kind, line, " ".join(found.split())


def files():
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
        check=True, capture_output=True, text=True).stdout
    skipped = ("tests/golden/", "tests/fuzz/corpus", "tests/tidy/language.py")
    return [p for p in out.splitlines()
            if (ROOT / p).is_file() and not p.startswith(skipped)]


def counted():
    """Words and idioms by (folder, kind)."""
    sums = {}
    for path in files():
        folder = path.split("/")[0] if "/" in path else "."
        for kind, _, text in texts(path):
            row = sums.setdefault((folder, kind), [0, 0])
            row[0] += len(text.split())
            row[1] += len(IDIOMS.findall(text))
    return sums


def too_many():
    """Yields one line for each folder and kind of text above the limit."""
    for (folder, kind), (words, idioms) in sorted(counted().items()):
        if words >= WORDS_MIN and 1000 * idioms > RATE_MAX * words:
            yield (f"{folder}: {kind}: {1000 * idioms / words:.1f} idioms per 1,000 "
                   f"words (at most {RATE_MAX:.0f}); see "
                   f"tests/tidy/language.py --list {folder}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", nargs="+", metavar="PATH",
                        help="print each text with an idiom below these paths")
    args = parser.parse_args()
    if args.list:
        for path in files():
            if any(path == p or path.startswith(p.rstrip("/") + "/") or p == "."
                   for p in args.list):
                for kind, line, text in texts(path):
                    found = [m.group() for m in IDIOMS.finditer(text)]
                    if found:
                        print(f"{path}:{line}: {kind}: [{', '.join(found)}] {text}")
        return
    total = [0, 0]
    for (folder, kind), (words, idioms) in sorted(counted().items()):
        total = [total[0] + words, total[1] + idioms]
        print(f"{folder:10} {kind:11} {words:7} words {idioms:5} idioms "
              f"{1000 * idioms / max(words, 1):6.1f} per 1,000")
    print(f"{'all':22} {total[0]:7} words {total[1]:5} idioms "
          f"{1000 * total[1] / total[0]:6.1f} per 1,000")


if __name__ == "__main__":
    sys.exit(main())
