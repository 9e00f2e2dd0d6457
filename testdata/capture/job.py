"""A tiny transformer, trained in one of six ways; prints the step line of one of three trainers.

    --parallel ddp    data parallel: AllReduce in buckets, from the backward pass
    --parallel fsdp   fully sharded (FSDP2): AllGather and ReduceScatter for each block
    --parallel tp     tensor and sequence parallel of 2, data parallel over the rest
    --parallel pp     a pipeline of 2 stages with Send and Recv, data parallel over the rest
    --parallel 3d     tensor parallel of 2, a pipeline of 2, data parallel over the rest
    --parallel ep     experts of one layer spread over all ranks: all-to-all with uneven splits
    --parallel graph  data parallel in a CUDA graph: after the capture the log shows no calls
"""

import argparse
import datetime
import os
import time

import truth

truth.prepare()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

VOCAB, WIDTH, HEADS, SEQ, BATCH, MICRO = 8192, 256, 4, 128, 8, 4


class Gather(torch.autograd.Function):
    """Sequence shards in, whole sequence out (AllGather); back: ReduceScatter."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = x.new_empty(x.shape[0] * group.size(), *x.shape[1:])
        dist.all_gather_into_tensor(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, g):
        out = g.new_empty(g.shape[0] // ctx.group.size(), *g.shape[1:])
        dist.reduce_scatter_tensor(out, g.contiguous(), group=ctx.group)
        return out, None


class Scatter(torch.autograd.Function):
    """Partial sums of the whole sequence in, summed shards out (ReduceScatter); back: AllGather."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = x.new_empty(x.shape[0] // group.size(), *x.shape[1:])
        dist.reduce_scatter_tensor(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, g):
        out = g.new_empty(g.shape[0] * ctx.group.size(), *g.shape[1:])
        dist.all_gather_into_tensor(out, g.contiguous(), group=ctx.group)
        return out, None


class Exchange(torch.autograd.Function):
    """Rows to the ranks that own their experts (all-to-all with uneven splits); back: the reverse."""

    @staticmethod
    def forward(ctx, x, send, recv, group):
        ctx.args = (send, recv, group)
        out = x.new_empty(sum(recv), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), recv, send, group=group)
        return out

    @staticmethod
    def backward(ctx, g):
        send, recv, group = ctx.args
        out = g.new_empty(sum(send), g.shape[1])
        dist.all_to_all_single(out, g.contiguous(), send, recv, group=group)
        return out, None, None, None


class Experts(nn.Module):
    """One expert a rank; each row goes to the expert that a fixed random router chooses."""

    def __init__(self, group):
        super().__init__()
        self.group = group
        self.router = nn.Linear(WIDTH, group.size(), bias=False)
        self.expert = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        rows = x.reshape(-1, WIDTH)
        weight, to = self.router(rows).softmax(-1).max(-1)
        order = to.argsort()
        send = torch.bincount(to, minlength=self.group.size())
        recv = torch.empty_like(send)
        dist.all_to_all_single(recv, send, group=self.group)
        send, recv = send.tolist(), recv.tolist()
        out = Exchange.apply(rows[order], send, recv, self.group)
        out = Exchange.apply(self.expert(out), recv, send, self.group)
        return (out[order.argsort()] * weight[:, None]).reshape(x.shape)


class Block(nn.Module):
    """Attention and MLP; their heads and columns are split over the tensor group, the sequence too."""

    def __init__(self, tensor=None, experts=None):
        super().__init__()
        self.tensor, part = tensor, tensor.size() if tensor else 1
        self.heads = HEADS // part
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH // part)
        self.proj = nn.Linear(WIDTH // part, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH // part), nn.Linear(4 * WIDTH // part, WIDTH)
        self.experts = Experts(experts) if experts else None

    def attend(self, x):
        s, b, _ = x.shape
        q, k, v = (t.reshape(s, b, self.heads, -1).permute(1, 2, 0, 3) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.permute(2, 0, 1, 3).reshape(s, b, -1))

    def mlp(self, x):
        return self.experts(x) if self.experts else self.down(F.gelu(self.up(x)))

    def forward(self, x):  # (sequence, batch, width); the sequence is a shard where there is a tensor group
        for norm, part in ((self.norm1, self.attend), (self.norm2, self.mlp)):
            y = norm(x)
            if self.tensor:
                y = Scatter.apply(part(Gather.apply(y, self.tensor)), self.tensor)
            else:
                y = part(y)
            x = x + y
        return x


class Model(nn.Module):
    """The layers of one pipeline stage, with the embedding on the first and the head on the last."""

    def __init__(self, layers, tensor=None, experts=None, first=True, last=True):
        super().__init__()
        self.tensor = tensor
        self.embed = nn.Embedding(VOCAB, WIDTH) if first else None
        self.blocks = nn.ModuleList(Block(tensor, experts if i % 2 else None) for i in range(layers))
        self.head = nn.Linear(WIDTH, VOCAB, bias=False) if last else None

    def forward(self, x):
        if self.embed:
            x = self.embed(x)
            if self.tensor:
                x = x.chunk(self.tensor.size())[self.tensor.rank()]
        for block in self.blocks:
            x = block(x)
        if self.head:
            x = self.head(Gather.apply(x, self.tensor) if self.tensor else x)
        return x


def loss_of(logits, ids):
    return F.cross_entropy(logits.float().reshape(-1, VOCAB), ids.reshape(-1))


def grid(world, tensor, stages):
    """This rank's tensor, pipeline and data groups: ranks counted tensor first, then data, then pipeline, as Megatron does."""
    data, me, mine = world // (tensor * stages), dist.get_rank(), {}
    at = lambda p, d, t: (p * data + d) * tensor + t  # noqa: E731
    kinds = {
        "tensor": [[at(p, d, t) for t in range(tensor)] for p in range(stages) for d in range(data)],
        "pipeline": [[at(p, d, t) for p in range(stages)] for d in range(data) for t in range(tensor)],
        "data": [[at(p, d, t) for d in range(data)] for p in range(stages) for t in range(tensor)],
    }
    for kind, groups in kinds.items():
        for ranks in groups:
            group = dist.new_group(ranks, group_desc=kind)
            if me in ranks:
                mine[kind] = group if len(ranks) > 1 else None
    return mine


def average(params, group):
    """Gradients averaged over the data group, in buckets of a few MB."""
    if group is None:
        return
    grads = [p.grad for p in params if p.grad is not None]
    for i in range(0, len(grads), 8):
        flat = torch.cat([g.reshape(-1) for g in grads[i : i + 8]])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)
        for g, part in zip(grads[i : i + 8], flat.split([g.numel() for g in grads[i : i + 8]])):
            g.copy_(part.view_as(g))


class Pipeline:
    """All micro-batches forward, then all backward, over Send and Recv."""

    def __init__(self, model, group, tensor, device, dtype):
        self.model, self.group, self.device, self.dtype = model, group, device, dtype
        self.first, self.last = group.rank() == 0, group.rank() == group.size() - 1
        self.shape = (SEQ // (tensor.size() if tensor else 1), BATCH // MICRO, WIDTH)
        self.peer = lambda by: dist.get_global_rank(group, group.rank() + by)

    def buffer(self):
        return torch.empty(self.shape, device=self.device, dtype=self.dtype)

    def step(self, ids, leaves_out=None):
        """`leaves_out`: the micro-batch whose Recv, or on the first stage Send, is not made."""
        runs, total = [], torch.zeros((), device=self.device)
        for at, part in enumerate(ids.chunk(MICRO, 1)):
            x = part
            if not self.first:
                x = self.buffer()
                if at == leaves_out:
                    x.zero_()
                else:
                    dist.recv(x, self.peer(-1), group=self.group)
                x.requires_grad_()
            y = self.model(x)
            if self.last:
                y = loss_of(y, part) / MICRO
                total += y.detach()
            elif at != leaves_out:
                dist.send(y.detach().contiguous(), self.peer(1), group=self.group)
            runs.append((x, y))
        for x, y in runs:
            grad = None
            if not self.last:
                grad = self.buffer()
                dist.recv(grad, self.peer(1), group=self.group)
            y.backward(grad)
            if not self.first:
                dist.send(x.grad, self.peer(-1), group=self.group)
        dist.broadcast(total, dist.get_global_rank(self.group, self.group.size() - 1), group=self.group)
        return total


class Printer:
    """The step line of a trainer, by the rank that prints it there."""

    def __init__(self, kind, steps, params):
        self.kind, self.steps, self.flops, self.then = kind, steps, 6 * params * SEQ * BATCH, time.perf_counter()

    def __call__(self, n, loss):
        now = time.perf_counter()
        took, self.then = now - self.then, now
        tflops, rank = self.flops / took / 1e12, dist.get_rank()
        if self.kind == "nemo" and rank == 0:
            line = f"Training epoch 0, iteration {n - 1}/{self.steps - 1} | lr: 0.0003 | global_batch_size: {BATCH} | global_step: {n - 1}"
            line += f" | reduced_train_loss: {loss:.4} | train_step_timing in s: {took:.4} | TFLOPS_per_GPU: {tflops:.4}"
            print(line + (f" | consumed_samples: {n * BATCH}" if n > 1 else ""))
        if self.kind == "megatron" and rank == dist.get_world_size() - 1:
            stamp = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")
            line = f" [{stamp}] iteration {n:8d}/{self.steps:8d} | consumed samples: {n * BATCH:12d} |"
            line += f" elapsed time per iteration (ms): {took * 1000:.1f} | throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
            line += f" learning rate: 3.000000E-04 | global batch size: {BATCH:5d} | lm loss: {loss:.6E} | loss scale: 1.0 |"
            print(line + " number of skipped iterations:   0 | number of nan iterations:   0 |", flush=True)
        if self.kind == "titan":
            stamp = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
            line = f"[titan] {stamp} - root - INFO - step: {n:2}  loss: {loss:7.4f}  grad_norm:  1.0000  memory:  1.00GiB(0.71%)"
            print(f"{line}  tps: {round(SEQ * BATCH / took):,}  tflops: {tflops:,.2f}  mfu: {tflops / 9.89:.2f}%", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--parallel", choices=["ddp", "fsdp", "tp", "pp", "3d", "ep", "graph"], default="ddp")
    args.add_argument("--line", choices=["nemo", "megatron", "titan"], default="nemo")
    args.add_argument("--fault", choices=["die", "stall", "skip", "count", "datatype", "recv"], help="what rank 1 does wrong in step 20")
    args.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "40")))
    args.add_argument("--trace", action="store_true", help="torch.profiler's trace of steps 6 to 9, a file a rank, where the capture is kept")
    args = args.parse_args()

    gpu = torch.cuda.is_available()
    device = torch.device("cuda", truth.device()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    timeout = datetime.timedelta(seconds=15 if args.fault else 300)
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timeout)
    world, rank = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(17 + rank)
    dtype = torch.bfloat16 if gpu else torch.float32

    how, layers = args.parallel, 4
    groups = grid(world, 2 if how in ("tp", "3d") else 1, 2 if how in ("pp", "3d") else 1)
    pipe, tensor, data = groups["pipeline"], groups["tensor"], groups["data"]
    first, last = not pipe or pipe.rank() == 0, not pipe or pipe.rank() == pipe.size() - 1
    model = Model(layers // (2 if pipe else 1), tensor, dist.group.WORLD if how == "ep" else None, first, last)
    model = model.to(device=device, dtype=dtype)
    params = sum(p.numel() for p in model.parameters())
    if how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    if how == "ddp":
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
    adam = torch.optim.AdamW(model.parameters(), lr=3e-4, capturable=gpu and how == "graph")
    pipeline = Pipeline(model, pipe, tensor, device, dtype) if pipe else None
    experts = {p for n, p in model.named_parameters() if ".expert." in n}
    show = Printer(args.line, args.steps, params)
    ids = torch.randint(VOCAB, (SEQ, BATCH), device=device)

    def train(fault):
        adam.zero_grad()
        if fault == "die":
            truth.finish()
            os._exit(1)
        if fault == "stall":
            time.sleep(60)
        if pipeline:
            loss = pipeline.step(ids, 1 if fault == "recv" else None)
        else:
            loss = loss_of(model(ids), ids)
            loss.backward()
        if how in ("tp", "pp", "3d", "ep", "graph"):
            average([p for p in model.parameters() if p not in experts], data)
        if how in ("tp", "3d"):  # norms see one shard of the sequence each
            average([p for n, p in model.named_parameters() if "norm" in n], tensor)
        norm = sum(p.grad.float().pow(2).sum() for p in model.parameters() if p.grad is not None) if how != "fsdp" else None
        if norm is not None and fault != "skip":
            dist.all_reduce(norm.repeat(4) if fault == "count" else norm.half() if fault == "datatype" else norm)
        adam.step()
        return loss.detach()

    if args.fault:
        truth.watch(19)
    profiler = None
    if args.trace:
        from torch.profiler import profile, schedule

        keep = lambda done: done.export_chrome_trace(f"{os.environ['CAPTURE_OUT']}/kineto_rank{rank}.json.gz")  # noqa: E731
        profiler = profile(schedule=schedule(wait=4, warmup=1, active=4, repeat=1), on_trace_ready=keep)
        profiler.start()
    graph = None
    for n in range(1, args.steps + 1):
        if how == "graph" and n == 11 and gpu:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                held = train(None)
        ids.copy_(torch.randint(VOCAB, (SEQ, BATCH), device=device))
        if graph:
            graph.replay()
            loss = held.clone()
        else:
            loss = train(args.fault if n == 20 and rank == 1 else None)
        if not graph:
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        if n > 19:
            truth.flush()
        show(n, loss.item())
        truth.step(n)
        if profiler:
            profiler.step()
        if n % 20 == 0 and n < args.steps and not graph:
            dist.barrier()  # as before a checkpoint: outside of every step's own work
    truth.finish()
    if profiler:
        profiler.stop()
    if graph:  # NCCL waits for graphs that hold its kernels before it lets a communicator go
        del graph, held, loss
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
