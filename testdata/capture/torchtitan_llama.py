"""torchtitan's own trainer on its smallest Llama 3 with FSDP and tensor parallelism on synthetic tokens: step lines and NCCL traffic.

Environment: STEPS (40), TP (2). The ranks left by TP form the FSDP group. Options of torchtitan may follow on the command line.
"""

import os
import sys
import tempfile

import truth

truth.prepare()
os.environ["LOCAL_RANK"] = str(truth.device())

import torch  # noqa: E402
import torchtitan.protocols.train_spec as specs  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.metrics import MetricsProcessor  # noqa: E402
from torchtitan.config import ConfigManager  # noqa: E402
from torchtitan.tools.logging import init_logger  # noqa: E402
from torchtitan.train import Trainer  # noqa: E402


class Tokens(BaseDataLoader):
    """Walks through the vocabulary by a stride drawn for each row: something that a model can learn."""

    def __init__(self, *, dp_rank, job_config, **unused):
        self.rows, self.length = job_config.training.local_batch_size, job_config.training.seq_len
        self.random = torch.Generator().manual_seed(1 + dp_rank)

    def __iter__(self):
        ramp = torch.arange(self.length + 1)
        while True:
            start = torch.randint(0, 2048, (self.rows, 1), generator=self.random)
            stride = torch.randint(1, 8, (self.rows, 1), generator=self.random)
            rows = (start + stride * ramp) % 2048
            yield {"input": rows[:, :-1].contiguous()}, rows[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def own_data(get):
    def spec(name):
        found = get(name)
        found.build_tokenizer_fn = None
        found.build_dataloader_fn = Tokens
        return found

    return spec


def marked(log):
    def call(self, step, *rest, **named):
        log(self, step, *rest, **named)
        truth.step(step)

    return call


def options():
    line = f"""
        --model.name llama3 --model.flavor debugmodel --metrics.log_freq 1
        --training.steps {os.environ.get("STEPS", "40")} --training.seq_len 512 --training.local_batch_size 4
        --parallelism.tensor_parallel_degree {os.environ.get("TP", "2")} --parallelism.data_parallel_shard_degree -1
        --lr_scheduler.warmup_steps 2 --activation_checkpoint.mode none --comm.trace_buf_size 200000
        --job.dump_folder {tempfile.gettempdir()}/torchtitan
    """
    return line.split() + sys.argv[1:]


if __name__ == "__main__":
    init_logger()
    specs.get_train_spec = own_data(specs.get_train_spec)
    MetricsProcessor.log = marked(MetricsProcessor.log)
    trainer = Trainer(ConfigManager().parse_args(options()))
    trainer.train()
    torch.distributed.barrier()
    torch.cuda.synchronize()
    truth.finish()
    trainer.close()
    torch.distributed.destroy_process_group()
