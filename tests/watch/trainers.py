"""Trainings by real trainers on a tiny random model: trainers.py TRAINER, with an environment that has them.
With FAULT, rank 1 doubles a gradient in step 3."""

import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.set_num_threads(1)
RANK = int(os.environ["RANK"])
STEPS = 5


def model():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2))


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        words = torch.randint(64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words}


def spoil(parameters, step):
    if "FAULT" in os.environ and step == 3 and RANK == 1:
        next(p for p in parameters if p.grad is not None).grad.mul_(2)


def transformers_trainer(**options):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Spoils(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **rest):
            spoil(model.parameters(), state.global_step + 1)

    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4,
        gradient_accumulation_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, logging_steps=1,
        save_strategy="no", ddp_backend="gloo", **options)
    if "fsdp" in options:
        use_fsdp_on_cpus()
    Trainer(model=model(), args=arguments, train_dataset=Samples(), callbacks=[Spoils()]).train()


def transformers_ddp():
    transformers_trainer()


def use_fsdp_on_cpus():
    """accelerate, and with it transformers' Trainer, leaves out FSDP on CPUs without a word: its state is told
    that they are GPUs. What it then does with the model and the optimizer is its own code."""
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    state = PartialState(cpu=True)
    state.distributed_type = DistributedType.MULTI_GPU
    state.device = torch.device("cpu")


def copies_of_shards():
    """Each parameter is divided among two ranks, of which there are two copies."""
    from accelerate.utils import ParallelismConfig

    return ParallelismConfig(dp_replicate_size=2, dp_shard_size=2)


def transformers_fsdp2():
    transformers_trainer(fsdp=True, parallelism_config=copies_of_shards(), fsdp_config={
        "version": 2, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "transformer_layer_cls_to_wrap": ["GPT2Block"], "cpu_ram_efficient_loading": False})


def accelerate_fsdp(**options):
    from accelerate import Accelerator, FullyShardedDataParallelPlugin

    use_fsdp_on_cpus()
    parallelism = options.pop("parallelism", None)
    plugin = FullyShardedDataParallelPlugin(
        auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["GPT2Block"],
        cpu_ram_efficient_loading=False, **options)
    accelerated_loop(Accelerator(cpu=True, gradient_accumulation_steps=2, fsdp_plugin=plugin,
                                 parallelism_config=parallelism))


def accelerate_fsdp1():
    """NO_SHARD: with other strategies all ranks of a machine hold parts."""
    accelerate_fsdp(fsdp_version=1, sharding_strategy="NO_SHARD", use_orig_params=True,
                    sync_module_states=False)


def accelerate_fsdp2():
    accelerate_fsdp(fsdp_version=2, parallelism=copies_of_shards())


def accelerate_fsdp2_of_parts():
    accelerate_fsdp(fsdp_version=2)


def accelerate_ddp():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    accelerated_loop(accelerator)


def accelerated_loop(accelerator):
    module = model()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(Samples(), batch_size=4)
    module, optimizer, loader = accelerator.prepare(module, optimizer, loader)
    step = 1
    for batch in loader:
        with accelerator.accumulate(module):
            loss = module(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(module.parameters(), 1.0)
                spoil(module.parameters(), step)
                step += 1
            optimizer.step()
            optimizer.zero_grad()


def lightning_ddp():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = model()

        def training_step(self, batch, _):
            return self.inner(**batch).loss

        def validation_step(self, batch, _):  # of more batches on rank 0
            self.log("one", 1.0, on_epoch=True, sync_dist=True, batch_size=1)

        def on_before_optimizer_step(self, optimizer):
            spoil(self.parameters(), self.global_step + 1)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    trainer = lightning.Trainer(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp", max_steps=STEPS,
                                logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                use_distributed_sampler="UNEVEN" not in os.environ, val_check_interval=2,
                                check_val_every_n_epoch=None)
    evaluated = None
    if "UNEVEN" in os.environ:
        evaluated = torch.utils.data.DataLoader(range(4 if os.environ["RANK"] == "0" else 3))
    trainer.fit(Module(), torch.utils.data.DataLoader(Samples(), batch_size=4), evaluated)


def trl_sft():
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    class Spoils(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **rest):
            spoil(model.parameters(), state.global_step + 1)

    rows = Dataset.from_list([{"input_ids": row["input_ids"].tolist()} for row in
                              (Samples()[i] for i in range(64))])
    arguments = SFTConfig(output_dir=tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4,
                          use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no", ddp_backend="gloo",
                          bf16=False, max_length=16, dataset_kwargs={"skip_prepare_dataset": True},
                          gradient_checkpointing=False)
    SFTTrainer(model=model(), args=arguments, train_dataset=rows, processing_class=tokenizer(),
               callbacks=[Spoils()]).train()


def deepspeed_zero():
    """ZERO: the stage, 1 to 3."""
    import deepspeed

    deepspeed.init_distributed(dist_backend="gloo")
    module = model()
    config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": int(os.environ["ZERO"])},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}}
    engine, _, _, _ = deepspeed.initialize(model=module, model_parameters=module.parameters(), config=config)
    for step in range(1, STEPS + 1):
        words = torch.randint(64, (4, 16), generator=torch.Generator().manual_seed(10 * step + RANK))
        engine.backward(engine(input_ids=words, labels=words).loss)
        if "FAULT" in os.environ and step == 3 and RANK == 1:
            with torch.no_grad():
                next(module.parameters()).add_(1)
        engine.step()


def tokenizer():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<eos>": 1, **{"w%d" % i: i for i in range(2, 64)}}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<pad>")),
                                   pad_token="<pad>", eos_token="<eos>")


{one.__name__: one for one in (transformers_ddp, transformers_fsdp2, accelerate_ddp, accelerate_fsdp1,
                               accelerate_fsdp2, accelerate_fsdp2_of_parts, lightning_ddp, trl_sft,
                               deepspeed_zero)}[sys.argv[1]]()
