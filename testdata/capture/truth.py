"""What a rank really asked of NCCL, recorded apart from NCCL's own log.

PyTorch's flight recorder notes every operation where it enters NCCL (ProcessGroupNCCL), whichever way it came there: a call of
torch.distributed, DDP's reducer, FSDP, DTensor. Wrapping the functions of torch.distributed would miss the last three.
A step is the stretch up to the moment its line was printed, by the same clock that the recorder stamps its entries with.

    import truth                  # before torch
    truth.prepare()
    ...
    print(step_line); truth.step(n)
    truth.finish()                # before destroy_process_group
"""

import gzip
import json
import os
import pickle
import socket
import time

marks = []


def rank():
    return int(os.environ.get("RANK", "0"))


def prepare():
    """Sets what must stand in the environment before torch starts."""
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200000")
    if os.environ.get("CAPTURE_ONE_GPU") == "1":
        # NCCL takes ranks with different ids for different hosts, so that they may share a GPU.
        os.environ["NCCL_HOSTID"] = f"rank{rank()}"
        os.environ["NCCL_SOCKET_IFNAME"] = "lo"


def device():
    """The GPU of this rank."""
    return 0 if os.environ.get("CAPTURE_ONE_GPU") == "1" else int(os.environ.get("LOCAL_RANK", "0"))


def step(number):
    """The line of step `number` has just been printed, or would have been, were this the printing rank."""
    marks.append((number, time.time_ns()))


def finish():
    """Writes what the recorder holds to $CAPTURE_OUT/truth/rank<R>.json.gz."""
    out = os.environ.get("CAPTURE_OUT")
    if out is None:
        return
    import torch

    trace = pickle.loads(torch._C._distributed_c10d._dump_nccl_trace())
    keep = ("record_id", "process_group", "profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
    keep += ("is_p2p", "collective_seq_id", "p2p_seq_id", "op_id", "time_created_ns")
    entries = [{k: e.get(k) for k in keep} for e in trace.get("entries", [])]
    doc = {
        "rank": rank(),
        "world": int(os.environ.get("WORLD_SIZE", "1")),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": device(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else "none",
        "torch": torch.__version__,
        "groups": trace.get("pg_config", {}),
        "marks": marks,
        "entries": entries,
    }
    os.makedirs(f"{out}/truth", exist_ok=True)
    with gzip.open(f"{out}/truth/rank{rank()}.json.gz", "wt") as f:
        json.dump(doc, f)


NAMES = {
    "all_reduce": "AllReduce",
    "all_reduce_barrier": "AllReduce",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
    "all_gather": "AllGather",
    "_all_gather_base": "AllGather",
    "all_gather_into_tensor_coalesced": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "_reduce_scatter_base": "ReduceScatter",
    "reduce_scatter_tensor_coalesced": "ReduceScatter",
    "all_to_all": "AlltoAll",
    "send": "Send",
    "recv": "Recv",
}
TYPES = {"Float": "fp32", "Double": "fp64", "Half": "fp16", "BFloat16": "bf16", "Long": "int64", "Int": "int32", "Byte": "uint8", "Bool": "uint8"}


def numel(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def call(entry):
    """[operation, elements as NCCL counts them, datatype]; NCCL counts what a rank sends to (or gets from) one rank."""
    name = entry["profiling_name"].removeprefix("nccl:").split(" ")[0]
    op = NAMES.get(name, name)
    sizes = entry["output_sizes"] if op == "ReduceScatter" else entry["input_sizes"]
    kind = (entry["input_dtypes"] or ["?"])[0]
    count = sum(numel(s) for s in sizes)
    return [op, count, TYPES.get(kind, kind)]


def summary(folder):
    """The truth of all ranks as one document: calls as [operation, group, elements, datatype, how many] by rank and step."""
    ranks, groups, about = [], {}, {}
    for at in sorted(os.listdir(f"{folder}/truth")):
        with gzip.open(f"{folder}/truth/{at}", "rt") as f:
            doc = json.load(f)
        about = {k: doc[k] for k in ("world", "nccl", "torch")}
        for name, group in doc["groups"].items():
            groups[name] = {"name": name, "desc": group["desc"], "ranks": json.loads(group["ranks"])}
        steps, entries, last = [], sorted(doc["entries"], key=lambda e: e["record_id"]), 0
        for number, end in [*doc["marks"], (None, 1 << 63)]:
            calls = {}
            while last < len(entries) and entries[last]["time_created_ns"] < end:
                op, count, kind = call(entries[last])
                key = (op, entries[last]["process_group"][0], count, kind)
                calls[key] = calls.get(key, 0) + 1
                last += 1
            steps.append({"step": number, "calls": sorted([*k, n] for k, n in calls.items())})
        ranks.append({k: doc[k] for k in ("rank", "host", "pid", "device")} | {"steps": steps})
    ranks.sort(key=lambda r: r["rank"])
    return about | {"groups": [groups[g] for g in sorted(groups)], "ranks": ranks}


if __name__ == "__main__":
    import sys

    for folder in sys.argv[1:]:
        with open(f"{folder}/truth.json", "w") as f:
            json.dump(summary(folder), f, separators=(",", ":"))
