"""Moves the initial weights of a training by a unit in the last place of the precision that it computes in, for
`lockstep watch --perturb`: how far its steps then move is what rounding may do to them."""

import zlib

from _lockstep import _precision

_TF32 = 2**-10  # which is no type of torch


class Perturbation:
    """`seed`: of the run, the same on all ranks, so that copies of a parameter stay copies."""

    def __init__(self, torch, seed):
        self._torch, self._seed = torch, seed
        self._modules = set()  # that were looked at
        self._moved = {}  # parameters, by id
        self._is_over = False

    def parameters(self):
        """How many were moved."""
        return len(self._moved)

    def before_forward(self, module):
        """Before a forward pass of any module. One without gradients is none of the training."""
        if self._is_over or module in self._modules or not self._torch.is_grad_enabled():
            return
        self._modules.update(module.modules())
        unit = self._unit_of(module)
        with self._torch.no_grad():
            for name, parameter in module.named_parameters():
                if parameter.requires_grad and id(parameter) not in self._moved:
                    self._moved[id(parameter)] = parameter
                    self._move(name, parameter, unit)

    def end(self):
        """The first step begins."""
        self._is_over, self._modules = True, set()

    def _unit_of(self, module):
        """Of the coarsest type that the forward pass computes in, apart from those of its parameters."""
        found = set(_precision.of_process(self._torch)) | _precision.of_modules(self._torch, module.modules())
        return max([self._unit(dtype) for operation, dtype in found if "reduction" not in operation], default=0)

    def _unit(self, dtype):
        return _TF32 if dtype == "tf32" else self._torch.finfo(getattr(self._torch, dtype)).eps

    def _move(self, name, parameter, unit):
        values = getattr(parameter, "_local_tensor", parameter)  # of a DTensor
        if values.numel() == 0 or not (values.is_floating_point() or values.is_complex()):
            return
        unit = max(unit, self._torch.finfo(values.dtype).eps)
        # The generator takes 32 bits.
        generator = self._torch.Generator().manual_seed(zlib.crc32(b"%d %s" % (self._seed, name.encode())))
        signs = 2 * self._torch.randint(0, 2, values.shape, generator=generator, dtype=self._torch.int8) - 1
        # By as much as rounding does at most, or the next number of its own type: 1 + unit / 2 is no number of that.
        values.add_(values * signs.to(values.device, values.dtype), alpha=unit / 2)
