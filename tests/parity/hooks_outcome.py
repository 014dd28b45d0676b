"""The outcome of a cell of scenarios/hooks, computed from its ranks and its reference.

A process is the data saved by hooks_training.run: its last step, its error, and by key the tensors,
None for an undefined one.
"""

import collections

import torch

from ddp_parity import GONE, fragment

# Tolerance of a correct tensor, relative to all of its kind in its step: epsilons of its dtype,
# which deep models nearly reach. It is never more than the smallest effect of a fault.
ROUNDINGS = 256
MOST = 0.05


def step_of(key):
    return int(key.split("/")[0])


def kind_of(key):
    return key.split("/")[3]


def same(one, other):
    """Whether two tensors have the same bits, or both are missing."""
    if one is None or other is None:
        return one is other
    return torch.equal(bytes_of(one), bytes_of(other))


def bytes_of(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def bits(tensor):
    return bytes(bytes_of(tensor).tolist())


def norm(tensors):
    there = [tensor.double() for tensor in tensors if tensor is not None]
    return sum(tensor.pow(2).sum().item() for tensor in there) ** 0.5


def distances(rank, reference):
    """Distance of each tensor of a rank from the reference's, relative to all of its kind."""
    groups = collections.defaultdict(list)
    for key, tensor in reference.items():
        groups[step_of(key), kind_of(key)].append(tensor)
    norms = {group: norm(tensors) for group, tensors in groups.items()}
    for key, tensor in rank.items():
        expected = reference[key]
        if tensor is None or expected is None:
            yield key, 0 if tensor is expected else float("inf")
        else:
            difference = norm([tensor.double() - expected.double()])
            yield key, difference / norms[step_of(key), kind_of(key)] if difference else 0


def never_trained(ranks, reference):
    """Gradients that the reference has and no rank ever had."""
    gradients = [key for key, tensor in reference.items() if kind_of(key) == "gradient"]
    names = {key.split("/", 4)[4] for key in gradients}
    for name in names:
        keys = [key for key in gradients if key.endswith(f"/gradient/{name}")]
        seen = [(rank[key], reference[key]) for rank in ranks for key in keys if key in rank]
        if all(own is None for own, _ in seen) and any(right is not None for _, right in seen):
            return True
    return False


def outcome(ranks, reference, dtype):
    """The outcome of a cell, from its ranks and the reference: the class, and its step."""
    tensors = [rank["tensors"] for rank in ranks]
    shared = set.intersection(*map(set, tensors))
    apart = [k for k in shared if not all(same(tensors[0][k], other[k]) for other in tensors)]
    limit = min(ROUNDINGS * torch.finfo(dtype).eps, MOST)
    off = [k for rank in tensors for k, distance in distances(rank, reference) if distance > limit]
    wrong_step = min(map(step_of, apart + off), default=0)
    errors = [rank["step"] for rank in ranks if rank["error"] and fragment(rank["error"]) != GONE]
    if errors:
        is_late = 0 < wrong_step < min(errors)
        return "raised late" if is_late else "raised", min(errors)
    if any(rank["error"] for rank in ranks):
        return "not finished", 0
    if never_trained(tensors, reference):
        return "never trained", wrong_step
    if apart:
        return "ranks differ", min(map(step_of, apart))
    return ("agree but wrong", wrong_step) if off else ("right", 0)
