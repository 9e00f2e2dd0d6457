"""Hugging Face's Trainer on a tiny Llama: its progress bar and its dictionary are the step lines."""

import os

import truth

truth.prepare()

import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments  # noqa: E402


class Mark(TrainerCallback):
    """Called where the progress bar moves on; the loss is gathered and printed after it."""

    def on_step_end(self, args, state, control, **kwargs):
        truth.step(state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        truth.finish()


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, at):
        ids = torch.randint(1024, (64,), generator=torch.Generator().manual_seed(at))
        return {"input_ids": ids, "labels": ids}


def main():
    sizes = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=1024, num_key_value_heads=4, **sizes))
    steps = int(os.environ.get("STEPS", "40"))
    args = TrainingArguments(
        output_dir=os.environ.get("CAPTURE_OUT", "/tmp") + "/hf",
        per_device_train_batch_size=4,
        max_steps=steps,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        bf16=torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
    )
    Trainer(model=model, args=args, train_dataset=Tokens(), callbacks=[Mark()]).train()


if __name__ == "__main__":
    main()
