"""Trainings that use modules of upstream: train.py TRAINING. One process has the whole batch; it uses neither tiles nor
passes, so it is right whatever upstream does.

`wrapping` is one of the modules beside this one: how ranks average the gradients of tiles."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
STEPS, SAMPLES, LENGTH, WIDTH = 4, 8, 6, 8


def batch_of(step):
    return torch.randn(SAMPLES, LENGTH, WIDTH, generator=torch.Generator().manual_seed(step))


class Mlp(nn.Module):
    def __init__(self, tiled=None):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.tiled = tiled

    def whole(self, x):
        return self.down(torch.tanh(self.up(x)))

    def forward(self, x):
        return self.tiled(Mlp.whole, self, x, 3, list(self.parameters())) if self.tiled else self.whole(x)


def model_of(tiled=None):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), Mlp(tiled), nn.Linear(WIDTH, 1))


def train_tiles(tiled):
    import wrapping

    if WORLD > 1:
        dist.init_process_group("gloo")
    model = model_of(tiled if WORLD > 1 else None)
    wrapped = wrapping.wrapped(model) if WORLD > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        wrapped(batch_of(step).chunk(WORLD)[RANK]).square().mean().backward()
        wrapping.after_backward(model)
        optimizer.step()


def deepspeed_tiles():
    from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP

    train_tiles(TiledMLP.apply)


def liger_tiles():
    from liger_kernel.ops.tiled_mlp import apply_tiled_mlp

    train_tiles(apply_tiled_mlp)


def accelerate_passes():
    """Two passes per step, and gradients that are averaged in each of them."""
    from accelerate import Accelerator
    from accelerate.utils import GradientAccumulationPlugin

    passes = 2 if WORLD > 1 else 1
    accelerator = Accelerator(cpu=True, gradient_accumulation_plugin=GradientAccumulationPlugin(
        num_steps=passes, sync_each_batch=True, sync_with_dataloader=False))
    model = model_of()
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for step in range(STEPS):
        for part in range(passes):
            with accelerator.accumulate(model):
                accelerator.backward(model(batch_of(step).chunk(WORLD * passes)[WORLD * part + RANK]).square().mean())
                optimizer.step()
                optimizer.zero_grad()


class Texts(torch.utils.data.Dataset):
    """Their labels differ in number. The first one, which no output predicts, is none of them."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        words = torch.randint(64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": torch.where(torch.arange(16) <= index * 5 % 13, -100, words)}


def transformers_passes(passes="1"):
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                         num_attention_heads=2))
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=SAMPLES // WORLD // int(passes),
        gradient_accumulation_steps=int(passes), use_cpu=True, ddp_backend="gloo" if WORLD > 1 else None,
        report_to=[], disable_tqdm=True, save_strategy="no", max_grad_norm=0.0)
    Trainer(model=model, args=arguments, train_dataset=Texts()).train()


def peft_saved_module():
    """A module that is trained whole beside the adapters."""
    from peft import LoraConfig, get_peft_model

    if WORLD > 1:
        dist.init_process_group("gloo")
    model = get_peft_model(model_of(), LoraConfig(target_modules=["up"], modules_to_save=["2"], r=2))
    for name, parameter in model.named_parameters():
        if "lora_A" in name:  # releases draw it after other draws
            nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    wrapped = nn.parallel.DistributedDataParallel(model) if WORLD > 1 else model
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        wrapped(batch_of(step).chunk(WORLD)[RANK]).square().mean().backward()
        optimizer.step()


{one.__name__: one for one in (deepspeed_tiles, liger_tiles, accelerate_passes, transformers_passes,
                               peft_saved_module)}[sys.argv[1]](*sys.argv[2:])
