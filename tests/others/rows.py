"""The errors of both papers: their threads, mechanisms, and what the papers report. The faults of the catalogue."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    folder: str
    job: str
    thread: str
    mechanism: str
    paper: str
    note: str = ""
    ranks: int = 2
    has_checkpoint: bool = False
    options: tuple[str, ...] = ("--data", "--modules")  # of `lockstep watch`
    variant: str = ""


GITHUB = "https://github.com"
FOUND = "found"
OTHERS_TRACE = "found; the artifact shows it by a trace of 104336"


def traincheck(name: str, thread: str, mechanism: str, paper: str = FOUND, note: str = "", ranks: int = 2,
               has_checkpoint: bool = False) -> Row:
    job = name.lower().replace("-", "_").replace(" ", "_").replace("stack_overflow", "stackoverflow")
    return Row(name, "traincheck", job, thread, mechanism, paper, note, ranks, has_checkpoint)


TRAINCHECK = [
    traincheck("DeepSpeed 1801", f"{GITHUB}/deepspeedai/DeepSpeed/pull/1801",
               "only rank 0 of a tensor-parallel group clips the gradients that all its ranks hold",
               "found, in step 3, one after the cause"),
    traincheck("PyTorch 104336", f"{GITHUB}/pytorch/pytorch/issues/104336",
               "a model in DDP moves to another device and back, and loses DDP's hooks"),
    traincheck("x jxmnop DDP out of sync", "https://x.com/jxmnop/status/1778520637193240892",
               "some steps call the model inside DDP", OTHERS_TRACE),
    traincheck("PyTorch 84803", f"{GITHUB}/pytorch/pytorch/issues/84803",
               "data between two GPUs is lost: reduced gradients arrive as zeros", OTHERS_TRACE),
    traincheck("PyTorch 96600", f"{GITHUB}/pytorch/pytorch/issues/96600",
               "the same: a weight that rank 0 sends arrives as zeros", OTHERS_TRACE),
    traincheck("Baichuan2 86", f"{GITHUB}/baichuan-inc/Baichuan2/issues/86",
               "the same between two stages: infinities and NaNs arrive", OTHERS_TRACE),
    traincheck("DeepSpeed 5794", f"{GITHUB}/deepspeedai/DeepSpeed/issues/5794",
               "ranks call all_to_all with other sizes, because each takes its own capacity of experts",
               "found; not in the artifact", "gloo aborts where NCCL hangs"),
    traincheck("Stack Overflow 67180955", "https://stackoverflow.com/questions/67180955",
               "all workers of the loader draw the same random numbers", "found; not in the artifact",
               "each batch comes twice on each rank"),
    traincheck("Stack Overflow 60335387",
               "https://stackoverflow.com/questions/60335387/pytorch-mnist-example-not-converge",
               "the loop never zeroes gradients"),
    traincheck("PyTorch forum 84911",
               "https://discuss.pytorch.org/t/obtaining-abnormal-changes-in-loss-and-accuracy/84911",
               "all layers but the norms are frozen"),
    traincheck("mmpretrain 702", f"{GITHUB}/open-mmlab/mmpretrain/issues/702",
               "layers are frozen in train() alone, which is not called", "found; the artifact simulates the trace"),
    traincheck("PyTorch 115607", f"{GITHUB}/pytorch/pytorch/issues/115607",
               "a compiled step lacks a guard: after a step without gradients it updates nothing",
               "found; the artifact simulates the trace"),
    traincheck("Transformers 33844", f"{GITHUB}/huggingface/transformers/pull/33844",
               "attention drops out in evaluation, too"),
    traincheck("Transformers 34204", f"{GITHUB}/huggingface/transformers/issues/34204",
               "the processor returns one sample for a batch", "found, also by PyTea/NeuRI; not in the artifact",
               "`diff` says: 8 samples per rank against 1"),
    traincheck("Transformers 17877", f"{GITHUB}/huggingface/transformers/pull/17877",
               "weights are initialised again and again", FOUND),
    traincheck("PyTorch 51800", f"{GITHUB}/pytorch/pytorch/issues/51800",
               "spectral_norm is evaluated before its first pass in training", FOUND,
               "`diff` finds the power iteration of that first pass; evaluation itself is not observed"),
    traincheck("lightning-thunder 725", f"{GITHUB}/Lightning-AI/lightning-thunder/issues/725",
               "autocast does not reach one function, which computes in float32",
               "found; the artifact simulates the trace",
               "the other type is more precise than the right one, and inside its rounding"),
    traincheck("Transformers 29903", f"{GITHUB}/huggingface/transformers/issues/29903",
               "the training is right, the checkpoint is not", "not found",
               "`diff --expect same` of the run and its checkpoint", has_checkpoint=True),
    traincheck("Transformers 33455", f"{GITHUB}/huggingface/transformers/issues/33455",
               "the trainer computes too few steps", "not found", "all steps that it trains are right"),
    traincheck("Transformers 23723", f"{GITHUB}/huggingface/transformers/issues/23723",
               "generation with a long prompt ignores max_new_tokens", FOUND, "no optimizer steps in generation", 0),
]

LISTED = "in the paper, by another list"
OPENED = "opened by an author"
LIKE_OPENED = "opened by an account with an author's texts"
ALIKE = "not known"


def megatron(number: int, mechanism: str, paper: str, kind: str = "issues", ranks: int = 2) -> Row:
    thread = f"{GITHUB}/NVIDIA/Megatron-LM/{kind}/{number}"
    return Row(f"Megatron-LM {number}", "ttrace", f"megatron_{number}", thread, mechanism, paper, ranks=ranks)


def transformer_engine(number: int, mechanism: str, paper: str, kind: str = "issues") -> Row:
    thread = f"{GITHUB}/NVIDIA/TransformerEngine/{kind}/{number}"
    return Row(f"TransformerEngine {number}", "ttrace", f"te_{number}", thread, mechanism, paper)


TTRACE = [
    megatron(599, "the router's gradients are not added up under sequence parallelism", LISTED),
    megatron(1446, "the final norm's gradients are not added up under sequence parallelism",
             f"{LISTED}; {LIKE_OPENED}"),
    megatron(1464, "attention under context parallelism has wrong gradients", OPENED),
    transformer_engine(1677, "a norm's gradient is added up twice over the tensor-parallel ranks", LIKE_OPENED),
    transformer_engine(1615, "fused attention has a wrong gradient of the queries", LIKE_OPENED),
    megatron(906, "the loss is multiplied by the context-parallel ranks, the gradients are not divided", ALIKE),
    megatron(656, "embedding and head on other stages come apart", ALIKE),
    megatron(844, "tied gradients are added up over stages after the reduce-scatter over data", ALIKE, ranks=4),
    megatron(950, "the forward pass uses the old values of a bucket, whose gathering overlaps it", ALIKE),
    megatron(442, "tensor-parallel ranks scale to FP8 by their own largest value", ALIKE, "pull"),
    transformer_engine(738, "an FP8 product reads the bytes of a bfloat16 tensor", ALIKE, "pull"),
    megatron(1304, "layers that do not divide by the stages are left out", ALIKE),
    megatron(290, "with checkpoints of several layers each layer gets the input of the chunk", ALIKE, "pull"),
    transformer_engine(1616, "the weight's gradient reads a buffer before the gathered tokens are there", ALIKE),
]


def catalogue(cell: str, *options: str) -> Row:
    name, variant = cell.split("/")
    return Row(name, "catalogue", name.replace("-", "_"), "", "", "", options=("--data", *options), variant=variant)


BUFFERS = "--also", "buffers"

CATALOGUE = [
    catalogue("loss-on-unwrapped-module/bypass"),
    catalogue("gradients-clipped-before-reduction/clipped-before"),
    catalogue("missing-gradients-skipped-in-reduction/skip-missing"),
    catalogue("uneven-shards-averaged-alike/taken-for-batch-mean"),
    catalogue("adapters-added-after-wrapper/adapters-after-wrap"),
    catalogue("unfrozen-after-wrap/unfrozen-after-wrap"),
    catalogue("parameter-replaced-after-wrap/converted-and-back"),
    catalogue("no-sync-off-by-one/first-reduced"),
    catalogue("averaged-twice/loss-divided"),
    catalogue("token-mean-per-rank/own-count"),
    catalogue("accumulation-mean-of-means/own-counts"),
    catalogue("all-reduce-inside-the-loss/plain-all-reduce"),
    catalogue("scheduler-stepped-once-per-process/stepped-once-per-process"),
    catalogue("partial-accumulation-window/divided-by-configured"),
    catalogue("group-of-one-never-reduces/reduced-over-rows"),
    catalogue("router-bias-from-local-counts/own-counts", *BUFFERS),
    catalogue("running-normaliser-per-rank/own-statistics", *BUFFERS),
    catalogue("sequence-parallel-norm-gradients-not-reduced/norms-not-reduced"),
    catalogue("adapter-factor-not-reduced/factors-not-reduced"),
    catalogue("expert-gradient-scale/divided-by-holders"),
    catalogue("pipeline-gradient-not-normalised/loss-divided-after-schedule"),
    catalogue("whole-matrix-optimizer-on-shard/shard-orthogonalised"),
    catalogue("same-batch-on-every-rank/sampler-of-one-rank"),
    catalogue("optimizer-holds-stale-parameters/built-before-sharding"),
    catalogue("ignored-module-never-synchronised/never-synchronised"),
    catalogue("clip-by-local-shard-norm/clipped-by-own-norm"),
    catalogue("step-skipped-on-one-rank/skipped-locally"),
    catalogue("skip-decided-by-one-rank/decided-by-rank-0"),
    catalogue("collective-order-differs-same-shapes/arrival-order"),
    catalogue("batch-norm-updated-again-by-checkpoint/run-twice", *BUFFERS),
    catalogue("recomputed-tile-draws-another-dropout-mask/not-restored"),
]
