"""One rank of the training of tests/testbed/zero_parity.cc, with DeepSpeed's ZeRO.

Started by forked_ranks.py: zero_training.py FOLDER VARIANT... Its results go to
FOLDER/<variant>/w<world>/rank-N.json.
"""

import os

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed  # noqa: E402, chooses its device when it is imported
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from sharded_training import STEPS, TILES, batch_of, bits_of, model_of, run_variants  # noqa: E402
from tiled_function import Tiled  # noqa: E402

SMALL_BUCKET = 60  # elements: some parameters are larger
LARGE_BUCKET = 100_000


def with_readiness(tiles, parameters):
    """The tiles of a backward, announced like by DeepSpeed's own tile functions."""
    for index, tile in enumerate(tiles):
        for parameter in parameters:
            parameter.ds_grad_is_ready = index + 1 == TILES
        yield tile


def ready_backward(context, tiles):
    tiles = with_readiness(tiles, context.parameters)
    return [Tiled.run_backward(tile) for tile in tiles], ()


def config_of(words, stage):
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 2 if "accumulates" in words else 1,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": False,
            "reduce_bucket_size": SMALL_BUCKET if "small-buckets" in words else LARGE_BUCKET,
            "stage3_param_persistence_threshold": 0,
            "stage3_prefetch_bucket_size": 0,
            "stage3_max_reuse_distance": 0,
        },
    }


class FlatPieces:
    """Stages 1 and 2: this rank's pieces of the parameters, by name."""

    def __init__(self, optimizer, names):
        self.optimizer, self.pieces = optimizer, dict.fromkeys(names.values(), (0, 0))
        size, offset = int(optimizer.partition_size[0]), 0
        for index, parameter in enumerate(optimizer.params_in_partition[0]):
            first = optimizer.first_offset[0] if index == 0 else 0
            count = min(parameter.numel() - first, size - offset)
            self.pieces[names[parameter]] = (offset, count)
            offset += count

    def cut(self, flat):
        return {name: flat[o : o + n] for name, (o, n) in self.pieces.items()}

    def gradients(self):
        flat = [part.reshape(-1) for part in self.optimizer.averaged_gradients[0]]
        return self.cut(torch.cat(flat))


class OwnPieces:
    """Stage 3: the same."""

    def __init__(self, optimizer, names):
        self.optimizer, self.names = optimizer, names

    def own(self, parameter, piece):
        first = dist.get_rank() * parameter.partition_numel()
        return piece[: max(0, min(parameter.partition_numel(), parameter.ds_numel - first))]

    def parameters(self):
        return {n: self.own(p, p.ds_tensor) for p, n in self.names.items()}

    def gradients(self):
        pieces = {}
        for group, gradients in zip(self.optimizer.fp16_groups, self.optimizer.averaged_gradients.values()):
            for p, gradient in zip(group, gradients):
                pieces[self.names[p]] = self.own(p, gradient)
        return pieces


def train(words, rank, tensors):
    stage = next(s for s in (1, 2, 3) if f"stage-{s}" in words)
    model = model_of(words)
    if "tiles-ready" in words:
        Tiled.backward_per_tile = staticmethod(ready_backward)
    names = {p: n for n, p in model.named_parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1, foreach=False)
    engine, zero, *_ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=config_of(words, stage), dist_init_required=False
    )
    pieces = OwnPieces(zero, names) if stage == 3 else FlatPieces(zero, {p: names[p] for p in trained})

    def note(key, named):
        for name, tensor in named.items():
            tensors[f"{key}{name}"] = bits_of(tensor)

    accumulation = 2 if "accumulates" in words else 1
    for step in range(1, STEPS + 1):
        for micro_batch in range(accumulation):
            model.skips_a_layer = "skips-a-layer" in words and step == 2 and micro_batch == 0
            engine.backward(engine(batch_of(rank, step, micro_batch)).pow(2).mean())
            if micro_batch + 1 == accumulation:
                note(f"{step}/{micro_batch}/pre_step/gradient/", pieces.gradients())
            engine.step()
        whole = dict(model.named_parameters())
        stepped = pieces.parameters() if stage == 3 else whole
        note(f"{step}/{accumulation - 1}/post_step/parameter/", stepped)


def run(words):
    error, tensors = "", {}
    per_tile = Tiled.backward_per_tile
    try:
        train(words, dist.get_rank(), tensors)
    except (RuntimeError, AssertionError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    Tiled.backward_per_tile = staticmethod(per_tile)
    return {"error": error, "tensors": tensors}


def main():
    deepspeed.init_distributed("gloo", verbose=False)
    run_variants(run)


main()
