"""Mistakes for which ranks do not stay in lockstep, as users make them with torch, accelerate, transformers, Lightning
and DeepSpeed, on two ranks. planted_causes.py runs them: mistakes.py NAME OUT.

Each says what a report has to tell: `cause`, a regular expression for the words after "Cause:", or for a line of the
report if `is_note`. The right line has the comment "the mistake". It is the line to change, or where the wrapper was
made too early."""

import os
import signal
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
LONGEST_S = 240


class Mistake:
    def __init__(self, framework, cause, is_note, train):
        self.framework, self.cause, self.is_note, self.train = framework, cause, is_note, train


MISTAKES = {}
BYPASS = "DDP's forward was n(ever|ot) called.*the loss was computed on the module inside it"
NO_SYNC = "DDP's forward was called in no_sync\\(\\) alone"
ADDED = "they were added to the module, or replaced, after DDP had wrapped it"
UNFROZEN = "they required no gradient when DDP wrapped the module"
OUTSIDE = "they are in no module that DDP wraps"
UNWRAPPED = "neither DDP nor FSDP wraps the module"


def mistake(framework, cause, is_note=False):
    def add(train):
        MISTAKES[train.__name__] = Mistake(framework, cause, is_note, train)
        return train
    return add


# What trainings share.


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16))
        self.drop = nn.Dropout(0.1)
        self.adapter = None
        self.head = nn.Linear(16, 4)

    def forward(self, rows):
        rows = self.drop(torch.tanh(self.encoder(rows)))
        return self.head(rows if self.adapter is None else rows + self.adapter(rows))

    def training_loss(self, rows):
        return loss_of(self(rows))


class KeyAndValue(nn.ModuleDict):
    def __init__(self, names):
        super().__init__({name: nn.Linear(16, 16) for name in names})

    def forward(self, rows):
        return torch.sigmoid(self["key"](rows)) * self["value"](rows)


def net():
    torch.manual_seed(0)
    return Net()


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        return torch.randn(8, generator=torch.Generator().manual_seed(index))


def loss_of(output):
    return output.pow(2).mean()


def batch(step, part=0):
    generator = torch.Generator().manual_seed(1000 * step + 10 * part + dist.get_rank())
    return torch.randn(4, 8, generator=generator)


def sgd(parameters, rate=0.05):
    return torch.optim.SGD(parameters, rate)


def joined():
    dist.init_process_group("gloo")


def train(model, optimizer):
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(batch(step))).backward()
        optimizer.step()


# torch: DistributedDataParallel.


def wrapped():
    joined()
    model = DistributedDataParallel(net())
    return model, sgd(model.parameters())


@mistake("torch DDP", BYPASS)
def loss_on_module():
    model, optimizer = wrapped()
    for step in range(STEPS):
        optimizer.zero_grad()
        output = model.module(batch(step))  # the mistake
        loss_of(output).backward()
        optimizer.step()


@mistake("torch DDP", BYPASS)
def forward_method_of_module():
    model, optimizer = wrapped()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model.module.forward(batch(step))).backward()  # the mistake
        optimizer.step()


@mistake("torch DDP", BYPASS)
def parts_of_module():
    model, optimizer = wrapped()
    for step in range(STEPS):
        optimizer.zero_grad()
        features = model.module.encoder(batch(step))  # the mistake
        loss_of(model.module.head(torch.tanh(features))).backward()
        optimizer.step()


@mistake("torch DDP", BYPASS)
def method_of_module():
    model, optimizer = wrapped()
    for step in range(STEPS):
        optimizer.zero_grad()
        model.module.training_loss(batch(step)).backward()  # the mistake
        optimizer.step()


@mistake("torch DDP", BYPASS)
def raw_model_after_evaluation():
    """The evaluation unwraps the model, and the loop goes on with that one."""
    model, optimizer = wrapped()
    for step in range(2 * STEPS):
        if step == STEPS:
            model = model.module
            model.eval()
            with torch.no_grad():
                model(batch(step))
            model.train()
        optimizer.zero_grad()
        loss_of(model(batch(step))).backward()  # the mistake
        optimizer.step()


@mistake("torch DDP", NO_SYNC)
def no_sync_off_by_one():
    joined()
    model, accumulated = DistributedDataParallel(net()), 2
    optimizer = sgd(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(accumulated):
            model.require_backward_grad_sync = part == accumulated  # never
            loss_of(model(batch(step, part))).backward()  # the mistake
        optimizer.step()


@mistake("torch DDP", NO_SYNC)
def forward_in_no_sync_backward_outside():
    model, optimizer = wrapped()
    for step in range(STEPS):
        optimizer.zero_grad()
        with model.no_sync():
            loss = loss_of(model(batch(step)))  # the mistake
        loss.backward()
        optimizer.step()


@mistake("torch DDP", NO_SYNC)
def step_in_every_micro_batch():
    """The optimizer steps in the passes without sync, too."""
    model, optimizer = wrapped()
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        model.require_backward_grad_sync = step % 2 == 1
        loss_of(model(batch(step))).backward()  # the mistake
        optimizer.step()


@mistake("torch DDP", ADDED)
def adapter_after_wrapper():
    joined()
    module = net()
    model = DistributedDataParallel(module)  # the mistake
    module.adapter = nn.Linear(16, 16, bias=False)
    optimizer = sgd(model.parameters())
    train(model, optimizer)


@mistake("torch DDP", ADDED)
def head_replaced_after_wrapper():
    joined()
    model = DistributedDataParallel(net(), find_unused_parameters=True)  # the mistake
    model.module.head = nn.Linear(16, 4)
    optimizer = sgd(model.parameters())
    train(model, optimizer)


@mistake("torch DDP", "AdamW.state is empty on rank 1 and not empty on rank 0")
def optimizer_state_loaded_by_rank_0():
    """The others go on with moments of zero."""
    joined()
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters())
    if dist.get_rank() == 0:
        moments = {number: {"step": torch.tensor(3.), "exp_avg": torch.full_like(parameter, 0.01),
                            "exp_avg_sq": torch.full_like(parameter, 0.01)}
                   for number, parameter in enumerate(model.parameters())}
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    train(model, optimizer)


@mistake("torch DDP", "SGD holds parameters that the model does not: it was made before a part of the model was replaced")
def head_replaced_after_optimizer():
    joined()
    module = net()
    optimizer = torch.optim.SGD(module.parameters(), 0.05)  # the mistake
    module.head = nn.Linear(16, 2)
    train(DistributedDataParallel(module), optimizer)


@mistake("torch DDP", "ranks 0 and 1 have the 10 parameters of the model in different orders, and DDP pairs them",
         is_note=True)
def modules_in_the_order_of_each_rank():
    """As of a set of words."""
    joined()
    module = net()
    module.adapter = KeyAndValue(["key", "value"] if dist.get_rank() == 0 else ["value", "key"])
    model = DistributedDataParallel(module)
    train(model, sgd(model.parameters()))


@mistake("torch DDP", "parameters were written on rank 1 between steps 2 and 3, outside of the optimizer")
def weights_clamped_on_one_rank():
    joined()
    model = DistributedDataParallel(net())
    optimizer = sgd(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(batch(step))).backward()
        optimizer.step()
        if step == 1 and dist.get_rank() == 1:
            with torch.no_grad():
                model.module.head.weight.clamp_(-0.05, 0.05)


@mistake("torch DDP", UNFROZEN)
def unfrozen_after_wrapper():
    joined()
    module = net()
    module.encoder.requires_grad_(False)
    model = DistributedDataParallel(module)  # the mistake
    optimizer = sgd(model.parameters())
    for step in range(2 * STEPS):
        if step == 4:
            module.encoder.requires_grad_(True)
        optimizer.zero_grad()
        loss_of(model(batch(step))).backward()
        optimizer.step()


@mistake("torch DDP", OUTSIDE)
def criterion_outside_wrapper():
    joined()
    model, margin = DistributedDataParallel(net()), nn.Linear(4, 4)  # the mistake
    optimizer = sgd([*model.parameters(), *margin.parameters()])
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(margin(model(batch(step)))).backward()
        optimizer.step()


@mistake("torch DDP", "DDP's group has one rank")
def group_of_one():
    joined()
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    model = DistributedDataParallel(net(), process_group=groups[dist.get_rank()])  # the mistake
    optimizer = sgd(model.parameters())
    train(model, optimizer)


@mistake("torch DDP", UNWRAPPED)
def no_wrapper():
    joined()
    model = net()
    optimizer = sgd(model.parameters())
    train(model, optimizer)


@mistake("torch DDP", "SGD.lr is 0.05 on rank 0 and 0.1 on rank 1")
def rate_by_rank():
    joined()
    model = DistributedDataParallel(net())
    optimizer = sgd(model.parameters(), 0.05 * (dist.get_rank() + 1))
    train(model, optimizer)


@mistake("torch DDP", "AdamW.weight_decay is 0.01 on rank 1 and 0.1 on rank 0")
def weight_decay_read_by_rank_0():
    joined()
    options = {"weight_decay": 0.1} if dist.get_rank() == 0 else {}  # rank 0 alone reads the file
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, **options)
    train(model, optimizer)


@mistake("torch DDP", "SGD.lr is 0.005\\d* on rank 0 and 0.05 on rank 1")
def scheduler_stepped_by_rank_0():
    model, optimizer = wrapped()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(batch(step))).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            scheduler.step()


@mistake("torch DDP", "ranks differ in the mode of Net from step 4 on: eval\\(\\) on rank 0", is_note=True)
def left_in_evaluation_by_rank_0():
    model, optimizer = wrapped()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(batch(step))).backward()
        optimizer.step()
        if step == 2 and dist.get_rank() == 0:
            model.eval()
            with torch.no_grad():
                model.module(batch(step))


@mistake("torch DDP", "gradients were changed on rank 0 after the backward pass")
def clipped_by_rank_0():
    model, optimizer = wrapped()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(batch(step))).backward()
        if dist.get_rank() == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-4)
        optimizer.step()


# torch: fully_shard.


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.head = nn.Linear(16, 4)

    def forward(self, rows):
        rows = self.embed(rows)
        for block in self.blocks:
            rows = torch.tanh(block(rows))
        return self.head(rows)


def blocks():
    torch.manual_seed(0)
    return Blocks()


@mistake("torch fully_shard", "they are in no module that fully_shard wraps")
def root_not_sharded():
    from torch.distributed.fsdp import fully_shard

    joined()
    model = blocks()
    for block in model.blocks:
        fully_shard(block)
    optimizer = sgd(model.parameters())
    train(model, optimizer)


@mistake("torch fully_shard", "fully_shard was told not to reduce them: .*set_requires_all_reduce")
def replicas_never_reduced():
    """Two copies, as of two nodes: the last micro-batch should reduce."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    joined()
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    model, accumulated = fully_shard(blocks(), mesh=mesh), 2
    optimizer = sgd(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(accumulated):
            model.set_requires_all_reduce(part == accumulated)  # never
            loss_of(model(batch(step, part))).backward()
        optimizer.step()


@mistake("torch fully_shard", "SGD holds parameters that the model does not: it was made before fully_shard")
def optimizer_made_before_fully_shard():
    from torch.distributed.fsdp import fully_shard

    joined()
    model = blocks()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)  # the mistake
    fully_shard(model)
    train(model, optimizer)


# accelerate.


def accelerator(**options):
    from accelerate import Accelerator

    return Accelerator(cpu=True, **options)


def loader():
    return torch.utils.data.DataLoader(Rows(), batch_size=4)


def prepared(accelerator):
    module = net()
    return accelerator.prepare(module, sgd(module.parameters()), loader())


def train_by(accelerator, model, optimizer, rows):
    for _, part in zip(range(STEPS), rows):
        accelerator.backward(loss_of(model(part)))
        optimizer.step()
        optimizer.zero_grad()


@mistake("accelerate", BYPASS)
def unwrap_model():
    one = accelerator()
    model, optimizer, rows = prepared(one)
    for _, part in zip(range(STEPS), rows):
        optimizer.zero_grad()
        loss = loss_of(one.unwrap_model(model)(part))  # the mistake
        one.backward(loss)
        optimizer.step()


@mistake("accelerate", BYPASS)
def loss_on_the_model_before_prepare():
    one, module = accelerator(), net()
    _, optimizer, rows = one.prepare(module, sgd(module.parameters()), loader())
    for _, part in zip(range(STEPS), rows):
        optimizer.zero_grad()
        one.backward(loss_of(module(part)))  # the mistake
        optimizer.step()


@mistake("accelerate", NO_SYNC)
def no_sync_around_all():
    one = accelerator()
    model, optimizer, rows = prepared(one)
    for _, part in zip(range(STEPS), rows):
        with one.no_sync(model):
            one.backward(loss_of(model(part)))  # the mistake
        optimizer.step()
        optimizer.zero_grad()


@mistake("accelerate", NO_SYNC)
def optimizer_not_prepared():
    """It steps in each micro-batch, reduced or not."""
    one, module = accelerator(gradient_accumulation_steps=2), net()
    optimizer = sgd(module.parameters())
    model, rows = one.prepare(module, loader())
    for _, part in zip(range(2 * STEPS), rows):
        with one.accumulate(model):
            one.backward(loss_of(model(part)))  # the mistake
            optimizer.step()
            optimizer.zero_grad()


@mistake("accelerate", UNWRAPPED)
def model_not_prepared():
    one, model = accelerator(), net()
    optimizer, rows = one.prepare(sgd(model.parameters()), loader())
    train_by(one, model, optimizer, rows)


@mistake("accelerate", OUTSIDE)
def criterion_not_prepared():
    one, module, margin = accelerator(), net(), nn.Linear(4, 4)
    optimizer = sgd([*module.parameters(), *margin.parameters()])
    model, optimizer, rows = one.prepare(module, optimizer, loader())  # the mistake
    for _, part in zip(range(STEPS), rows):
        one.backward(loss_of(margin(model(part))))
        optimizer.step()
        optimizer.zero_grad()


@mistake("accelerate", ADDED)
def adapter_after_prepare():
    one, module = accelerator(), net()
    model, optimizer, rows = one.prepare(module, sgd(module.parameters()), loader())  # the mistake
    inside = one.unwrap_model(model)
    inside.adapter = nn.Linear(16, 16, bias=False)
    optimizer.add_param_group({"params": list(inside.adapter.parameters())})
    train_by(one, model, optimizer, rows)


@mistake("accelerate", "SGD.lr is 0.05 on rank 1 and 0.1 on rank 0")
def rate_scaled_by_main_process():
    one, module = accelerator(), net()
    rate = 0.05 * (one.num_processes if one.is_main_process else 1)
    model, optimizer, rows = one.prepare(module, sgd(module.parameters(), rate), loader())
    train_by(one, model, optimizer, rows)


# transformers.


def gpt():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        words = torch.randint(64, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words}


def arguments(**options):
    from transformers import TrainingArguments

    return TrainingArguments(**{
        "output_dir": tempfile.mkdtemp(), "max_steps": STEPS, "per_device_train_batch_size": 4, "use_cpu": True,
        "report_to": [], "disable_tqdm": True, "save_strategy": "no", "ddp_backend": "gloo", "learning_rate": 1e-3,
        "lr_scheduler_type": "constant", **options})


@mistake("transformers", BYPASS)
def compute_loss_on_the_trainers_model():
    from transformers import Trainer

    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **rest):
            return self.model(**inputs).loss  # the mistake

    Own(model=gpt(), args=arguments(), train_dataset=Words()).train()


@mistake("transformers", BYPASS)
def compute_loss_unwraps():
    from transformers import Trainer

    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **rest):
            inside = self.accelerator.unwrap_model(model)
            hidden = inside.transformer(inputs["input_ids"]).last_hidden_state  # the mistake
            return loss_of(inside.lm_head(hidden))

    Own(model=gpt(), args=arguments(), train_dataset=Words()).train()


@mistake("transformers", UNFROZEN)
def callback_unfreezes():
    from transformers import Trainer, TrainerCallback

    class Unfreeze(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **rest):
            if state.global_step == 3:
                model.requires_grad_(True)

    model = gpt()
    model.transformer.h.requires_grad_(False)
    trainer = Trainer(model=model, args=arguments(max_steps=10), train_dataset=Words(), callbacks=[Unfreeze()],
                      optimizers=(sgd(model.parameters()), None))
    trainer.train()  # the mistake


@mistake("transformers", ADDED)
def callback_adds_an_adapter():
    from transformers import Trainer, TrainerCallback

    class Add(TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **rest):
            block = model.transformer.h[0]
            torch.manual_seed(1)
            adapter = nn.Linear(16, 16)
            block.adapter = adapter
            block.mlp.register_forward_hook(lambda module, args, output: output + adapter(output))
            optimizer.add_param_group({"params": list(adapter.parameters())})
            if lr_scheduler is not None:  # since transformers 5.24 it is there already, and wants a rate for each group
                for known in lr_scheduler.base_lrs, lr_scheduler.lr_lambdas:
                    known.append(known[0])

    model = gpt()
    trainer = Trainer(model=model, args=arguments(), train_dataset=Words(), callbacks=[Add()],
                      optimizers=(sgd(model.parameters()), None))
    trainer.train()  # the mistake


@mistake("transformers", OUTSIDE)
def criterion_of_the_trainer():
    from transformers import Trainer

    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **rest):
            return loss_of(margin(model(**inputs).logits))

    margin, model = nn.Linear(64, 4), gpt()
    optimizer = sgd([*model.parameters(), *margin.parameters()])
    trainer = Own(model=model, args=arguments(), train_dataset=Words(), optimizers=(optimizer, None))
    trainer.train()  # the mistake


@mistake("transformers", "AdamW.*lr is .* on rank 0 and .* on rank 1")
def callback_sets_the_rate_of_rank_0():
    from transformers import Trainer, TrainerCallback

    class Lower(TrainerCallback):
        def on_step_end(self, args, state, control, optimizer=None, **rest):
            if state.is_world_process_zero and state.global_step == 3:
                for group in optimizer.param_groups:
                    group["lr"] /= 2

    Trainer(model=gpt(), args=arguments(), train_dataset=Words(), callbacks=[Lower()]).train()


@mistake("transformers", "gradients were changed on rank 0 after the backward pass")
def callback_changes_gradients_of_rank_0():
    from transformers import Trainer, TrainerCallback

    class Scale(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **rest):
            if state.is_world_process_zero:
                for parameter in model.parameters():
                    parameter.grad *= 0.5

    Trainer(model=gpt(), args=arguments(), train_dataset=Words(), callbacks=[Scale()]).train()


# Lightning.


def lightning_trainer(**options):
    import lightning

    return lightning.Trainer(**{"accelerator": "cpu", "devices": 2, "strategy": "ddp", "max_steps": STEPS,
                                "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
                                "enable_model_summary": False, **options})


def lightning_module(**methods):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def forward(self, rows):
            return self.inner(rows)

        def training_step(self, rows, _):
            return loss_of(self(rows))

        def configure_optimizers(self):
            return sgd(self.parameters())

    return type("Module", (Module,), methods)()


def fabric():
    import lightning

    one = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    one.launch()
    return one


@mistake("Lightning", BYPASS)
def fabric_module():
    one = fabric()
    module = net()
    model, optimizer = one.setup(module, sgd(module.parameters()))
    rows = one.setup_dataloaders(loader())
    for _, part in zip(range(STEPS), rows):
        optimizer.zero_grad()
        one.backward(loss_of(module(part)))  # the mistake
        optimizer.step()


@mistake("Lightning", NO_SYNC)
def fabric_no_backward_sync():
    one = fabric()
    module = net()
    model, optimizer = one.setup(module, sgd(module.parameters()))
    rows = one.setup_dataloaders(loader())
    for index, part in zip(range(STEPS), rows):
        with one.no_backward_sync(model, enabled=(index + 1) % 1 == 0):
            one.backward(loss_of(model(part)))  # the mistake
        optimizer.step()
        optimizer.zero_grad()


@mistake("Lightning", ADDED)
def adapter_in_on_train_start():
    def on_train_start(self):
        torch.manual_seed(1)
        self.inner.adapter = nn.Linear(16, 16, bias=False)
        self.optimizers().add_param_group({"params": list(self.inner.adapter.parameters())})

    lightning_trainer().fit(lightning_module(on_train_start=on_train_start), loader())  # the mistake


@mistake("Lightning", UNFROZEN)
def finetuning_callback():
    from lightning.pytorch.callbacks import BaseFinetuning

    class Finetune(BaseFinetuning):
        def freeze_before_training(self, module):
            self.freeze(module.inner.encoder)

        def finetune_function(self, module, epoch, optimizer):
            if epoch == 1:
                self.unfreeze_and_add_param_group(module.inner.encoder, optimizer)

    def configure_optimizers(self):
        return sgd([p for p in self.parameters() if p.requires_grad])

    trainer = lightning_trainer(callbacks=[Finetune()], max_steps=12, limit_train_batches=3)
    trainer.fit(lightning_module(configure_optimizers=configure_optimizers), loader())  # the mistake


@mistake("Lightning", "SGD.lr is 0.05 on rank 0 and 0.1 on rank 1")
def rate_by_global_rank():
    def configure_optimizers(self):
        return sgd(self.parameters(), 0.05 * (self.global_rank + 1))

    lightning_trainer().fit(lightning_module(configure_optimizers=configure_optimizers), loader())


@mistake("Lightning", "SGD.lr is 0.005\\d* on rank 0 and 0.05 on rank 1")
def plateau_of_each_ranks_loss():
    """`self.log` without sync_dist: each rank has the loss of its own samples."""
    def configure_optimizers(self):
        optimizer = sgd(self.parameters())
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}

    def validation_step(self, rows, _):
        worse = self.current_epoch if self.global_rank == 0 else -self.current_epoch
        self.log("val_loss", loss_of(self(rows)) + worse)

    model = lightning_module(configure_optimizers=configure_optimizers, validation_step=validation_step)
    trainer = lightning_trainer(max_steps=8, limit_train_batches=2, limit_val_batches=1, num_sanity_val_steps=0)
    trainer.fit(model, loader(), loader())


@mistake("Lightning", "ranks differ in the mode of Module.* from step 4 on: eval\\(\\) on rank 0", is_note=True)
def samples_drawn_by_rank_0():
    def on_train_batch_end(self, outputs, rows, index):
        if self.trainer.is_global_zero and index == 2:
            self.eval()
            with torch.no_grad():
                self(rows)

    lightning_trainer().fit(lightning_module(on_train_batch_end=on_train_batch_end), loader())


# DeepSpeed.


def engine_of(module, optimizer=None, stage=0, **config):
    import deepspeed

    deepspeed.init_distributed(dist_backend="gloo")
    settings = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True, **config}
    if optimizer is None:
        settings["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
    engine, wrapped, _, _ = deepspeed.initialize(
        model=module, optimizer=optimizer, model_parameters=module.parameters(), config=settings)
    return engine, wrapped


def train_engine(engine):
    for step in range(STEPS):
        engine.backward(loss_of(engine(batch(step))))
        engine.step()


@mistake("DeepSpeed", "the loss was computed on the module inside it")
def own_optimizer_beside_the_engine():
    """The loop steps its own optimizer, as before it used the engine."""
    module = net()
    optimizer = sgd(module.parameters())
    engine, _ = engine_of(module, optimizer)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(engine.module(batch(step))).backward()  # the mistake
        optimizer.step()


@mistake("DeepSpeed", "AdamW.lr is 0.001 on rank 0 and 0.002 on rank 1")
def rate_by_rank_in_the_configuration():
    rate = 1e-3 * (int(os.environ["RANK"]) + 1)
    module = net()
    engine, _ = engine_of(module, torch.optim.AdamW(module.parameters(), lr=rate))
    train_engine(engine)


@mistake("DeepSpeed", "ranks differ in AdamW.lr: 0.001 on rank 0, 0.002 on rank 1", is_note=True)
def rate_by_rank_with_zero_1():
    """Each rank updates its part by its own rate, and all get all parts: they agree."""
    rate = 1e-3 * (int(os.environ["RANK"]) + 1)
    module = net()
    engine, _ = engine_of(module, torch.optim.AdamW(module.parameters(), lr=rate), stage=1)
    train_engine(engine)


@mistake("DeepSpeed", "they are in no module that DeepSpeed wraps")
def criterion_outside_the_engine():
    module, margin = net(), nn.Linear(4, 4)
    engine, optimizer = engine_of(module)
    own = sgd(margin.parameters())
    for step in range(STEPS):
        engine.backward(loss_of(margin(engine(batch(step)))))
        engine.step()
        own.step()
        own.zero_grad()


def watched(out, train, *arguments):
    """Runs a training that writes what Lockstep observes to `out`."""
    import lockstep

    torch.set_num_threads(1)
    signal.alarm(LONGEST_S)
    lockstep.watch(out=out)
    train(*arguments)
    lockstep.stop()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    watched(sys.argv[2], MISTAKES[sys.argv[1]].train)
