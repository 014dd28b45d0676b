"""Trains the cases of a script, each observed into a folder of its own."""

import os
import sys

from _lockstep import _in_code
import lockstep
import torch
import torch.distributed as dist

_settings_of = _in_code.settings_of


def perturb(number):
    """The next watch moves initial weights as the run of this number does of `lockstep watch --perturb`; 0: it does
    not."""
    def settings_of(*options):
        settings = _settings_of(*options)
        settings.perturbation = number
        return settings

    _in_code.settings_of = settings_of


def train_all(prepare):
    """Of SCRIPT OUT CASE... `prepare`: of the name of a case its layout, the options of its watch, and the function
    that trains it. The folder in OUT is the case's name, with the number of ranks after LAYOUT. An option "perturb" is
    that of `perturb`."""
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        dist.init_process_group("gloo")
    out, cases = sys.argv[1], sys.argv[2:]
    for name in cases:
        layout, options, train = prepare(name)
        if ranks > 1:
            dist.barrier()  # all have left the job before
        perturb(options.pop("perturb", 0))
        lockstep.watch(out=os.path.join(out, name.replace(layout, "%s%d" % (layout, ranks), 1)), **options)
        train()
        lockstep.stop()
    if dist.is_initialized():
        dist.destroy_process_group()
