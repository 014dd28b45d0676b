"""Random trainings with what everyday jobs do besides a plain step: autocast, sharpness-aware
minimisation, gradients that the optimizer reduces, adapters over a frozen base, `gc.freeze()`, skipped steps,
warm-up, evaluation mode. random_trainings.py runs them.

Each draws from its seed alone, and says in `expected` what has to be found: None for a healthy one. The first
step whose learning rate is not 0 is `warm_up` + 1."""

import contextlib
import gc
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# Who reduces the gradients.
WRAPPER, SCRIPT, OPTIMIZER, PRE_HOOK = "wrapper", "script", "optimizer", "pre_hook"
IN_STEP = OPTIMIZER, PRE_HOOK


class Adapter(nn.Module):
    """A frozen layer, and a product of two small ones that are trained. The product may begin as 0; then the
    gradient of `down` is 0, too."""

    def __init__(self, base, is_zero):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)
        if is_zero:
            nn.init.zeros_(self.up.weight)

    def forward(self, rows):
        return self.base(rows) + self.up(self.down(rows))


def drawn_layers(draw):
    width = draw.randint(3, 40)
    layers = [nn.Linear(6, width)]
    for _ in range(draw.randint(1, 3)):
        layers.append(draw.choice([nn.GELU, nn.Tanh, nn.SiLU])())
        if draw.random() < 0.3:
            layers.append(nn.LayerNorm(width))
        if draw.random() < 0.2:
            layers.append(nn.Dropout(0.3))
        layers.append(nn.Linear(width, width))
    return [*layers, nn.Tanh(), nn.Linear(width, 3)]


def drawn_model(draw, has_adapters, is_zero):
    layers = drawn_layers(draw)
    if has_adapters:
        layers = [Adapter(layer, is_zero) if isinstance(layer, nn.Linear) else layer.requires_grad_(False)
                  for layer in layers]
    return nn.Sequential(*layers)


class Reducing:
    """An optimizer whose step reduces the gradients first. `training` is set after it was made."""

    def step(self, closure=None):
        self.training.reduce_in_step(self)
        result = super().step(closure)
        if self.training.form == "owner":
            self.training.send_parameters(self)
        return result


def made_optimizer(kind, rate, parameters, is_reducing):
    type_, more = {"sgd": (torch.optim.SGD, {"momentum": 0.9}), "adamw": (torch.optim.AdamW, {}),
                   "rmsprop": (torch.optim.RMSprop, {})}[kind]
    if is_reducing:
        type_ = type("Reducing" + type_.__name__, (Reducing, type_), {})
    return type_(parameters, lr=rate, **more)


class Everyday:
    """All ranks draw the same. `fault`: one of FAULTS; None: healthy."""

    def __init__(self, seed, is_faulty):
        self.seed = seed
        self.draw = draw = random.Random(seed)
        torch.manual_seed(seed)
        self.fault = draw.choice(FAULTS) if is_faulty else None
        self.expected = None
        self.rank = draw.randrange(2)
        self.left_out = None  # a parameter that is not reduced
        self.unstepped = {}  # numbers of steps that an optimizer leaves out on one rank, by its number
        self.draw_features(draw)
        if self.fault is not None:
            self.fault.prepare(self)
        self.make(draw)
        self.steps = self.warm_up + draw.randint(3, 5)
        self.step = draw.randint(self.warm_up + 1, self.steps)
        self.skipped = draw.choice([0, draw.randint(2, self.steps)]) if self.has_scaler else 0
        if self.fault is not None:
            self.fault.plant(self)

    def draw_features(self, draw):
        self.reducer = draw.choice([WRAPPER, SCRIPT, OPTIMIZER, OPTIMIZER, PRE_HOOK])
        self.form = draw.choice(["in place", "replaced", "owner"]) if self.reducer == OPTIMIZER else "in place"
        self.has_adapters = draw.random() < 0.35
        self.is_zero = draw.random() < 0.5  # what adapters add at first
        self.is_autocast = draw.random() < 0.4
        self.has_scaler = draw.random() < 0.35
        # The perturbation: of the gradient that the ranks share, or of their own.
        self.sharpness = draw.choice(["shared", "local"]) if draw.random() < 0.3 else None
        self.is_restored_by_copy = draw.random() < 0.5
        if self.sharpness is not None:
            self.has_scaler = False
        self.warm_up = draw.choice([0, 0, 1, 2, 3])
        self.is_in_evaluation = draw.random() < 0.2
        self.frozen_on = draw.choice([(), (), (0,), (1,), (0, 1)])  # ranks that freeze the garbage collector
        self.is_frozen_late = draw.random() < 0.5
        self.optimizers_count = draw.choice([1, 1, 2])
        self.kind = draw.choice(["sgd", "adamw", "rmsprop"])
        self.rate = {"sgd": 0.05, "adamw": 1e-2, "rmsprop": 1e-3}[self.kind]

    def make(self, draw):
        if not self.is_frozen_late:
            self.freeze()
        self.module = self.forward = drawn_model(draw, self.has_adapters, self.is_zero)
        self.module.train(not self.is_in_evaluation)
        if self.reducer == WRAPPER:
            self.forward = DistributedDataParallel(self.module, gradient_as_bucket_view=draw.random() < 0.5)
        self.trained = [(name, p) for name, p in self.module.named_parameters() if p.requires_grad]
        # Of these every gradient is another one on each rank.
        self.apart = [one for one in self.trained if not (self.is_zero and one[0].endswith("down.weight"))]
        middle = len(self.trained) // 2 if self.optimizers_count == 2 else 0
        parts = [part for part in (self.trained[:middle], self.trained[middle:]) if part]
        self.optimizers = [self.optimizer_of([p for _, p in part]) for part in parts]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8) if self.has_scaler else None
        if self.is_frozen_late:
            self.freeze()

    def optimizer_of(self, parameters):
        optimizer = made_optimizer(self.kind, self.rate, parameters, self.reducer == OPTIMIZER)
        optimizer.training = self
        if self.reducer == PRE_HOOK:
            optimizer.register_step_pre_hook(lambda one, *_: self.reduce_in_step(one))
        return optimizer

    def freeze(self):
        if dist.get_rank() in self.frozen_on:
            gc.freeze()

    def is_culprit(self):
        return dist.get_rank() == self.rank

    def expect(self, kind, step, tensor, exits=(1,)):
        """None: it may be any. 2 in `exits`: the job may also be undecided, with the tensor in the report."""
        self.expected = {"kind": kind, "step": step, "tensor": tensor, "exits": list(exits)}

    # Training.

    def train(self):
        for step in range(1, self.steps + 1):
            self.train_step(step)
        gc.unfreeze()

    def train_step(self, step):
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 0.0 if step <= self.warm_up else self.rate
        self.clear()
        before = self.perturb(step) if self.sharpness is not None else None
        self.backward(step, 0)
        if before is not None:
            self.restore(before)
        if self.reducer == SCRIPT:
            self.reduce([p for _, p in self.trained])
        if self.fault is not None:
            self.fault.before_step(self, step)
        self.update(step)
        if self.fault is not None:
            self.fault.after_step(self, step)

    def clear(self):
        for _, parameter in self.trained:
            parameter.grad = None

    def backward(self, step, part):
        generator = torch.Generator().manual_seed(100000 * self.seed + 4 * step + 2 * part + dist.get_rank())
        rows = torch.randn(5, 6, generator=generator)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.is_autocast):
            loss = self.forward(rows).float().pow(2).mean()
        loss = loss * self.factor(step)
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def factor(self, step):
        """Of the loss."""
        return float("inf") if step == self.skipped else 1.0

    def perturb(self, step):
        """The gradients of the step are computed at other parameters. Returns the values to restore."""
        is_local = self.sharpness == "local" and self.reducer == WRAPPER
        with self.forward.no_sync() if is_local else contextlib.nullcontext():
            self.backward(step, 1)
        if self.sharpness == "shared" and self.reducer != WRAPPER:
            self.reduce([p for _, p in self.trained])
        before = [p.detach().clone() for _, p in self.trained]
        with torch.no_grad():
            for _, parameter in self.trained:
                parameter.add_(parameter.grad, alpha=0.05)
        self.clear()
        return before

    def restore(self, before):
        for (_, parameter), value in zip(self.trained, before):
            if self.is_restored_by_copy:
                parameter.data.copy_(value)
            else:
                parameter.data = value

    def update(self, step):
        for number, optimizer in enumerate(self.optimizers):
            if step in self.unstepped.get(number, ()) and self.is_culprit():
                continue
            if self.scaler is None:
                optimizer.step()
            else:
                self.scaler.step(optimizer)
        if self.scaler is not None:
            self.scaler.update()

    # Reduction.

    def reduce(self, parameters):
        for parameter in parameters:
            if parameter is not self.left_out:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()

    def reduce_in_step(self, optimizer):
        parameters = optimizer.param_groups[0]["params"]
        if self.form == "replaced":
            for parameter in parameters:
                parameter.grad = parameter.grad.clone()
        if self.form != "owner":
            self.reduce(parameters)
            return
        for number, parameter in enumerate(parameters):
            if parameter is not self.left_out:
                dist.reduce(parameter.grad, number % 2)
                parameter.grad /= dist.get_world_size()

    def send_parameters(self, optimizer):
        """Each from the rank that had its whole gradient."""
        for number, parameter in enumerate(optimizer.param_groups[0]["params"]):
            if parameter is not self.left_out:
                dist.broadcast(parameter.data, number % 2)


class Fault:
    """A class of faults. `prepare`: before the training is made; `plant`: after it."""

    @staticmethod
    def prepare(training):
        pass

    @staticmethod
    def plant(training):
        pass

    @staticmethod
    def before_step(training, step):
        pass

    @staticmethod
    def after_step(training, step):
        pass


class LeftOut(Fault):
    """A tensor is left out of the reduction inside the step."""

    @staticmethod
    def prepare(training):
        if training.reducer not in IN_STEP:
            training.reducer = OPTIMIZER
        training.sharpness = "local" if training.sharpness else None

    @staticmethod
    def plant(training):
        name, training.left_out = training.draw.choice(training.apart)
        training.expect("gradient", 1, name)


class Bypassed(Fault):
    """A wrapper whose forward is not called, with warm-up."""

    @staticmethod
    def prepare(training):
        training.reducer = WRAPPER
        training.sharpness = None
        training.warm_up = training.draw.randint(1, 3)

    @staticmethod
    def plant(training):
        training.forward = training.module
        training.expect("gradient", 1, training.apart[0][0])


class OtherBase(Fault):
    """The frozen base under the adapters is another one on one rank. It may be a shard that does not say so, if no
    gradient agrees."""

    @staticmethod
    def prepare(training):
        training.has_adapters = True

    @staticmethod
    def plant(training):
        frozen = [(name, p) for name, p in training.module.named_parameters() if not p.requires_grad]
        name, parameter = training.draw.choice(frozen)
        place = training.draw.randrange(parameter.numel())
        if training.is_culprit():
            parameter.view(-1)[place] += 0.25
        training.expect("parameter", 1, name, exits=(1, 2))


class NotANumber(Fault):
    """The loss of one rank becomes NaN, and the reduction spreads it."""

    @staticmethod
    def prepare(training):
        training.has_scaler = False

    @staticmethod
    def plant(training):
        def factor(step):
            return float("nan") if step == training.step and training.is_culprit() else 1.0

        training.factor = factor
        training.expect("parameter", training.step, training.trained[0][0])


class NotStepped(Fault):
    """One rank does not step one of two optimizers in some steps."""

    @staticmethod
    def prepare(training):
        training.optimizers_count = 2
        if training.reducer in IN_STEP:  # the others would wait
            training.reducer = SCRIPT

    @staticmethod
    def plant(training):
        number = training.draw.randrange(2)
        last = training.draw.randint(training.step, training.steps)
        training.unstepped[number] = range(training.step, last + 1)
        first = training.optimizers[number].param_groups[0]["params"][0]
        name = next(name for name, p in training.trained if p is first)
        # If it is the first one, the next optimizer begins the step on that rank, and it steps in it, too: the
        # ranks differ, but in another step. Of a last step nothing of that rank is known.
        training.expect(None, None, None, exits=(1,) if last < training.steps else (1, 2))
        if number == 1:
            training.expected["says"] = "did not step %s" % name


class SkippedOnOne(Fault):
    """The scaler of one rank alone skips a step, although the gradients agree."""

    @staticmethod
    def prepare(training):
        training.has_scaler, training.sharpness = True, None
        if training.reducer in IN_STEP:
            training.reducer = SCRIPT

    @staticmethod
    def plant(training):
        training.skipped = 0
        training.expect("parameter", training.step, None)

    @staticmethod
    def before_step(training, step):
        if step != training.step:
            return
        for optimizer in training.optimizers:
            training.scaler.unscale_(optimizer)
            state = training.scaler._per_optimizer_states[id(optimizer)]
            for found in state["found_inf_per_device"].values():
                found.fill_(float(training.is_culprit()))


class OtherRate(Fault):
    """After the warm-up the learning rate of one rank is another one."""

    @staticmethod
    def prepare(training):
        if training.form == "owner":
            training.form = "in place"

    @staticmethod
    def plant(training):
        if training.is_culprit():
            training.rate *= 1.5
        # Where the optimizer reduces, gradients differ before its steps. If the weights do after the first step
        # that moves them, nothing has excused that, and the gradients are the finding.
        is_in_step = training.reducer in IN_STEP
        is_open = is_in_step and training.warm_up > 0
        training.expect(None if is_in_step else "parameter", None if is_open else training.warm_up + 1, None)


FAULTS = [LeftOut, Bypassed, OtherBase, NotANumber, NotStepped, SkippedOnOne, OtherRate]
