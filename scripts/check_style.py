#!/usr/bin/env python3
"""The habits of CONTRIBUTING.md that a program can check: prints each breach as file:line, exits 1 if there is one."""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES_MAX = 600
PURE = {"allocator", "membership", "formats", "paging", "coherence"}
# A pure room takes time, seeds and bytes as arguments; these headers would bring in a second source of them.
IMPURE_HEADERS = re.compile(
    r"^(thread|mutex|shared_mutex|condition_variable|future|chrono|random|fstream|iostream|filesystem|unordered_map|"
    r"unordered_set|ctime|unistd\.h|fcntl\.h|time\.h|pthread\.h|sys/.*|boost/(?!json/).*|spdlog/.*|base/log\.h|base/unique_fd\.h)$")
# Built from parts so that this file does not name what it forbids.
MACHINE_PATH = re.compile(r"(^|[^a-z.$}])/(" + "|".join(["wor" + "k", "far" + "m", "roo" + "t", "tmp/bash_" + "jobs"]) + r")/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def rooms_table():
    """room -> rooms whose headers it sees, closed over the arrows of cmake/rooms.cmake."""
    text = (ROOT / "cmake/rooms.cmake").read_text()
    direct = {m[1]: m[2].split() for m in re.finditer(r"^set\(VP_USES_(\w+)\s+([^)]*)\)", text, re.M)}
    return {room: set(used) | {room} for room, used in direct.items()}


def tracked(*patterns):
    listing = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def check_includes(name, lines, table):
    room = name.split("/")[0]
    if room not in table:
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match[2]
        owner = target.split("/")[0]
        if match[1] == '"' and "/" not in target:
            yield f'{name}:{number}: include "{target}" by its room: "{room}/{target}"'
        elif owner in table and owner not in table[room]:
            yield f"{name}:{number}: {room} may not use {owner} (cmake/rooms.cmake)"
        if room in PURE and IMPURE_HEADERS.match(target):
            yield f"{name}:{number}: the pure room {room} may not include <{target}>"


def check_source(name, table):
    text = (ROOT / name).read_text()
    lines = text.split("\n")
    # A body whose header says it need not say it again.
    has_header = name.endswith(".cpp") and (ROOT / name).with_suffix(".h").is_file()
    if not has_header and not lines[0].startswith(("//", "/*")):
        yield f"{name}:1: the first comment says what the file is for"
    if len(lines) > LINES_MAX:
        yield f"{name}:{LINES_MAX}: {len(lines)} lines; split it by topic (at most {LINES_MAX})"
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            yield f"{name}:{number}: tab"
    yield from check_includes(name, lines, table)


def check_text(name):
    try:
        text = (ROOT / name).read_text()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.split("\n"), 1):
        if MACHINE_PATH.search(line):
            yield f"{name}:{number}: a path of one machine"


def check_format(names):
    """clang-format 14 decides; other versions lay some lines out differently, so they are not asked."""
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if " 14." not in version:
        print("check-style: clang-format 14 is not here; layout not checked")
        return
    run = subprocess.run([tool, "--dry-run", *names], cwd=ROOT, capture_output=True, text=True)
    seen = set()
    for line in run.stderr.splitlines():
        match = re.match(r"([^:]+):(\d+):\d+: warning", line)
        if match and match[1] not in seen:
            seen.add(match[1])
            yield f"{match[1]}:{match[2]}: not as clang-format lays it out; run `make format`"


def main():
    table = rooms_table()
    sources = tracked("*.h", "*.cpp")
    breaches = [b for name in sources for b in check_source(name, table)]
    breaches += [b for name in tracked() if name not in ("LICENSE",) for b in check_text(name)]
    breaches += check_format(sources)
    print("\n".join(breaches) if breaches else f"check-style: {len(sources)} source files, no breach")
    return 1 if breaches else 0


sys.exit(main())
