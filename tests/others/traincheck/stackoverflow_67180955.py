"""Stack Overflow 67180955: each worker of the loader starts with a copy of one random state, so workers return the
same numbers, and so do the workers of all ranks."""

import pathlib
import random
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import torch
from common import BUG, RANK, STEPS, finish, mean_square, perceptron, start
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WORKERS = 2
generator = random.Random(0)  # as NumPy's: torch seeds its own generator and Python's in workers, and not this one


class Noise(Dataset):
    def __len__(self) -> int:
        return 8 * 2 * STEPS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        numbers = torch.tensor([generator.gauss(0, 1) for _ in range(20)])
        return numbers[:16], numbers[16:]


def seed(worker: int) -> None:
    generator.seed(RANK * WORKERS + worker)


start()
model = DistributedDataParallel(perceptron())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in DataLoader(Noise(), batch_size=8, num_workers=WORKERS, worker_init_fn=None if BUG else seed):
    optimizer.zero_grad()
    mean_square(model(x), y).backward()
    optimizer.step()
finish()
