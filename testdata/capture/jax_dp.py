"""Data parallel training in JAX, one process a rank; prints MaxText's line, one step late as MaxText does.

There is no flight recorder here: nccl_calls.c sits between JAX and NCCL and records the calls.
A step ends where its results are there, not where its line is printed.
"""

import os
import time

import truth

truth.prepare()
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", ".08")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

WIDTH, BATCH = 512, 32


def main():
    rank, world, steps = truth.rank(), int(os.environ["WORLD_SIZE"]), int(os.environ.get("STEPS", "40"))
    jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", world, rank, local_device_ids=[truth.device()])
    mesh = jax.make_mesh((world,), ("data",))
    every, shard = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
    params = jax.device_put([jnp.ones((WIDTH, WIDTH)) / WIDTH for _ in range(4)], every)

    def loss_of(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return jnp.mean(x**2)

    @jax.jit
    def train(params, x):
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return [w - 0.1 * g for w, g in zip(params, grads)], loss

    late, then = None, time.perf_counter()
    for n in range(steps):
        local = jnp.ones((BATCH, WIDTH)) * (rank + n)
        x = jax.make_array_from_process_local_data(shard, local)
        params, loss = train(params, x)
        jax.block_until_ready(loss)
        truth.step(n)
        if late is not None:
            print(late, flush=True)
        took, then = time.perf_counter() - then, time.perf_counter()
        flops = 6 * WIDTH * WIDTH * 4 * BATCH / took / 1e12
        late = f"completed step: {n}, seconds: {took:.3f}, TFLOP/s/device: {flops:.3f}, Tokens/s/device: {BATCH / took:.3f}, total_weights: {BATCH * world}, loss: {float(loss):.3f}"
    print(late, flush=True)
    truth.write({"jax": jax.__version__})


if __name__ == "__main__":
    main()
