"""How a training goes through the part of a data set that torch's DistributedSampler gives to this rank."""

import itertools
import weakref

from _lockstep._stalls import place_of_caller

_MOST = 64  # that are listed


class Samplers:
    def __init__(self):
        self._uses = {}  # facts of samplers that are alike
        self._last = {}  # a reference to the data set of the last pass of a training, and its epoch, by the same

    def facts(self):
        """`passes`: from the first to the last sample, in which the training took steps; `repeats`: of these, in the
        order of the one before; `seed` -1: it is not shuffled."""
        return list(self._uses.values())[:_MOST]

    def follow(self, sampler, indices, present_step):
        """The indices, of a pass that begins, with nothing that runs between them."""
        seed = int(sampler.seed) if sampler.shuffle else -1
        alike = (type(sampler).__name__, place_of_caller(), int(sampler.num_samples), int(sampler.num_replicas),
                 int(sampler.rank), seed)
        epoch, begin, source = sampler.epoch, present_step(), _reference_to(sampler)
        if alike not in self._uses:
            if len(self._uses) == _MOST:
                return indices
            names = ("name", "place", "samples", "parts", "part", "seed")
            self._uses[alike] = {**dict(zip(names, alike)), "passes": 0, "repeats": 0}

        def end():
            if present_step() > begin:  # else it is an evaluation
                self._count(alike, source, epoch)

        return itertools.chain(indices, iter(end, None))

    def _count(self, alike, source, epoch):
        use, last = self._uses[alike], self._last.get(alike)
        use["passes"] += 1
        if last is not None and last[0]() is source() is not None and last[1] == epoch and use["seed"] != -1:
            use["repeats"] += 1
        self._last[alike] = source, epoch


def _reference_to(sampler):
    """To the data set, so that nothing stays in memory; to the sampler if none is possible, as to a list."""
    try:
        return weakref.ref(sampler.dataset)
    except TypeError:
        return weakref.ref(sampler)
