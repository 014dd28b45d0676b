"""Healthy trainings as people set them up with torch, accelerate, transformers, Lightning and DeepSpeed, drawn at
random, on two ranks. planted_causes.py runs them: healthy_setups.py SETUP OUT, with the setup as JSON."""

import contextlib
import copy
import json
import os
import random
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from mistakes import Rows, Words, arguments, engine_of, gpt, lightning_trainer, loader, loss_of, watched

FRAMEWORKS = ("torch", "accelerate", "transformers", "Lightning", "DeepSpeed")


def drawn(seed, present):
    """A setup, by name of what is drawn."""
    draw = random.Random(seed)
    framework = draw.choices(present, [{"torch": 5, "accelerate": 2}.get(one, 1.5) for one in present])[0]
    setup = {"seed": seed, "framework": framework}
    for name, choices in {**_COMMON, **_OWN[framework]}.items():
        setup[name] = draw.choice(choices)
    return setup


_COMMON = {
    "model": ["plain", "plain", "frozen", "adapters", "tied", "checkpointed", "norms"],
    "accumulated": [1, 1, 2, 3],
    "clip": [0, 0, 1.0, 1e-3],
    "autocast": [False, False, True],
    "optimizer": ["SGD", "AdamW", "Adam", "RMSprop"],
    "schedule": [None, "step", "warm-up", "epoch", "plateau"],
    "evaluated": [None, "all", "rank 0"],
    "resumed": [False, False, True],
    "metrics": [None, "reduced", "gathered", "printed by rank 0"]}
_OWN = {
    "torch": {
        "wrapper": ["DDP", "DDP", "DDP", "fully_shard", "replicas of fully_shard", "by hand", "flat by hand", "zero"],
        "ddp": [{}, {}, {"find_unused_parameters": True}, {"gradient_as_bucket_view": True}, {"static_graph": True},
                {"bucket_cap_mb": 0.001}, {"broadcast_buffers": False}],
        "scaler": [False, False, True], "averaged": [None, None, "EMA"], "hook": [None, None, None, "bf16"],
        "kind": ["one", "one", "one", "GAN", "distilled", "penalised", "two optimizers", "uneven", "compiled"]},
    "accelerate": {"saved": [False, True], "unwrapped_for_evaluation": [False, True],
                   "kind": ["one", "one", "two models", "no_sync by hand"]},
    "transformers": {"callback": [None, "logs", "norms by rank 0"], "loss": ["own", "overridden"],
                     "smoothing": [0.0, 0.1], "scheduler": ["linear", "cosine", "constant_with_warmup"]},
    "Lightning": {"kind": ["automatic", "automatic", "manual", "GAN", "Fabric", "swa"], "unused": [False, True]},
    "DeepSpeed": {"stage": [0, 1, 2]}}


class Part(nn.Module):
    def __init__(self, setup, width):
        super().__init__()
        self.is_checkpointed = setup["model"] == "checkpointed"
        self.line = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width) if setup["model"] == "norms" else nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)

    def inner(self, rows):
        return rows + self.drop(torch.tanh(self.line(self.norm(rows))))

    def forward(self, rows):
        if self.is_checkpointed and torch.is_grad_enabled():
            return checkpoint(self.inner, rows, use_reentrant=False)
        return self.inner(rows)


class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.Linear(base.in_features, 2, bias=False), nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows):
        return self.base(rows) + self.up(self.down(rows))


class Model(nn.Module):
    def __init__(self, setup, seed):
        super().__init__()
        torch.manual_seed(seed)
        width = 12
        self.first, self.last = nn.Linear(8, width), nn.Linear(width, 8)
        self.parts = nn.ModuleList(Part(setup, width) for _ in range(2))
        if setup["model"] == "frozen":
            self.parts[0].requires_grad_(False)
        if setup["model"] == "adapters":
            self.requires_grad_(False)
            for part in self.parts:
                part.line = Adapter(part.line)
        if setup["model"] == "tied":
            self.last.weight = nn.Parameter(self.first.weight.detach().t().contiguous())
            self.again = nn.Linear(8, width)
            self.again.weight = self.first.weight

    def forward(self, rows):
        rows = torch.tanh(self.first(rows))
        for part in self.parts:
            rows = part(rows)
        rows = self.last(rows)
        return self.again(rows) if hasattr(self, "again") else rows


def made_optimizer(setup, parameters):
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    return getattr(torch.optim, setup["optimizer"])(parameters, lr=0.01)


def made_schedule(setup, optimizer):
    schedulers = torch.optim.lr_scheduler
    return {None: lambda: None,
            "step": lambda: schedulers.StepLR(optimizer, 2),
            "warm-up": lambda: schedulers.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3)),
            "epoch": lambda: schedulers.CosineAnnealingLR(optimizer, 4),
            "plateau": lambda: schedulers.ReduceLROnPlateau(optimizer, patience=0)}[setup["schedule"]]()


def rows_of(setup, step, part=0):
    generator = torch.Generator().manual_seed(100000 * setup["seed"] + 1000 * step + 10 * part + dist.get_rank())
    return torch.randn(6, 8, generator=generator)


class TorchTraining:
    """The loop of a script."""

    def __init__(self, setup):
        self.setup = setup
        self.wrapper, self.kind = setup["wrapper"], setup["kind"]
        if self.kind == "uneven":
            self.wrapper, setup["scaler"], setup["metrics"], setup["evaluated"] = "DDP", False, None, None
            setup["accumulated"], setup["schedule"] = 1, None
        if setup["model"] == "norms" and self.wrapper not in ("DDP", "by hand", "flat by hand"):
            setup["model"] = "plain"
        self.is_sharded = "fully_shard" in self.wrapper
        if self.is_sharded:
            setup["scaler"], setup["averaged"], setup["resumed"] = False, None, False
        if self.is_sharded and self.kind in ("compiled", "penalised"):
            self.kind = "one"
        if self.kind == "compiled" and setup["model"] == "checkpointed":
            self.kind = "one"
        if self.kind == "compiled":  # torch wants a first bucket that is no larger than the others
            setup["ddp"].pop("bucket_cap_mb", None)
        if setup["ddp"].get("static_graph") or setup["model"] == "checkpointed":
            setup["ddp"] = {} if self.kind in ("GAN", "uneven") or setup["accumulated"] > 1 else setup["ddp"]
        dist.init_process_group("gloo")
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0) if setup["scaler"] else None
        self.make()

    def make(self):
        setup = self.setup
        self.module = Model(setup, setup["seed"])
        self.teacher = copy.deepcopy(self.module).requires_grad_(False) if self.kind == "distilled" else None
        self.average = copy.deepcopy(self.module) if setup["averaged"] else None
        self.model = self.wrapped(self.module)
        self.other = self.wrapped(Model(setup, setup["seed"] + 1)) if self.kind == "GAN" else None
        self.forward = torch.compile(self.model, backend="eager") if self.kind == "compiled" else self.model
        models = [self.model] + ([self.other] if self.other is not None else [])
        self.optimizers = [self.optimizer_of(list(model.parameters())) for model in models]
        if self.kind == "two optimizers":
            trained = [p for p in self.model.parameters() if p.requires_grad]
            self.optimizers = [self.optimizer_of(trained[:2]), self.optimizer_of(trained[2:])]
        self.schedules = [made_schedule(setup, optimizer) for optimizer in self.optimizers]

    def optimizer_of(self, parameters):
        if self.wrapper == "zero":
            from torch.distributed.optim import ZeroRedundancyOptimizer

            own = [p for p in parameters if p.requires_grad]
            return ZeroRedundancyOptimizer(own, getattr(torch.optim, self.setup["optimizer"]), lr=0.01)
        return made_optimizer(self.setup, parameters)

    def wrapped(self, module):
        if self.is_sharded:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            names = {"mesh_dim_names": ("replicate", "shard")}
            mesh = init_device_mesh("cpu", (2, 1), **names) if self.wrapper.startswith("replicas") else None
            for part in module.parts:
                fully_shard(part, mesh=mesh)
            return fully_shard(module, mesh=mesh)
        if "by hand" in self.wrapper:
            return module
        ddp = DistributedDataParallel(module, **self.setup["ddp"])
        if self.setup["hook"] == "bf16":
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

            ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        return ddp

    def train(self):
        for step in range(1, 7):
            if self.kind == "uneven":
                continue
            self.step(step)
            self.after(step)
            if step == 3 and self.setup["resumed"]:
                self.resume()
        if self.kind == "uneven":
            from torch.distributed.algorithms.join import Join

            with Join([self.model]):
                for step in range(1, 6 + dist.get_rank()):
                    self.step(step)

    def step(self, step):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=step % 2 == 0)
        count = self.setup["accumulated"]
        for part in range(count):
            with self.unreduced(part + 1 < count):
                self.backward(step, part, count)
        if "by hand" in self.wrapper:
            self.reduce()
        for optimizer in self.optimizers:
            if self.scaler:
                self.scaler.unscale_(optimizer)
            if self.setup["clip"]:
                parameters = [p for group in optimizer.param_groups for p in group["params"]]
                torch.nn.utils.clip_grad_norm_(parameters, self.setup["clip"])
            self.scaler.step(optimizer) if self.scaler else optimizer.step()
        if self.scaler:
            self.scaler.update()

    @contextlib.contextmanager
    def unreduced(self, is_kept):
        if self.is_sharded:
            self.model.set_requires_gradient_sync(not is_kept)
            yield
        elif "by hand" in self.wrapper or not is_kept:
            yield
        else:
            with self.model.no_sync(), self.other.no_sync() if self.other is not None else contextlib.nullcontext():
                yield

    def backward(self, step, part, count):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.setup["autocast"]):
            loss = self.loss(rows_of(self.setup, step, part)) / count
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def loss(self, rows):
        output = self.forward(rows)
        loss = loss_of(output.float())
        if self.teacher is not None:
            with torch.no_grad():
                taught = self.teacher(rows)
            loss = loss + (output - taught).pow(2).mean()
        if self.kind == "penalised":  # weights of the module inside
            loss = loss + sum(p.pow(2).sum() for p in self.module.parameters() if p.requires_grad) * 1e-3
        if self.other is not None:
            loss = loss + loss_of(self.other(rows).float())
        return loss

    def reduce(self):
        gradients = [p.grad for model in (self.model, self.other) if model is not None
                     for p in model.parameters() if p.grad is not None]
        if self.wrapper == "by hand":
            for gradient in gradients:
                dist.all_reduce(gradient)
                gradient /= dist.get_world_size()
            return
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
            gradient.copy_(part.view_as(gradient))

    def after(self, step):
        setup = self.setup
        if self.average is not None:
            with torch.no_grad():
                for mean, own in zip(self.average.parameters(), self.module.parameters()):
                    mean.lerp_(own, 0.1)
        loss = torch.tensor(float(step))
        if setup["metrics"] == "reduced":
            dist.all_reduce(loss)
        elif setup["metrics"] == "gathered":
            dist.all_gather([torch.zeros(()) for _ in range(dist.get_world_size())], loss)
        elif setup["metrics"] and dist.get_rank() == 0:
            print(step, float(loss))
        if setup["evaluated"] and step % 2 == 0:
            self.evaluate(step)
        for schedule in self.schedules:
            if schedule is not None and (setup["schedule"] != "epoch" or step % 2 == 0):
                value = torch.tensor(1.0)
                dist.all_reduce(value)
                schedule.step(float(value)) if setup["schedule"] == "plateau" else schedule.step()

    def evaluate(self, step):
        if self.setup["evaluated"] == "rank 0" and (self.is_sharded or dist.get_rank()):
            return
        self.module.eval()
        with torch.no_grad():
            (self.model if self.setup["evaluated"] == "all" else self.module)(rows_of(self.setup, step, 9))
        self.module.train()

    def resume(self):
        """As a job that begins again from its checkpoint, without its optimizer where that is divided."""
        state = copy.deepcopy(self.module.state_dict())
        states = [copy.deepcopy(one.state_dict()) for one in self.optimizers] if self.wrapper != "zero" else []
        other = copy.deepcopy(self.other.state_dict()) if self.other is not None else None
        self.make()
        self.module.load_state_dict(state)
        if other is not None:
            self.other.load_state_dict(other)
        for optimizer, one in zip(self.optimizers, states):
            optimizer.load_state_dict(one)


def train_torch(setup):
    TorchTraining(setup).train()


def train_accelerate(setup):
    from accelerate import Accelerator

    one = Accelerator(cpu=True, gradient_accumulation_steps=setup["accumulated"],
                      mixed_precision="bf16" if setup["autocast"] else "no")
    module = Model(setup, setup["seed"])
    optimizer = made_optimizer(setup, module.parameters())
    schedule = made_schedule(setup, optimizer) if setup["schedule"] != "plateau" else None
    model, optimizer, rows = one.prepare(module, optimizer, loader())
    if schedule is not None:
        schedule = one.prepare(schedule)
    other = None
    if setup["kind"] == "two models":
        other = Model(setup, setup["seed"] + 1)
        other, own = one.prepare(other, made_optimizer(setup, other.parameters()))
    steps = 0
    for index, part in enumerate(rows):
        by_hand = setup["kind"] == "no_sync by hand"
        is_last = (index + 1) % setup["accumulated"] == 0
        context = ((contextlib.nullcontext() if is_last else one.no_sync(model)) if by_hand
                   else one.accumulate(*([model] if other is None else [model, other])))
        with context:
            loss = loss_of(model(part).float())
            if other is not None:
                loss = loss + loss_of(other(part).float())
            one.backward(loss)
            if by_hand and not is_last:
                continue
            if setup["clip"] and (by_hand or one.sync_gradients):
                one.clip_grad_norm_(model.parameters(), setup["clip"])
            for optimizer_ in [optimizer] + ([own] if other is not None else []):
                optimizer_.step()
                optimizer_.zero_grad()
            if schedule is not None:
                schedule.step()
        steps += by_hand or one.sync_gradients
        if setup["metrics"]:
            one.gather(loss.detach())
        if setup["evaluated"] and steps == 2:
            model.eval()
            with torch.no_grad():
                (one.unwrap_model(model) if setup["unwrapped_for_evaluation"] else model)(part)
            model.train()
        if setup["saved"] and steps == 3:
            folder = [tempfile.mkdtemp() if one.is_main_process else None]
            dist.broadcast_object_list(folder)
            one.save_state(folder[0])
            one.wait_for_everyone()
            one.load_state(folder[0])
        if steps == 6:
            break
    one.wait_for_everyone()


def train_transformers(setup):
    from transformers import Trainer, TrainerCallback

    class Norms(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **rest):
            if setup["callback"] == "norms by rank 0" and state.is_world_process_zero:
                print(sum(float(p.norm()) for p in model.parameters()))

    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **rest):
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

    model = gpt()
    if setup["model"] == "frozen":
        model.transformer.wte.requires_grad_(False)
    if setup["model"] == "adapters":
        model.requires_grad_(False)
        block = model.transformer.h[0]
        block.mlp.adapter = Adapter(nn.Linear(16, 16))
        block.mlp.register_forward_hook(lambda module, args, output: module.adapter(output))
    folder = [tempfile.mkdtemp() if os.environ["RANK"] == "0" else None]
    options = {"gradient_accumulation_steps": setup["accumulated"], "max_grad_norm": setup["clip"],
               "bf16": setup["autocast"], "lr_scheduler_type": setup["scheduler"], "warmup_steps": 2,
               "label_smoothing_factor": setup["smoothing"], "logging_steps": 2,
               "gradient_checkpointing": setup["model"] == "checkpointed",
               "eval_strategy": "steps" if setup["evaluated"] else "no", "eval_steps": 2}
    args = arguments(**options)
    dist.broadcast_object_list(folder)
    args.output_dir = folder[0]
    if setup["resumed"]:
        args.save_strategy, args.save_steps = "steps", 3
    kind = Own if setup["loss"] == "overridden" else Trainer
    trainer = kind(model=model, args=args, train_dataset=Words(), eval_dataset=Words(), callbacks=[Norms()])
    trainer.train()
    if setup["resumed"]:
        args.max_steps = 9
        kind(model=model, args=args, train_dataset=Words(), eval_dataset=Words()).train(
            resume_from_checkpoint=os.path.join(folder[0], "checkpoint-6"))


def train_lightning(setup):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = Model(setup, setup["seed"])
            self.automatic_optimization = setup["kind"] not in ("manual", "GAN")
            self.other = Model(setup, setup["seed"] + 1) if setup["kind"] == "GAN" else None

        def training_step(self, rows, index):
            loss = loss_of(self.inner(rows).float())
            self.log("loss", loss, sync_dist=setup["metrics"] is not None)
            if self.automatic_optimization:
                return loss
            optimizers = self.optimizers()
            optimizers = optimizers if isinstance(optimizers, list) else [optimizers]
            if self.other is not None:
                loss = loss + loss_of(self.other(rows).float())
            for optimizer in optimizers:
                optimizer.zero_grad()
            self.manual_backward(loss)
            for optimizer in optimizers:
                optimizer.step()
            return None

        def validation_step(self, rows, index):
            self.log("val_loss", loss_of(self.inner(rows).float()), sync_dist=True)

        def configure_optimizers(self):
            own = made_optimizer(setup, self.inner.parameters())
            if self.other is not None:
                return [own, made_optimizer(setup, self.other.parameters())]
            schedule = made_schedule(setup, own) if self.automatic_optimization else None
            if schedule is None:
                return own
            return {"optimizer": own, "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss",
                                                       "interval": "step" if setup["schedule"] == "step" else "epoch"}}

    if setup["kind"] == "Fabric":
        return train_fabric(setup)
    callbacks = []
    if setup["kind"] == "swa":
        callbacks.append(lightning.pytorch.callbacks.StochasticWeightAveraging(0.01, swa_epoch_start=1))
    own = setup["kind"] not in ("manual", "GAN")
    options = {"strategy": "ddp_find_unused_parameters_true" if setup["unused"] else "ddp",
               "precision": "bf16-mixed" if setup["autocast"] else "32-true",
               "accumulate_grad_batches": setup["accumulated"] if own else 1,
               "gradient_clip_val": setup["clip"] or None if own else None,
               "max_steps": -1, "max_epochs": 3, "limit_train_batches": 3 * setup["accumulated"],
               "limit_val_batches": 1, "callbacks": callbacks}
    trainer = lightning_trainer(**options)
    model = Module()
    trainer.fit(model, loader(), loader())
    if setup["resumed"] and setup["kind"] != "swa":
        folder = [tempfile.mkdtemp() if os.environ["RANK"] == "0" else None]
        dist.broadcast_object_list(folder)
        path = os.path.join(folder[0], "last.ckpt")
        trainer.save_checkpoint(path)
        options["max_epochs"] = 4
        lightning_trainer(**options).fit(Module(), loader(), loader(), ckpt_path=path)
    return None


def train_fabric(setup):
    import lightning

    one = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp",
                           precision="bf16-mixed" if setup["autocast"] else "32-true")
    one.launch()
    module = Model(setup, setup["seed"])
    model, optimizer = one.setup(module, made_optimizer(setup, module.parameters()))
    for index, rows in zip(range(6 * setup["accumulated"]), one.setup_dataloaders(loader())):
        is_last = (index + 1) % setup["accumulated"] == 0
        with one.no_backward_sync(model, enabled=not is_last):
            one.backward(loss_of(model(rows).float()))
        if is_last:
            if setup["clip"]:
                one.clip_gradients(model, optimizer, max_norm=setup["clip"])
            optimizer.step()
            optimizer.zero_grad()


def train_deepspeed(setup):
    if setup["autocast"] and setup["model"] == "norms":  # torch has no BatchNorm of both types on a CPU
        setup["model"] = "plain"
    module = Model(setup, setup["seed"])
    config = {"gradient_accumulation_steps": setup["accumulated"], "gradient_clipping": setup["clip"]}
    if setup["autocast"]:
        config["bf16"] = {"enabled": True}
    engine, _ = engine_of(module, stage=setup["stage"], **config)
    for index in range(6 * setup["accumulated"]):
        rows = rows_of(setup, index)
        loss = loss_of(engine(rows.bfloat16() if setup["autocast"] else rows).float())
        engine.backward(loss)
        engine.step()


TRAININGS = {"torch": train_torch, "accelerate": train_accelerate, "transformers": train_transformers,
             "Lightning": train_lightning, "DeepSpeed": train_deepspeed}


def main():
    setup, out = json.loads(sys.argv[1]), sys.argv[2]
    watched(out, TRAININGS[setup["framework"]], setup)


if __name__ == "__main__":
    main()
