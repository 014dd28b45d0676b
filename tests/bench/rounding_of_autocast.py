"""How far gradients of healthy trainings are apart under autocast: rounding_of_autocast.py KIND [TRAININGS]

Compares those of a whole batch with the mean of those of its halves, which is what two ranks compute, in the drawn
trainings of tests/layouts/precision.py, before the first step and after 30 and 200 steps of AdamW. KIND: bf16, fp16 or
fp32. Distances are in units of its unit roundoff u, over the larger norm, or over a hundredth of that of all gradients."""

import math
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "layouts"))
from precision import Drawn  # noqa: E402

ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}
STEPS = 0, 30, 200
SCALE = {"fp16": 2.0**12}  # of the loss: without any, small gradients have no bits
SMALL_PART, FEWEST = 0.01, 16  # as in harness/diff


def gradients(drawn, samples, targets, scale):
    drawn.module.zero_grad()
    with drawn.computes():
        output = drawn.module(samples)
    (scale * (output.float() - targets).pow(2).mean()).backward()
    for parameter in drawn.module.parameters():
        parameter.grad /= scale
    return {name: parameter.grad.double() for name, parameter in drawn.module.named_parameters()}


def distances(drawn, scale):
    """Of each gradient: its distance, and that along its own direction, or None if it has few elements."""
    samples, targets = drawn.samples(0), drawn.targets[0]
    whole = gradients(drawn, samples, targets, scale)
    halves = [gradients(drawn, x, y, scale) for x, y in zip(samples.chunk(2), targets.chunk(2))]
    norm_of_all = math.sqrt(sum(gradient.norm() ** 2 for gradient in whole.values()))
    for name, one in whole.items():
        if name.endswith("k.bias"):  # 0 but for rounding
            continue
        other = (halves[0][name] + halves[1][name]) / 2
        norm = max(one.norm(), other.norm())
        has_direction = one.numel() >= FEWEST and norm > SMALL_PART * norm_of_all
        along = abs((one * other).sum() / one.pow(2).sum() - 1) if has_direction else None
        yield float((other - one).norm() / max(norm, SMALL_PART * norm_of_all)), along


def share(values, part):
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def main(kind, count):
    torch.set_num_threads(1)
    found, scale = [], SCALE.get(kind, 1)
    for seed in range(count):
        drawn = Drawn(kind, seed)
        optimizer = torch.optim.AdamW(drawn.module.parameters(), 1e-3)
        for step in range(max(STEPS) + 1):
            if step in STEPS:
                found += distances(drawn, scale)
            gradients(drawn, drawn.samples(0), drawn.targets[0], scale)
            optimizer.step()
    u = ROUNDOFF[kind]
    whole = [one / u for one, _ in found]
    along = [float(one) / u for _, one in found if one is not None]
    for name, values in (("distance", whole), ("along its direction", along)):
        print("%s, %s: %d gradients, median %.2g u, 99 %% %.2g u, 99.9 %% %.2g u, largest %.2g u"
              % (kind, name, len(values), share(values, 0.5), share(values, 0.99), share(values, 0.999), max(values)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100)
