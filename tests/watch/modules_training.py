"""Trainings of one process whose modules are observed: modules_training.py DIR. Compares the rows of each with what
they have to be, and prints a line per difference."""

import collections
import csv
import dataclasses
import gc
import os
import sys
import weakref

import lockstep
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

out = sys.argv[1]
torch.set_num_threads(1)


def complain(case, what, found, expected):
    print("%s: %s: found %s, expected %s" % (case, what, found, expected))


class Rows:
    """The rows of modules that a training left. `norms`: by step, kind and name."""

    def __init__(self, folder):
        job = os.path.join(folder, "job", "rank-0")
        with open(job + ".tensors.csv") as file:
            tensors = {row["tensor"]: row for row in csv.DictReader(line for line in file if line[0] != "#")}
        self.norms = {}
        with open(job + ".csv") as file:
            for row in csv.DictReader(line for line in file if line[0] != "#"):
                tensor = tensors[row["tensor"]]
                if tensor["kind"].startswith("module_"):
                    key = int(row["step"]), tensor["kind"][len("module_"):], tensor["name"]
                    self.norms[key] = float(row["norm"])

    def names(self, kind, step=1):
        return [name for at, of, name in self.norms if (at, of) == (step, kind)]

    def count(self):
        return len(self.norms)


def observe(case, train, **options):
    """Runs a training under a watch, and returns its rows."""
    folder = os.path.join(out, case)
    lockstep.watch(out=folder, **{"modules": True, **options})
    torch.manual_seed(0)
    train()
    lockstep.stop()
    return Rows(folder)


def expect_names(case, rows, outputs, gradients=None, step=1):
    """`gradients`: None for those at all outputs, in reverse order."""
    if gradients is None:
        gradients = outputs[::-1]
    for kind, expected in (("output", outputs), ("gradient", gradients)):
        if rows.names(kind, step) != expected:
            complain(case, "%ss of step %d" % (kind, step), rows.names(kind, step), expected)


def expect_norms(case, rows, expected, step=1):
    """`expected`: tensors by kind and name."""
    for (kind, name), tensor in expected.items():
        norm = rows.norms.get((step, kind, name))
        true = tensor.detach().double().norm().item()
        if norm is None or abs(norm - true) > 1e-6 * true:
            complain(case, "norm of the %s of %s" % (kind, name), norm, true)


def step_of(module, forward, steps=1, optimizer=None):
    """Trains with a loss of `forward()`."""
    optimizer = optimizer or torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        forward().pow(2).sum().backward()
        optimizer.step()


def rows_of_data():
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(3))


# Without modules=True nothing is hooked. This case is the first: hooks stay, and do nothing, after a watch.


def hooks_of_torch():
    from torch.nn.modules import module

    return len(module._global_forward_hooks) + len(module._global_forward_pre_hooks)


def not_asked():
    module = nn.Linear(8, 4)
    rows = observe("not_asked", lambda: step_of(module, lambda: module(rows_of_data())), modules=False)
    if hooks_of_torch() or rows.count():
        complain("not_asked", "hooks and rows", (hooks_of_torch(), rows.count()), (0, 0))


# Names and values.


@dataclasses.dataclass
class Result:
    hidden: torch.Tensor
    rest: list


Pair = collections.namedtuple("Pair", "first second")


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, rows):
        hidden = self.layer(rows)
        return {"result": Result(hidden * 2, [hidden + 1, "no tensor", torch.arange(3)]),
                "pair": Pair(hidden * 3, (hidden * 4,))}


def nested():
    module, kept = Nested(), {}

    def forward():
        output = module(rows_of_data())
        hidden = output["result"].hidden
        hidden.retain_grad()
        kept["hidden"] = hidden
        return hidden + output["result"].rest[0] + output["pair"].first + output["pair"].second[0]

    rows = observe("nested", lambda: step_of(module, forward))
    parts = ["(model).result.hidden", "(model).result.rest[0]", "(model).pair.first", "(model).pair.second[0]"]
    if rows.names("output") != ["layer"] + parts or sorted(rows.names("gradient")) != sorted(["layer"] + parts):
        complain("nested", "names", (rows.names("output"), rows.names("gradient")), parts)
    expect_norms("nested", rows, {("output", parts[0]): kept["hidden"], ("gradient", parts[0]): kept["hidden"].grad})


class InPlace(nn.Module):
    """The output of `layer` is changed in place by the module after it."""

    def __init__(self):
        super().__init__()
        self.layer, self.relu = nn.Linear(8, 8), nn.ReLU(inplace=True)

    def forward(self, rows):
        return self.relu(self.layer(rows))


def in_place():
    """The row is that of the value before, and so is its gradient."""
    module = InPlace()
    rows = observe("in_place", lambda: step_of(module, lambda: module(rows_of_data())))
    torch.manual_seed(0)
    expect_names("in_place", rows, ["layer", "relu", "(model)"], ["relu", "(model)", "layer"])
    before = InPlace()
    before.load_state_dict(module.state_dict())
    with torch.no_grad():  # SGD of one step
        before.layer.weight += 0.1 * module.layer.weight.grad
        before.layer.bias += 0.1 * module.layer.bias.grad
    value = before.layer(rows_of_data())
    gradient = 2 * value.relu() * (value > 0)
    for kind, tensor in (("output", value), ("gradient", gradient)):
        found, true = rows.norms[1, kind, "layer"], tensor.detach().norm().item()
        if abs(found - true) > 1e-4 * true:
            complain("in_place", kind, found, true)


def keeps_hooks_of_views():
    """Whether the hook of an output in three dimensions survives a change in place: with torch 2.11 it is a view,
    with 2.15 it is none."""
    called = []
    output = nn.Linear(4, 4)(torch.ones(2, 2, 4))
    output.register_hook(called.append)
    output.relu_().sum().backward()
    return bool(called)


def in_place_view():
    """If torch drops the hook of a view that is changed in place, there is an output without a gradient."""
    module = InPlace()
    rows = observe("in_place_view", lambda: step_of(module, lambda: module(rows_of_data().view(2, 2, 8))))
    expect_names("in_place_view", rows, ["layer", "relu", "(model)"],
                 ["relu", "(model)"] + ["layer"] * keeps_hooks_of_views())


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, rows):
        self.values = [self.layer(rows)]
        self.values.append(self.layer(self.values[0].tanh()))
        for value in self.values:
            value.retain_grad()
        return self.values[1]


def shared():
    module = Shared()
    rows = observe("shared", lambda: step_of(module, lambda: module(rows_of_data())))
    expect_names("shared", rows, ["layer", "layer#2", "(model)"], ["layer#2", "(model)", "layer"])
    first, second = module.values
    expect_norms("shared", rows, {("output", "layer"): first, ("output", "layer#2"): second,
                                  ("gradient", "layer"): first.grad, ("gradient", "layer#2"): second.grad})


class Blocks(nn.Module):
    def __init__(self, is_reentrant=None, **options):
        super().__init__()
        self.embed = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.Tanh()) for _ in range(2))
        self.is_reentrant, self.options = is_reentrant, options

    def forward(self, rows):
        rows = self.embed(rows)
        for block in self.blocks:
            rows = block(rows) if self.is_reentrant is None else self.checkpointed(block, rows)
        return rows

    def checkpointed(self, block, rows):
        if self.options.get("is_nested"):
            inner = lambda rows: block[2](checkpoint(lambda one: block[1](block[0](one)), rows, use_reentrant=True))
            return checkpoint(lambda rows: through(block, inner, rows), rows, use_reentrant=True)
        return checkpoint(block, rows, use_reentrant=self.is_reentrant, **self.options)


def through(block, forward, rows):
    """Calls `block`, which computes `forward`."""
    block.forward = forward
    return block(rows)


def train_blocks(**options):
    module = Blocks(**options)
    step_of(module, lambda: module(rows_of_data()) + module(rows_of_data() + 1), steps=2)


asked = []  # operators that a selective checkpoint was asked about


def selective():
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    def policy(context, operator, *args, **kwargs):
        asked.append(str(operator))
        is_product = operator is torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if is_product else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def checkpoints():
    """Passes that are computed again have no rows of their own, and the same norms."""
    plain = observe("plain", train_blocks)
    if plain.count() != 80:  # two steps of two passes of ten modules
        complain("plain", "rows", plain.count(), 80)
    kinds = {"reentrant": {"is_reentrant": True}, "nested": {"is_reentrant": True, "is_nested": True}, "saved": {"is_reentrant": False},
             "selective": {"is_reentrant": False, "context_fn": selective}}
    for name, options in kinds.items():
        rows = observe("checkpoint_" + name, lambda: train_blocks(**options))
        if rows.norms != plain.norms:
            complain("checkpoint_" + name, "norms", rows.norms, plain.norms)
    observed = list(asked)
    asked.clear()
    observe("checkpoint_unobserved", lambda: train_blocks(**kinds["selective"]), modules=False)
    if asked != observed:
        complain("checkpoint_selective", "operators", observed, asked)


# Forward passes that are none of the training.


def evaluation():
    module = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))

    def forward():
        with torch.no_grad():
            module(rows_of_data())
        module.eval()
        module(rows_of_data())
        module.train()
        return module(rows_of_data())

    rows = observe("evaluation", lambda: step_of(module, forward, steps=2))
    for step in (1, 2):
        expect_names("evaluation", rows, ["0", "1", "(model)"], ["1", "(model)", "0"], step)


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.error = nn.Linear(8, 8), None

    def forward(self, rows):
        output = self.inner(rows)
        if self.error is not None:
            raise self.error
        return output


class Catches(nn.Module):
    def __init__(self):
        super().__init__()
        self.raises = Raises()

    def forward(self, rows):
        try:
            return self.raises(rows)
        except KeyboardInterrupt:
            return self.raises.inner(rows)


def attempt(module, error):
    module.error = error
    try:
        module(rows_of_data())
    except (ValueError, KeyboardInterrupt):
        pass
    module.error = None


def raised():
    """torch tells hooks of an error, but not of an interruption."""
    module = Raises()

    def forward():
        attempt(module, ValueError("on purpose"))
        return module(rows_of_data())

    rows = observe("raised", lambda: step_of(module, forward))
    expect_names("raised", rows, ["inner", "inner#2", "(model)"], ["inner#2", "(model)"])


def interrupted():
    module, caught = Raises(), Catches()

    def forward():
        attempt(module, KeyboardInterrupt())
        return module(rows_of_data())

    rows = observe("interrupted", lambda: step_of(module, forward, steps=2))
    for step in (1, 2):
        if "(model)" not in rows.names("output", step):
            complain("interrupted", "outputs of step %d" % step, rows.names("output", step), "that of the model, too")
    caught.raises.error = KeyboardInterrupt()
    rows = observe("interrupted_inside", lambda: step_of(caught, lambda: caught(rows_of_data())))
    expect_names("interrupted_inside", rows, ["raises.inner", "raises.inner#2", "(model)"],
                 ["raises.inner#2", "(model)"])


def wrapped():
    """A wrapper has the name of the module inside, whose output it passes on."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    module = nn.Sequential(nn.Linear(8, 8), checkpoint_wrapper(nn.Sequential(nn.Linear(8, 8), nn.Tanh())))
    rows = observe("wrapped", lambda: step_of(module, lambda: module(rows_of_data())))
    expect_names("wrapped", rows, ["0", "1.0", "1.1", "1", "(model)"], ["1.1", "1", "(model)", "1.0", "0"])


def modes():
    """A mode of the job sees its own operations alone."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        operators = []

        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            self.operators.append(str(operator))
            return operator(*args, **(kwargs or {}))

    def train():
        module = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        with Seen():
            loss = module(rows_of_data()).sum()
        loss.backward()
        torch.optim.SGD(module.parameters(), lr=0.1).step()

    observe("modes_unobserved", train, modules=False)
    plain = list(Seen.operators)
    Seen.operators.clear()
    rows = observe("modes", train)
    expect_names("modes", rows, ["0", "1", "(model)"], ["1", "(model)", "0"])
    if Seen.operators != plain:
        complain("modes", "operators", Seen.operators, plain)


def transforms():
    """Stand-ins of tensors have no memory; what they are for has to work all the same."""
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    loss = nn.MSELoss()  # belongs to no model

    def forward():
        parameters = dict(module.named_parameters())
        torch.func.grad(lambda p: torch.func.functional_call(module, p, rows_of_data()).sum())(parameters)
        torch.func.vmap(module)(rows_of_data())
        torch.jit.trace(module, rows_of_data(), check_trace=False)
        torch.jit.script(nn.Linear(8, 8))(rows_of_data())
        loss(rows_of_data(), rows_of_data())
        return module(rows_of_data())

    rows = observe("transforms", lambda: step_of(module, forward))
    expect_names("transforms", rows, ["RecursiveScriptModule.(model)", "0", "1", "(model)"], ["1", "(model)", "0"])


# Outputs and the graph.


class Prompt(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 8))

    def forward(self):
        return self.weight


def leaf():
    """A hook of a parameter would stay, one more for each step."""
    module = Prompt()
    rows = observe("leaf", lambda: step_of(module, module, steps=3))
    expect_names("leaf", rows, ["(model)"], [])
    if module.weight._backward_hooks:
        complain("leaf", "hooks of the parameter", module.weight._backward_hooks, "none")


def backward_twice():
    module = nn.Linear(8, 8)

    def forward():
        output = module(rows_of_data())
        output.sum().backward(retain_graph=True)
        return output

    rows = observe("backward_twice", lambda: step_of(module, forward))
    expect_norms("backward_twice", rows, {("gradient", "(model)"): torch.ones(4, 8)})


def not_kept_alive():
    module, alive = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), []
    module[0].register_forward_hook(lambda _, args, output: alive.append(weakref.ref(output)))

    def train():
        step_of(module, lambda: module(rows_of_data()))
        gc.collect()
        if alive[0]() is not None:
            complain("not_kept_alive", "output after the step", "alive", "gone")

    observe("not_kept_alive", train)


# Steps.


def every_second():
    module = nn.Linear(8, 8)
    rows = observe("every_second", lambda: step_of(module, lambda: module(rows_of_data()), steps=5), every=2)
    if [key[0] for key in rows.norms] != [1, 1, 3, 3, 5, 5]:
        complain("every_second", "steps", [key[0] for key in rows.norms], "1, 3 and 5")


def closure():
    """The first forward pass is that of the step, because the optimizer calls it."""
    module = nn.Linear(8, 8)
    optimizer = torch.optim.LBFGS(module.parameters(), max_iter=2, line_search_fn=None)

    def evaluate():
        optimizer.zero_grad()
        loss = module(rows_of_data()).pow(2).sum()
        loss.backward()
        return loss

    def train():
        for _ in range(2):
            optimizer.step(evaluate)

    rows = observe("closure", train)
    for step in (1, 2):
        expect_names("closure", rows, ["(model)", "(model)#2"], ["(model)", "(model)#2"], step)


def optimizer_in_backward():
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    for parameter in module.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)

        def step(parameter, optimizer=optimizer):
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(step)

    def train():
        for _ in range(3):
            module(rows_of_data()).pow(2).sum().backward()

    rows = observe("optimizer_in_backward", train)
    for step in (1, 2, 3):
        expect_names("optimizer_in_backward", rows, ["0", "1", "2", "3", "4", "(model)"],
                     ["4", "(model)", "3", "2", "1", "0"], step)


def two_models():
    """Each has names of its own, in the order in which they are called."""
    generator, judge = nn.Sequential(nn.Linear(8, 8)), Shared()

    def train():
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (judge, generator)]
        for _ in range(2):
            judge(generator(rows_of_data()).detach()).sum().backward()
            optimizers[0].step()
            judge(generator(rows_of_data())).sum().backward()
            optimizers[1].step()

    rows = observe("two_models", train)
    names = ["0", "(model)", "layer", "layer#2", "Shared.(model)"]
    if rows.names("output")[:2] != names[:2] or "Shared.(model)" not in rows.names("output"):
        complain("two_models", "outputs", rows.names("output"), names)


def thinned():
    """A step that is decided while its passes run stays so."""
    from _lockstep import _settings

    module = nn.Linear(8, 8)

    def train():
        _settings.current.history_bytes = 1344 * 20
        step_of(module, lambda: module(rows_of_data()), steps=205)

    steps = sorted({key[0] for key in observe("thinned", train).norms})
    if steps != [1, 2, 3, 101, 201]:
        complain("thinned", "steps", steps, "those of 20 rows, 101 and 201")


def compiled():
    """Modules inside are not called one by one, so the whole one is observed."""
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    fast = torch.compile(module, backend="aot_eager")
    rows = observe("compiled", lambda: step_of(module, lambda: fast(rows_of_data())))
    expect_names("compiled", rows, ["(model)"])


# What a watch must not change.


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = Blocks(is_reentrant=False)
        self.head = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Dropout(0.3))

    def forward(self, rows):
        return self.head(self.blocks(rows))


def bits_of(tensors):
    return [tensor.detach().view(torch.int32).tolist() for tensor in tensors]


def same_bits():
    found = []

    def train():
        module = Trained()
        step_of(module, lambda: module(rows_of_data()) * torch.rand(()), steps=5)
        found.append((bits_of(module.parameters()), torch.rand(4).tolist()))

    for modules in (False, True):
        observe("same_bits_%s" % modules, train, modules=modules)
    if found[0] != found[1]:
        complain("same_bits", "weights and random numbers", "others", "those without modules")


CASES = [not_asked, nested, in_place, in_place_view, shared, checkpoints, evaluation, raised, interrupted, wrapped,
         modes, transforms, leaf,
         backward_twice, not_kept_alive, every_second, closure, optimizer_in_backward, two_models, thinned,
         compiled, same_bits]

for case in CASES:
    case()
