"""Megatron-LM 1464: attention under context parallelism returns wrong gradients of its inputs. Here the gradients of
keys and values that other ranks used are left out."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from common import BUG, Attention, Gather, Split, finish, start, train_on_sequences
from torch import nn

start()
Gather.adds_up = not BUG
model = nn.Sequential(Split(), nn.Linear(16, 16), Attention(), Attention())
train_on_sequences(model, list(model.parameters()))
finish()
