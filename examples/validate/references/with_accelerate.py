"""torchrun --nproc-per-node 2 with_accelerate.py; the reference: python with_accelerate.py."""

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

WHOLE_BATCH = 16  # of all ranks

accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(
    split_batches=True, use_seedable_sampler=True, data_seed=0))
set_seed(0)
data = TensorDataset(torch.randn(72, 8), torch.randn(72, 1))
loader = DataLoader(data, batch_size=WHOLE_BATCH, shuffle=True, drop_last=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
accelerator.end_training()
