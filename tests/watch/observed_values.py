"""Observes random tensors of each dtype, laid out at random, through the library of `lockstep watch`, and
compares the statistics and digests in the journal with torch's own decoding of the elements.

    observed_values.py LIBRARY HOOK [SEED] [TENSORS]
"""

import csv
import os
import random
import sys
import tempfile

import torch

DTYPES = [getattr(torch, name) for name in
          ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool",
           "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
          if hasattr(torch, name)]


def drawn(draw, dtype):
    """A tensor with random bits and random strides: dimensions in another order, every other element of
    one, a part of a larger tensor, repeated rows."""
    shape = [draw.randint(1, 12) for _ in range(draw.randint(1, 4))]
    shape[-1] += draw.choice([0, 0, 4000])
    size = torch.empty(0, dtype=dtype).element_size()
    if dtype == torch.bool:
        tensor = torch.randint(0, 2, shape, dtype=torch.uint8).view(dtype)
    else:
        tensor = torch.randint(0, 256, shape[:-1] + [shape[-1] * size], dtype=torch.uint8).view(dtype)
    if dtype.is_floating_point is False and dtype != torch.bool and draw.random() < 0.5:
        tensor = torch.randint(0, 100, shape).to(dtype)
    changes = {"as it is": lambda t: t, "permuted": lambda t: t.permute(draw.sample(range(t.dim()), t.dim())),
               "sparse": lambda t: t[..., ::2], "narrowed": lambda t: t.narrow(-1, t.shape[-1] // 3, t.shape[-1] // 2),
               "repeated": lambda t: t.unsqueeze(0).expand(3, *t.shape), "a part": lambda t: t[t.shape[0] // 2:]}
    for _ in range(2):
        tensor = changes[draw.choice(sorted(changes))](tensor)
    return tensor


def expected(tensor):
    """Norm, extremes and the number of elements that are not finite. A sum of squares of more than 2^53 is
    rounded in Lockstep's own order, so the norm is compared with a tolerance."""
    if tensor.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        whole = tensor.to(torch.int64).flatten()
        if not whole.numel():
            return 0.0, None, None, 0
        largest = max(abs(int(whole.min())), abs(int(whole.max())), 1)
        return (float((whole.to(torch.float64) / largest).norm()) * largest, int(whole.min()),
                int(whole.max()), 0)
    values = tensor.contiguous().to(torch.float32 if tensor.element_size() < 4 else tensor.dtype)
    values = values.to(torch.float64).flatten()
    finite = values[torch.isfinite(values)]
    if not finite.numel():
        return 0.0, None, None, values.numel()
    largest = float(finite.abs().max()) or 1.0
    return (float((finite / largest).norm()) * largest, float(finite.min()), float(finite.max()),
            values.numel() - finite.numel())


def rows_of(folder, name):
    """A file without its header, which names the process that wrote it."""
    with open(os.path.join(folder, name), "rb") as file:
        content = file.read()
    return content.split(b"\n", 1)[1] if name.endswith(".csv") else content[512:]


def close(found, wanted, elements):
    return found == wanted or abs(found - wanted) <= 1e-16 * (100 + elements) * abs(wanted)


def check_threads_of():
    from _lockstep._machines import threads_of

    cores = len(os.sched_getaffinity(0))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    for ranks, expected_threads in (1, min(8, cores)), (cores, 1), (2 * cores, 1):
        os.environ["LOCAL_WORLD_SIZE"] = str(ranks)
        assert threads_of("auto", torch, 0, ranks) == expected_threads, ranks
    os.environ["LOCAL_WORLD_SIZE"] = "1"
    torch.set_num_threads(cores)
    assert threads_of("auto", torch, 0, 1) == 1, "torch uses all cores"
    torch.set_num_threads(before)
    assert threads_of("3", torch, 0, 1) == 3
    for wrong in "", "0", "-1", "many":
        try:
            threads_of(wrong, torch, 0, 1)
        except ValueError as error:
            assert "give a number from 1 on" in str(error)
        else:
            raise AssertionError(wrong)


def table(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return list(csv.reader(line for line in file if not line.startswith("#")))[1:]


class Wrapped(torch.Tensor):
    """Its values may lie elsewhere."""

    def __tensor_flatten__(self):
        return [], None


def check_changing_tensors(draw, steps):
    """A tensor that is another one in each step, or none, is recorded as one that is seen for the first time."""
    from _lockstep import _library, _settings
    from _lockstep._rows import Named, Rows

    freed = torch.ones(6)
    freed.untyped_storage().resize_(0)
    part_of_freed = torch.ones(12)[6:]
    part_of_freed.untyped_storage().resize_(0)
    base = torch.randn(6, 8)
    choices = [None, torch.ones(6), base.as_subclass(Wrapped), base, base.clone(), base[1:], base.t(), base.reshape(8, 6), base.double(), base.bfloat16(),
               base.to(torch.int64), torch._neg_view(base), torch.complex(base, base).conj(), freed, part_of_freed,
               torch.empty(0), base.to_sparse(), torch.empty(6, 8, device="meta"), torch.nn.Parameter(base)]
    folder = tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
    watch = _library.Watch(_settings.Settings(folder, "changes"), 0, 1)
    named = Named("again")
    for step in range(1, steps + 1):
        tensor = draw.choice(choices)
        watch.begin_step(step)
        rows = Rows(watch, torch)
        rows.add(named, tensor, "post_step", "parameter")
        rows.add(Named("first of step %d" % step), tensor, "post_step", "parameter")
        rows.write()
    watch.close()
    tensors = {row[0]: row[1:] for row in table(folder, "rank-0.tensors.csv")}
    found = table(folder, "rank-0.csv")
    assert len(found) == 2 * steps
    for again, first in zip(found[::2], found[1::2]):
        assert again[3:] == first[3:], "%s, but %s" % (again, first)
        ours, others = tensors[again[2]], tensors[first[2]]
        assert ours[:2] + ours[3:] == others[:2] + others[3:], "%s, but %s" % (ours, others)


def main():
    os.environ["LOCKSTEP_WATCH_LIBRARY"] = sys.argv[1]
    sys.path.insert(0, sys.argv[2])
    from _lockstep import _library, _settings
    from _lockstep._rows import Named, Rows

    check_threads_of()
    seed, count = (int(word) for word in (sys.argv[3:] + ["1", "300"][len(sys.argv) - 3:])[:2])
    draw = random.Random(seed)
    torch.manual_seed(seed)
    check_changing_tensors(draw, 400)
    tensors = [drawn(draw, DTYPES[number % len(DTYPES)]) for number in range(count)]
    assert sum(tensor.numel() for tensor in tensors) > 2**20, "too few elements for threads"

    def observed(threads):
        """The folder with the files of a step."""
        folder = tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
        watch = _library.Watch(_settings.Settings(folder, "values"), 0, 1)
        watch.use_threads(threads)
        watch.begin_step(1)
        rows = Rows(watch, torch)
        for number, tensor in enumerate(tensors):
            rows.add(Named("%d" % number), tensor, "post_step", "parameter")
            rows.add(Named("%d again" % number), tensor.contiguous(), "post_step", "parameter")
        rows.write()
        watch.end(None)
        watch.close()
        return folder

    folder = observed(1)
    for threads in 2, 3, 8:
        other = observed(threads)
        for name in "rank-0.csv", "rank-0.sketches":
            assert rows_of(folder, name) == rows_of(other, name), "%d threads: other %s" % (threads, name)
    found = table(folder, "rank-0.csv")
    assert len(found) == 2 * count, len(found)
    for number, tensor in enumerate(tensors):
        row, again = found[2 * number], found[2 * number + 1]
        where = "%s of shape %s, strides %s" % (tensor.dtype, list(tensor.shape), tensor.stride())
        assert row[3:] == again[3:], "%s: %s, contiguous %s" % (where, row, again)
        norm, least, most, non_finite = expected(tensor)
        _, _, _, _, own_norm, own_least, own_most, own_non_finite = row
        assert close(float(own_norm), norm, tensor.numel()), "%s: norm %s, torch %r" % (where, own_norm, norm)
        number_of = int if isinstance(least, int) else float
        for own, torchs in (own_least, least), (own_most, most):
            assert (own == "") if torchs is None else number_of(own) == torchs, "%s: %s, torch %r" % (where, own, torchs)
        assert int(own_non_finite) == non_finite, "%s: %s not finite, torch %d" % (where, own_non_finite, non_finite)
    print("%d tensors of %d dtypes are as torch decodes them" % (count, len(DTYPES)))


main()
