"""What a rank really asked of NCCL, recorded apart from NCCL's own log.

PyTorch's flight recorder notes every operation where it enters NCCL (ProcessGroupNCCL), whichever way it came there: a call of
torch.distributed, DDP's reducer, FSDP, DTensor. Wrapping the functions of torch.distributed would miss the last three.
A step is the stretch up to the moment its line was printed, by the same clock that the recorder stamps its entries with.

    import truth                  # before torch
    truth.prepare()
    ...
    print(step_line); truth.step(n)
    truth.finish()                # before destroy_process_group

Of a job that is meant to hang, truth.watch() writes the record every second. Programs without a flight recorder take
nccl_calls.c instead, which sits between them and NCCL.
"""

import csv
import gzip
import json
import os
import pickle
import socket
import threading
import time

marks = []
watched = []
writing = threading.Lock()


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


def watch(step):
    """Writes the record every second from now on: what hangs behind `step` is taken down before finish()."""
    watched.append(step)

    def again():
        while True:
            flush()
            time.sleep(1)

    threading.Thread(target=again, daemon=True).start()


def flush():
    """Writes the record now, if the job is watched: before a wait that may not end, in which the thread may be held up too."""
    if watched:
        write(recorded())


def recorded():
    """What the flight recorder holds."""
    import torch

    trace = pickle.loads(torch._C._distributed_c10d._dump_nccl_trace())
    keep = ("record_id", "process_group", "profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
    keep += ("is_p2p", "collective_seq_id", "p2p_seq_id", "op_id", "time_created_ns")
    entries = [{k: e.get(k) for k in keep} for e in trace.get("entries", [])]
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else "none"
    return {"nccl": nccl, "torch": torch.__version__, "groups": trace.get("pg_config", {}), "entries": entries}


def write(what):
    """Puts a record, with who and when, into $CAPTURE_OUT/truth/rank<R>.json.gz."""
    out = os.environ.get("CAPTURE_OUT")
    if out is None:
        return
    doc = {
        "rank": rank(),
        "world": int(os.environ.get("WORLD_SIZE", "1")),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": device(),
        "watched": watched,
        "marks": list(marks),
    } | what
    os.makedirs(f"{out}/truth", exist_ok=True)
    at = f"{out}/truth/rank{rank()}.json.gz"
    with writing:  # the whole record or the one before: the process may end at any moment
        with gzip.open(f"{at}.part", "wt", 1) as f:
            json.dump(doc, f)
        os.replace(f"{at}.part", at)


def finish():
    """Writes the last record; where nccl_calls.c records the calls, only who and when."""
    what = recorded()
    if "NCCL_CALLS" in os.environ:
        del what["entries"], what["groups"]
    write(what)


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
# ncclDataType_t
NCCL_TYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "fp16", "fp32", "fp64", "bf16", "fp8_e4m3", "fp8_e5m2"]


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


def calls_of(doc, folder):
    """A rank's calls in their order, (time in ns, group, operation, elements, datatype), and its groups, from either recorder."""
    if "entries" in doc:
        groups = {n: {"name": n, "desc": g["desc"], "ranks": json.loads(g["ranks"])} for n, g in doc["groups"].items()}
        entries = sorted(doc["entries"], key=lambda e: e["record_id"])
        return [(e["time_created_ns"], e["process_group"][0], *call(e)) for e in entries], groups
    calls, groups = [], {}
    with open(f"{folder}/calls.{doc['pid']}.csv", newline="") as f:
        for row in csv.DictReader(f):
            if row["op"] == "CommInit":
                groups[row["group"]] = {"name": row["group"], "desc": "", "ranks": [None] * int(row["count"])}
                groups[row["group"]]["ranks"][int(row["datatype"])] = doc["rank"]
            else:
                kind = NCCL_TYPES[int(row["datatype"])]
                calls.append((int(row["time_ns"]), row["group"], row["op"], int(row["count"]), kind))
    return calls, groups


def summary(folder):
    """The truth of all ranks as one document: calls as [operation, group, elements, datatype, how many] by rank and step.

    Of a job that is watched from a step on also "order": the calls behind that step, one by one as
    [group, number of the call among the rank's collectives on that group (from 0; its Sends and Recvs apart), operation,
    elements, datatype, milliseconds since the step's line].
    """
    docs, groups = [], {}
    for at in sorted(os.listdir(f"{folder}/truth")):
        if at.endswith(".part"):
            continue
        with gzip.open(f"{folder}/truth/{at}", "rt") as f:
            doc = json.load(f)
        calls, mine = calls_of(doc, folder)
        docs.append((doc, calls))
        for name, group in mine.items():
            known = groups.setdefault(name, group)
            known["ranks"] = [a if a is not None else b for a, b in zip(known["ranks"], group["ranks"])]
    docs.sort(key=lambda d: d[0]["rank"])
    about = {k: docs[0][0][k] for k in ("world", "nccl", "torch", "jax") if k in docs[0][0]}
    ranks = []
    for doc, calls in docs:
        steps, order, numbers, last, behind = [], [], {}, 0, False
        for number, end in [*doc["marks"], (None, 1 << 63)]:
            sums = {}
            while last < len(calls) and calls[last][0] < end:
                _, group, op, count, kind = calls[last]
                stream = (group, op if op in ("Send", "Recv") else "")
                if op != "coalesced":  # a bracket around calls that the recorder lists one by one
                    if behind:
                        order.append([group, numbers.get(stream, 0), op, count, kind, (calls[last][0] - behind) // 1_000_000])
                    numbers[stream] = numbers.get(stream, 0) + 1
                key = (op, group, count, kind)
                sums[key] = sums.get(key, 0) + 1
                last += 1
            behind = behind or (number in doc["watched"] and end)
            steps.append({"step": number, "calls": sorted([*k, n] for k, n in sums.items())})
        rank = {k: doc[k] for k in ("rank", "host", "pid", "device")} | {"steps": steps}
        ranks.append(rank | ({"order": order} if doc["watched"] else {}))
    return about | {"groups": [groups[g] for g in sorted(groups)], "ranks": ranks}


if __name__ == "__main__":
    import sys

    for folder in sys.argv[1:]:
        with open(f"{folder}/truth.json", "w") as f:
            json.dump(summary(folder), f, separators=(",", ":"))
