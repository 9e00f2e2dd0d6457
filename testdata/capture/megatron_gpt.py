"""Megatron-LM's own training loop on a tiny GPT with tensor, sequence, pipeline and data parallelism: step lines and NCCL traffic.

Environment: STEPS (40), TP (2), PP (2), EVAL (20: evaluate every so many steps, 0: never).
Megatron's own arguments may follow on the command line.
"""

import os
import sys

import truth

truth.prepare()
os.environ["LOCAL_RANK"] = str(truth.device())
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

from functools import partial  # noqa: E402

import megatron.core.datasets.utils as dataset_utils  # noqa: E402
import torch  # noqa: E402
from megatron.core import mpu  # noqa: E402
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder  # noqa: E402
from megatron.core.datasets.gpt_dataset import GPTDatasetConfig, MockGPTDataset  # noqa: E402
from megatron.core.enums import ModelType  # noqa: E402
from megatron.core.transformer.torch_norm import WrappedTorchNorm  # noqa: E402
from megatron.core.utils import get_batch_on_this_tp_rank  # noqa: E402
from megatron.training import get_args, get_tokenizer, pretrain, training  # noqa: E402
from megatron.training.argument_utils import gpt_config_from_args, pretrain_cfg_container_from_args  # noqa: E402
from megatron.training.arguments import parse_and_validate_args  # noqa: E402

KEYS = ("tokens", "labels", "loss_mask", "position_ids")


def arguments():
    steps = os.environ.get("STEPS", "40")
    every = int(os.environ.get("EVAL", "20"))
    tp = int(os.environ.get("TP", "2"))
    line = f"""
        --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128
        --tokenizer-type NullTokenizer --vocab-size 1023 --mock-data --split 90,5,5 --num-workers 0
        --micro-batch-size 2 --global-batch-size 16 --train-iters {steps}
        --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 0 --weight-decay 0.01 --clip-grad 1.0
        --bf16 --use-distributed-optimizer
        --tensor-model-parallel-size {tp} --pipeline-model-parallel-size {os.environ.get("PP", "2")}
        --transformer-impl local --attention-backend unfused
        --no-gradient-accumulation-fusion --no-persist-layer-norm --no-masked-softmax-fusion --no-rope-fusion
        --no-bias-gelu-fusion --no-bias-swiglu-fusion --no-bias-dropout-fusion
        --no-create-attention-mask-in-dataloader --disable-gloo-process-groups --no-one-logger --disable-jit-fuser
        --distributed-timeout-minutes 3 --log-interval 1 --log-throughput
    """
    if tp > 1:
        line += " --sequence-parallel"
    line += f" --eval-iters 2 --eval-interval {every}" if every else " --eval-iters 0 --eval-interval 1000000"
    return line.split() + sys.argv[1:]


def has_data(vp_stage=None):
    edge = mpu.is_pipeline_first_stage() or mpu.is_pipeline_last_stage()
    return edge and mpu.get_tensor_model_parallel_rank() == 0


def datasets(sizes, vp_stage=None):
    args = get_args()
    config = GPTDatasetConfig(
        random_seed=args.seed,
        sequence_length=args.seq_length,
        split=args.split,
        tokenizer=get_tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    return BlendedMegatronDatasetBuilder(MockGPTDataset, sizes, has_data, config).build()


datasets.is_distributed = True


def batch(data):
    args = get_args()
    first, last = mpu.is_pipeline_first_stage(), mpu.is_pipeline_last_stage()
    if not (first or last):
        return [None] * len(KEYS)
    rank = mpu.get_tensor_model_parallel_rank()
    found = dict.fromkeys(KEYS + ("attention_mask",))
    if rank == 0:
        sample = next(data)
        found.update((key, sample[key].cuda(non_blocking=True)) for key in KEYS)
    found = get_batch_on_this_tp_rank(
        found,
        has_cu_seqlens=False,
        is_hybrid_cp=False,
        create_attention_mask_in_dataloader=False,
        broadcast_src_rank=mpu.get_tensor_model_parallel_src_rank(),
        broadcast_group=mpu.get_tensor_model_parallel_group(),
        cp_size=1,
        tp_rank=rank,
        micro_batch_size=args.micro_batch_size,
        seq_length=args.seq_length,
        mtp_on_this_rank=False,
        pipeline_model_parallel_size=args.pipeline_model_parallel_size,
        is_pipeline_first_stage=first,
        is_pipeline_last_stage=last,
    )
    return [found[key] for key in KEYS]


def loss_of(mask, output):
    mask = mask.view(-1).float()
    loss = torch.sum(output.view(-1).float() * mask)
    count = mask.sum().detach().to(torch.int)
    return loss, count, {"lm loss": torch.cat([loss.detach().view(1), count.view(1)])}


def forward(data, model, return_schedule_plan=False):
    tokens, labels, mask, positions = batch(data)
    return model(tokens, positions, None, labels=labels), partial(loss_of, mask)


def norm(cls, config, hidden_size, eps=1e-5, **unused):
    """PyTorch's LayerNorm, marked so that Megatron adds up its gradients over the tensor-parallel ranks."""
    made = torch.nn.LayerNorm(hidden_size, eps)
    for weight in made.parameters():
        weight.sequence_parallel = config.sequence_parallel
    return made


def marked(log):
    def call(loss, total, rate, iteration, *rest, **named):
        result = log(loss, total, rate, iteration, *rest, **named)
        truth.step(iteration)
        return result

    return call


if __name__ == "__main__":
    sys.argv = sys.argv[:1] + arguments()
    dataset_utils.compile_helpers = lambda: None  # the wheel has them compiled
    WrappedTorchNorm.__new__ = norm
    training.training_log = marked(training.training_log)
    args = parse_and_validate_args()
    config = pretrain_cfg_container_from_args(args, gpt_config_from_args(args))
    pretrain(config, datasets, ModelType.encoder_or_decoder, forward)
    torch.distributed.barrier()
    torch.cuda.synchronize()
    truth.finish()
    torch.distributed.destroy_process_group()
