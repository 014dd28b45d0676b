"""Types that a training computes in, as the hook sees them, without files: precisions.py PYTHON_FOLDER"""

import sys

import torch
from torch import nn

sys.path.insert(0, sys.argv[1])
from _lockstep import _hook, _precision  # noqa: E402


class Seen:
    """In the place of the watcher."""

    def __init__(self):
        self.found, self.autocasts = [], set()

    def has_autocast(self, context):
        self.found.append(_precision.of_autocast(context))


def seen_in(call):
    _hook.watcher = Seen()
    call()
    found, _hook.watcher = _hook.watcher.found, None
    return found


def in_bfloat16(rows):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.mm(rows, rows)


@torch.autocast("cpu", dtype=torch.float16)
def decorated(rows):
    return torch.mm(rows, rows)


def without_gradients(rows):
    with torch.no_grad():
        return in_bfloat16(rows)


def switched_off(rows):
    with torch.autocast("cpu", enabled=False):
        return torch.mm(rows, rows)


def test_autocast_is_seen_wherever_it_is_entered():
    rows = torch.ones(2, 2)
    bfloat16 = ("autocast cpu", "bfloat16")
    assert seen_in(lambda: in_bfloat16(rows)) == [bfloat16]
    assert seen_in(lambda: decorated(rows)) == [("autocast cpu", "float16")]
    assert seen_in(lambda: switched_off(rows)) == []
    assert seen_in(lambda: without_gradients(rows)) == [], "an evaluation"
    compiled = torch.compile(in_bfloat16, fullgraph=True, backend="aot_eager")
    assert bfloat16 in seen_in(lambda: compiled(rows.requires_grad_()))


def test_autocast_can_still_be_compiled_by_torchscript():
    assert torch.jit.script(in_bfloat16)(torch.ones(2, 2)).dtype is torch.bfloat16


def test_settings_of_the_process_are_seen():
    assert _precision.of_process(torch) == []
    torch.set_float32_matmul_precision("high")
    torch.set_autocast_enabled("cpu", True)
    try:
        assert _precision.of_process(torch) == [("autocast cpu", "bfloat16"), ("float32 matmul", "tf32")]
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.set_autocast_enabled("cpu", False)


def test_policies_of_modules_are_seen():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.fsdp import MixedPrecision

    wrapped, other = nn.Linear(2, 2), nn.Linear(2, 2)
    wrapped.mixed_precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    other.mixed_precision = "a word"
    other._comm_hooks = [(default_hooks.fp16_compress_hook, None)]
    assert _precision.of_modules(torch, [wrapped, other, nn.Conv2d(1, 1, 1)]) == {
        ("mixed precision of parameters", "bfloat16"), ("mixed precision of reduction", "float32"),
        ("mixed precision of reduction", "float16")}


def test_the_first_step_of_each_is_kept():
    precisions = _precision.Precisions()
    assert precisions.add([("autocast cpu", "bfloat16")], 3)
    assert not precisions.add([("autocast cpu", "bfloat16")], 4)
    assert precisions.facts() == [{"operation": "autocast cpu", "dtype": "bfloat16", "first_step": 3}]


if __name__ == "__main__":
    _hook.on_autocast_module(torch.amp.autocast_mode)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
