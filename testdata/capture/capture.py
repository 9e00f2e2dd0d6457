"""Runs the captures of this folder on a machine with one or more NVIDIA GPUs and keeps what each run left behind.

    python capture.py --list
    python capture.py --out captured ddp-u fsdp-files     # these
    python capture.py --out captured --jobs 4             # all, four at a time

With fewer GPUs than ranks all ranks share the first GPU: each then poses as a host of its own (NCCL_HOSTID) and NCCL talks over sockets.
Each capture gets a folder: stdout.log (what the launcher's `> nccl.log 2>&1` would hold), nccl.* (where NCCL wrote to files),
truth/ and calls.* (see truth.py), command.json (the command, the ranks and the environment that was set).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
README = "INIT,COLL"  # what the README tells people to set
MORE = "INIT,COLL,P2P,NET,NVLS,TUNING,ENV,GRAPH"

# How the lines of all ranks reach a file: name -> (python -u, NCCL_DEBUG_FILE, time stamps, subsystems)
WAYS = {
    "u": (True, None, False, README),
    "buffered": (False, None, False, README),
    "stamps": (True, None, True, README),
    "files": (True, "nccl.%h.%p.log", False, README),
    "shared": (True, "nccl.shared.log", False, README),
    "all": (True, None, False, "ALL"),
    "more": (True, None, True, MORE),
    "tee": (True, None, False, README),
}


def matrix():
    """Every capture: name -> dict of script, arguments, ranks and way."""
    runs = {}
    # JAX has no flight recorder, and PyTorch's leaves out what a CUDA graph captures.
    recorder = lambda name: {"NCCL_CALLS": "OUT/calls.%p.csv"} if name in ("jax", "graph") else {}  # noqa: E731
    lines = ["nemo", "megatron", "titan"]

    def add(name, script, ranks, way, args=(), **env):
        runs[name] = {"script": script, "args": list(args), "ranks": ranks, "way": way, "env": env}

    jobs = [("ddp", 4), ("fsdp", 4), ("tp", 4), ("pp", 4), ("ep", 4), ("graph", 2)]
    for at, (how, ranks) in enumerate(jobs):
        for turn, way in enumerate(["u", "buffered", "stamps", "files", "shared", "all"]):
            line = lines[(at + turn) % 3]
            add(f"{how}-{way}", "job.py", ranks, way, ["--parallel", how, "--line", line], **recorder(how))
    for fault in ["die", "stall", "skip", "count", "datatype"]:
        add(f"ddp-{fault}", "job.py", 4, "stamps", ["--parallel", "ddp", "--line", "nemo", "--fault", fault])
    for how, fault, ranks in [("pp", "recv", 4), ("tp", "count", 4), ("3d", "die", 8), ("3d", "stall", 8), ("3d", "skip", 8)]:
        add(f"{how}-{fault}", "job.py", ranks, "stamps", ["--parallel", how, "--line", "nemo", "--fault", fault])
    add("3d-u", "job.py", 8, "u", ["--parallel", "3d", "--line", "megatron"])
    add("3d-files", "job.py", 8, "files", ["--parallel", "3d", "--line", "nemo"])
    add("3d-more", "job.py", 8, "more", ["--parallel", "3d", "--line", "nemo"])
    add("ddp-tee", "job.py", 4, "tee", ["--parallel", "ddp", "--line", "titan"])
    for name, script, ranks in [("hf", "hf.py", 4), ("lightning", "lightning_fit.py", 4), ("jax", "jax_dp.py", 4)]:
        for way in ["u", "buffered", "more"]:
            add(f"{name}-{way}", script, ranks, way, **recorder(name))
    for way in ["u", "more"]:
        add(f"megatron-{way}", "megatron_gpt.py", 8, way, TP="2", PP="2")
        add(f"torchtitan-{way}", "torchtitan_llama.py", 4, way, TP="2")
    large = "--hidden-size 2048 --num-layers 8 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000"
    add("megatron-large", "megatron_gpt.py", 8, "u", large.split(), TP="2", PP="2", EVAL="12")
    return runs


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def gpus():
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.count("GPU ")
    except (OSError, subprocess.CalledProcessError):
        return 0


def compiled(out):
    """nccl_calls.c, compiled."""
    out.mkdir(parents=True, exist_ok=True)
    library = out / "libnccl_calls.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "nccl_calls.c", "-ldl"], check=True)
    return str(library)


def run(name, spec, out, steps, limit, extra):
    """One capture; gives a line that says how it went."""
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    unbuffered, file, stamps, subsystems = WAYS[spec["way"]]
    put = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": subsystems, "STEPS": str(steps), "OMP_NUM_THREADS": "2", **spec["env"], **extra}
    if file:
        put["NCCL_DEBUG_FILE"] = str(folder / file)
    if stamps:
        put["NCCL_DEBUG_TIMESTAMP_LEVELS"] = "ALL"
    if gpus() < spec["ranks"]:
        put["CAPTURE_ONE_GPU"] = "1"
    put = {k: v.replace("OUT", str(folder)) for k, v in put.items()}
    ranks, port = spec["ranks"], str(free_port())
    env = {**os.environ, **put, "CAPTURE_OUT": str(folder)}
    env.pop("PYTHONUNBUFFERED", None)
    script = [str(HERE / spec["script"]), *spec["args"]]
    note = {"name": name, "command": [spec["script"], *spec["args"]], "ranks": ranks, "unbuffered": unbuffered, "set": put}
    began = time.time()
    with open(folder / "stdout.log", "ab") as log:
        if spec["way"] == "tee":
            launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", port]
            line = [sys.executable, "-u", *launcher, "--log-dir", str(folder / "torchrun"), "--tee", "3", *script]
            ps = [subprocess.Popen(line, stdout=log, stderr=log, env={**env, "PYTHONUNBUFFERED": "1"})]
        else:
            line = [sys.executable, *(["-u"] if unbuffered else []), *script]
            rank_env = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            one = put.get("CAPTURE_ONE_GPU") == "1"
            ps = [
                subprocess.Popen(line, stdout=log, stderr=log, env={**env, **rank_env, "RANK": str(r), "LOCAL_RANK": "0" if one else str(r)})
                for r in range(ranks)
            ]
        codes = []
        for p in ps:
            try:
                codes.append(p.wait(max(1, limit - (time.time() - began))))
            except subprocess.TimeoutExpired:
                p.kill()
                codes.append(p.wait())
    note["exit"], note["seconds"] = codes, round(time.time() - began, 1)
    (folder / "command.json").write_text(json.dumps(note, indent=1) + "\n")
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    return f"{name:20} exit {codes} {note['seconds']:6.1f} s {size:10} bytes"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("names", nargs="*")
    args.add_argument("--list", action="store_true")
    args.add_argument("--out", type=pathlib.Path, default=pathlib.Path("captured"))
    args.add_argument("--steps", type=int, default=40)
    args.add_argument("--jobs", type=int, default=1)
    args.add_argument("--limit", type=float, default=120, help="seconds a capture may take")
    args.add_argument("--suffix", default="", help="put behind each name")
    args.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="set for every rank; OUT stands for the capture's folder")
    args = args.parse_args()
    runs = matrix()
    unknown = [n for n in args.names if n not in runs]
    if unknown:
        sys.exit(f"no capture is named {', '.join(unknown)}; --list shows them")
    if args.list:
        for name, spec in runs.items():
            print(f"{name:20} {spec['ranks']} ranks  {spec['script']} {' '.join(spec['args'])}")
        return
    names, out = args.names or list(runs), args.out.resolve()
    recorded = [n for n in names if "NCCL_CALLS" in runs[n]["env"]]
    if recorded:
        library = compiled(out)
        for name in recorded:
            runs[name]["env"]["LD_PRELOAD"] = library
    extra = dict(e.split("=", 1) for e in args.env)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        todo = [pool.submit(run, n + args.suffix, runs[n], out, args.steps, args.limit, extra) for n in names]
        for done in concurrent.futures.as_completed(todo):
            print(done.result(), flush=True)


if __name__ == "__main__":
    main()
