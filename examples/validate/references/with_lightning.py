"""torchrun --nproc-per-node 2 with_lightning.py; the reference: python with_lightning.py."""

import os

import lightning
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WHOLE_BATCH = 16  # of all ranks

rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


lightning.seed_everything(0)
data = TensorDataset(torch.randn(72, 8), torch.randn(72, 1))
sampler = DistributedSampler(data, num_replicas=world, rank=rank, seed=0, drop_last=True)
loader = DataLoader(data, batch_size=WHOLE_BATCH // world, sampler=sampler, drop_last=True)
trainer = lightning.Trainer(
    accelerator="cpu", devices=world, strategy="ddp" if world > 1 else "auto", use_distributed_sampler=False,
    max_epochs=2, gradient_clip_val=1.0, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False)
trainer.fit(Module(), loader)
