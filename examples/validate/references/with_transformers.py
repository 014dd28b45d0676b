"""torchrun --nproc-per-node 2 with_transformers.py; the reference: python with_transformers.py."""

import os
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

WHOLE_BATCH = 16  # of all ranks and passes
PASSES = int(os.environ.get("PASSES", "1"))  # whose gradients are accumulated
world = int(os.environ.get("WORLD_SIZE", "1"))


class Samples(torch.utils.data.Dataset):
    """Texts whose labels differ in number, as those of prompts and answers do."""

    def __len__(self):
        return 72

    def __getitem__(self, index):
        words = torch.randint(64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": torch.where(torch.arange(16) < index % 12, -100, words)}


torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                     num_attention_heads=2, attention_dropout=0.0))
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), seed=0, num_train_epochs=2, dataloader_drop_last=True,
    per_device_train_batch_size=WHOLE_BATCH // world // PASSES, gradient_accumulation_steps=PASSES,
    average_tokens_across_devices=True, use_cpu=True, ddp_backend="gloo" if world > 1 else None,
    report_to=[], disable_tqdm=True, save_strategy="no")
Trainer(model=model, args=arguments, train_dataset=Samples()).train()
