"""Puts chosen captures into ../captured: packed, with paths of the machine made neutral, each with its truth and its command.

    python keep.py captured ddp-u tp-files 3d-more=3d
    python keep.py captured --plain --steps 19..22 megatron-u=megatron     # cut as nccl-steps --list says, not packed

A path keeps its length (`/env/././.`), so that every byte of a log stays where it was: in some of them that is what they show.
"""

import argparse
import csv
import gzip
import json
import os
import pathlib
import re
import subprocess

import truth

KEPT = pathlib.Path(__file__).resolve().parent.parent / "captured"
PATHS = [
    re.compile(rb"/[^\s'\"():]*?/(?:site|dist)-packages"),
    re.compile(rb"/[^\s'\"():]*(?=/testdata/capture)"),
    re.compile(rb"/tmp/site"),
    re.compile(rb"/[^\s'\"():]*(?=/libnccl[-_](?:profiler|inspector|calls))"),
]


def neutral(match):
    width = len(match.group())
    return (b"/env" + b"/." * width)[: width - 1] + (b"v" if width == 4 else b"/" if (width - 4) % 2 else b".")


def clean(data):
    for path in PATHS:
        data = path.sub(neutral, data)
    return data


def put(path, data, plain):
    if plain:
        path.write_bytes(data)
    else:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(data, 9, mtime=0))


def cut(data, listed, steps):
    """The lines of whole steps with what stands between them, behind the lines that say who is who."""
    a, b = steps.split("..")
    rows = {row["step"]: row for row in csv.DictReader(listed.splitlines())}
    first, last = int(rows[a]["first_line"]), int(rows[b]["last_line"])
    lines = data.splitlines(keepends=True)
    return b"".join([line for line in lines[: first - 1] if b" - Init " in line] + lines[first - 1 : last])


def keep(source, name, plain, steps, tool):
    to = KEPT / name
    to.mkdir(parents=True, exist_ok=True)
    for old in to.iterdir():
        old.unlink()
    for file in sorted(source.rglob("*")):
        inside = file.relative_to(source).parts
        if not file.is_file() or inside[0] in ("torchrun", "truth", "hf") or file.name in ("truth.json", "command.json"):
            continue
        if file.name.startswith("calls."):
            continue
        data = file.read_bytes()
        if steps and file.name == "stdout.log":
            data = cut(data, subprocess.run([tool, "--list", file], capture_output=True, text=True, check=True).stdout, steps)
        put(to / ("nccl.log" if file.name == "stdout.log" else file.name), clean(data), plain)
    if os.path.exists(source / "truth"):
        doc = json.dumps(truth.summary(source), separators=(",", ":")).encode()
        put(to / "truth.json", doc, False)
    note = json.loads((source / "command.json").read_text())
    note["set"] = {k: v.replace(f"{source.parent}/{source.name}", "OUT") for k, v in note["set"].items()}
    note["set"] = {k: re.sub(r"/[^:]*/OUT|/tmp/[^/]*/" + re.escape(source.name), "OUT", v) for k, v in note["set"].items()}
    note["set"] = {k: clean(v.encode()).decode() for k, v in note["set"].items()}
    (to / "command.json").write_text(json.dumps(note, indent=1) + "\n")
    print(f"{name:24} {sum(f.stat().st_size for f in to.iterdir()):9} bytes")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("captured", type=pathlib.Path)
    args.add_argument("names", nargs="+", metavar="NAME[=KEPT]")
    args.add_argument("--plain", action="store_true", help="do not pack")
    args.add_argument("--steps", help="only these whole steps of the log, and the lines that say who is who")
    args.add_argument("--tool", default="nccl-steps")
    args = args.parse_args()
    for name in args.names:
        source, _, kept = name.partition("=")
        keep(args.captured / source, kept or source, args.plain, args.steps, args.tool)


if __name__ == "__main__":
    main()
