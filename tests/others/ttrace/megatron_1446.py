"""Megatron-LM 1446: with tensor and sequence parallelism the gradients of the final norm are not added up."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from common import BUG, Block, Split, finish, start, tensor_parallel, train_on_sequences
from torch import nn

start()
model = nn.Sequential(Split(), Block(), Block())
model.add_module("final_norm", nn.LayerNorm(16))
tensor_parallel(model, sequence=True)
whole = [p for name, p in model.named_parameters() if "norm" in name and not (BUG and "final" in name)]
train_on_sequences(model, whole)
finish()
