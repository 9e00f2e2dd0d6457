"""Lightning's Trainer on a tiny network: its progress bar, redrawn over itself, is the step line."""

import os

import truth

truth.prepare()
# Lightning counts a node's devices from this: one for each rank where ranks share a GPU.
os.environ["TORCHELASTIC_RUN_ID"] = "capture"

import lightning  # noqa: E402
import torch  # noqa: E402


class Mark(lightning.pytorch.callbacks.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        truth.step(batch_idx + 1)

    def on_fit_end(self, trainer, module):
        truth.finish()


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6)))

    def training_step(self, batch, batch_idx):
        loss = self.net(batch[0]).pow(2).mean()
        self.log("train_loss", loss, prog_bar=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def main():
    world, steps = int(os.environ["WORLD_SIZE"]), int(os.environ.get("STEPS", "40"))
    one = os.environ.get("CAPTURE_ONE_GPU") == "1"
    data = torch.utils.data.TensorDataset(torch.randn(16 * steps * world, 512))
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=1 if one else world,
        num_nodes=world if one else 1,
        strategy="ddp",
        max_steps=steps,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        callbacks=[lightning.pytorch.callbacks.TQDMProgressBar(), Mark()],
    )
    trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=16))


if __name__ == "__main__":
    main()
