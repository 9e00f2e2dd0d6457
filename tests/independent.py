#!/usr/bin/env python3
"""Counts a log's hosts, processes, ranks, versions, network, steps and median step time.

It shares no code with the programs and none of their ideas: whole text in memory, regular
expressions, no state. With --against DIR it runs the programs of that folder over the same files
and prints each figure beside theirs; the exit code is 1 where one differs.

    tests/independent.py FILE ...                      one line a file
    tests/independent.py --against target/debug FILE ...
"""
import csv
import html
import io
import json
import os
import re
import statistics
import subprocess
import sys

HEADER = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[\w-]*)|\[[\w-]+\]):(?P<pid>\d+):(?P<tid>\d+)(?: \[(?P<dev>\d+)\])?"
    r"(?: \d+)?(?: [\w/.+-]+:\d+(?: \(\w+\))?)? NCCL (?:INFO|WARN|CALL|TRACE)"
)
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def text_of(path):
    raw = open(path, "rb").read()
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = raw.decode("utf-16", "replace")
    else:
        text = raw.decode("utf-8", "replace")
    if path.endswith(".ipynb"):
        out = []
        for cell in json.loads(text).get("cells", []):
            for output in cell.get("outputs", []):
                part = output.get("text", [])
                out.append(part if isinstance(part, str) else "".join(part))
            source = cell.get("source", [])
            out.append(source if isinstance(source, str) else "".join(source))
        text = "\n".join(out)
    if "-&gt;" in text:
        text = html.unescape(text)
    return ANSI.sub("", text)


def hosts_of(lines):
    """(host, pid) of every header; bytes glued to a host are taken off by the hosts that begin lines."""
    clean, seen = {}, []
    for line in lines:
        for found in HEADER.finditer(line):
            before = line[: found.start()]
            key = (found["host"], found["pid"])
            seen.append(key)
            if not before or re.fullmatch(r"\s*(\d+: *|\[[^\]]*\](<\w+>)?:? ?|\([^)]*\) ?|> )+\s*", before):
                clean[key] = clean.get(key, 0) + 1
    names = {}
    for host, pid in clean:
        names.setdefault(pid, []).append((host, clean[host, pid]))
    real = set()
    for host, pid in seen:
        better = [h for h, n in names.get(pid, []) if host.endswith(h) and (h, pid) in clean]
        # A longer name that is seldom, and ends in another of the same process, has bytes glued to it.
        best = max(better, key=lambda h: (clean[h, pid], -len(h)), default=host)
        real.add((best, pid))
    return real


def network_of(text):
    using = re.findall(r"NCCL INFO (?:\[[^\]]*\] ?)*Using network ([^\n\r\"\\]+)", text)
    names = {u.strip() for u in using}
    if not names:
        via = set(re.findall(r"via NET/([A-Za-z_0-9 ]+?)/", text))
        names = via
    return names


MLLOG = re.compile(r":::MLLOG (\{.*?\})\s*(?=\r?\n|:::MLLOG|$)")


def records(text):
    for found in MLLOG.finditer(text):
        try:
            yield json.loads(found[1])
        except ValueError:
            continue


def mlperf_steps(text):
    """Step numbers from MLPerf records: `step`, or samples over the log's own global batch size."""
    batch, out, evaluating, paused, last_ms = None, [], None, 0, None
    for record in records(text):
        key, meta = record.get("key"), record.get("metadata", {}) or {}
        value = record.get("value")
        if key == "global_batch_size" and isinstance(value, (int, float)):
            batch = int(value)
        if key == "eval_start":
            evaluating = record["time_ms"]
        if key == "eval_stop" and evaluating is not None:
            paused += record["time_ms"] - evaluating
            evaluating = None
        loss = key == "train_loss"
        stats = key == "tracked_stats" and isinstance(value, dict)
        if not loss and not stats:
            continue
        if stats and "throughput" in value and "iterations" not in value:
            continue
        if stats and not ({"train_loss", "reduced_train_loss", "iterations"} & set(value)):
            continue
        samples, step = meta.get("samples_count"), meta.get("step")
        if isinstance(step, (int, float)) and batch and step >= batch and step % batch == 0 and samples is None:
            samples, step = step, None
        if step is None and samples is not None and batch:
            step = samples / batch
        if step is None:
            continue
        seconds = value.get("train_step_time") if stats else None
        stamp = record["time_ms"] - paused
        if seconds is None and last_ms is not None and out and step > out[-1][0]:
            seconds = (stamp - last_ms) / 1000 / (step - out[-1][0])
        last_ms = stamp
        out.append((step, seconds))
    return out


SHAPES = [
    ("nemo2", r"Training epoch \d+, iteration (?P<step>\d+)/\d+.*?train_step_timing in s: (?P<s>[\d.e+]+)"),
    ("megatron", r" iteration +(?P<step>\d+)/ *\d+ \|.*?elapsed time per iteration \(ms\): (?P<ms>[\d.]+)"),
    ("maskrcnn", r"maskrcnn_benchmark\.trainer(?: INFO)?: ?eta: \S+ +iter: (?P<step>\d+) (?: time: (?P<s>[\d.]+))?"),
    ("mxnet", r"Epoch\[\d+\] Batch \[\d+-(?P<step>\d+)\]"),
    ("hugectr", r"Iter: (?P<step>\d+) Time\((?P<n>\d+) iters\): (?P<t>[\d.]+)s"),
    ("dllogger", r"DLL \S+ \S+ - Iteration (?P<step>\d+) \|.*?iteration_time : (?P<ms>[\d.]+) ms"),
    ("metriclogger", r"Epoch: \[\d+\] +\[ *(?P<step>\d+)/\d+\] +eta: \S+ +time: (?P<s>[\d.]+)"),
    ("titan", r"step: +(?P<step>\d+) +loss:"),
]


def shaped_steps(text):
    best = []
    for _, pattern in SHAPES:
        steps = []
        for found in re.finditer(pattern, text):
            of = found.groupdict()
            seconds = None
            if of.get("s"):
                seconds = float(of["s"])
            elif of.get("ms"):
                seconds = float(of["ms"]) / 1000
            elif of.get("t"):
                seconds = float(of["t"]) / int(of["n"])
            steps.append((int(of["step"]), seconds))
        if len(steps) > len(best):
            best = steps
    return best


def count(path):
    text = text_of(path)
    lines = re.split(r"\r\n|\n|\r", text)
    processes = hosts_of(lines)
    versions = set(re.findall(r"(?:NCCL|RCCL) version ?:? (\d+\.\d+\.\d+)", text))
    sizes = [int(n) for n in re.findall(r" (?:nranks|nRanks) (\d+) ", text)]
    sizes += [int(n) for n in re.findall(r"\[nranks=(\d+)\]", text)]
    steps = shaped_steps(text)
    mlperf = mlperf_steps(text)
    if len(mlperf) > 1 and not steps:
        steps = mlperf
    times = [s for _, s in steps if s is not None]
    return {
        "hosts": len({host for host, _ in processes}),
        "processes": len(processes),
        "ranks": max(sizes, default=0),
        "versions": " ".join(sorted(versions)),
        "network": " ".join(sorted(network_of(text))),
        "steps": len(dict(steps)) if steps else 0,
        "median_s": round(statistics.median_low(times), 4) if times else None,
        "calls": sum(1 for line in lines for _ in re.finditer(r"\w+: opCount [0-9a-f]+ sendbuff .*? stream (?:0x[0-9a-f]+|\(nil\))", line)),
    }


def run(folder, program, *arguments):
    done = subprocess.run([os.path.join(folder, program), "-q", *arguments], capture_output=True, text=True)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def against(folder, path):
    net = run(folder, "nccl-net", path, "--format", "csv")
    job = {}
    for row in net:
        if row["scope"] == "job":
            job.setdefault(row["subject"], []).append(row)
    comms = run(folder, "nccl-communicators", path, "--format", "csv")
    listed = run(folder, "nccl-steps", path, "--list", "--format", "csv")
    timing = run(folder, "nccl-timing", path, "--format", "csv")
    calls = run(folder, "nccl-ops", path, "--format", "csv")
    hosts = job.get("job.hosts", [{"value": "0"}])[0]["value"]
    processes = job.get("job.hosts", [{"processes": "0"}])[0]["processes"]
    version = {m for row in job.get("version.nccl", []) + job.get("version.rccl", []) for m in re.findall(r"\d+\.\d+\.\d+", row["value"])}
    steps = [row for row in listed if row["segment"] != "" and row["step"].isdigit()]
    median = [row for row in timing if row["field"] == "step_time_s"]
    return {
        "hosts": int(hosts or 0),
        "processes": int(processes or 0),
        "ranks": max((int(row["nranks"] or 0) for row in comms), default=0),
        "versions": " ".join(sorted(version)),
        "network": " ".join(sorted(row["value"] for row in job.get("network", []))),
        "steps": len({row["step"] for row in steps}),
        "median_s": round(float(median[0]["p50"]), 4) if median and median[0]["p50"] else None,
        "calls": sum(int(row["calls"]) for row in calls),
    }


def main():
    paths = sys.argv[1:]
    folder = None
    if paths[:1] == ["--against"]:
        folder, paths = paths[1], paths[2:]
    different = 0
    for path in paths:
        ours = count(path)
        if folder is None:
            print(path, json.dumps(ours))
            continue
        theirs = against(folder, path)
        for key, value in ours.items():
            same = value == theirs[key]
            different += not same
            print(f"{'same' if same else 'DIFFERS':8} {os.path.basename(path)[:40]:40} {key:10} {value!s:40} {theirs[key]!s}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
