"""The models and losses of scenarios/hooks in torch.nn.

This file contains no results of lockstep: a cell is defined by the names of its variant and
conditions.
"""

import typing

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from models import Sizes, SwiGlu, VisionLanguage
from tiled_function import Tiling, tiled

WIDTH, HIDDEN, VOCABULARY = 8, 16, 16
LEARNING_RATE = 0.05
SUMMED = "summed-weights-share-a-gradient"
ROUTED = "second-output-dropped-by-tiles"


class Cell(typing.NamedTuple):
    name: str
    scenario: str
    variant: str
    world: int
    steps: int
    seed: int
    axes: dict

    def axis(self, name, otherwise=None):
        return self.axes.get(name, otherwise)

    def is_on(self, name):
        return self.axis(name) == "on"

    @property
    def dtype(self):
        return getattr(torch, self.axis("dtype", "float32"))


class Scenario:
    """Common parts of a scenario's cells; `place` is step, rank and micro-batch."""

    def __init__(self, cell):
        self.cell = cell
        self.shape = (int(cell.axis("batch")), int(cell.axis("length", 3)))

    def generator(self, base, place):
        step, owner, index = place
        seed = self.cell.seed + base + step * 100 + owner * 10 + index
        return torch.Generator().manual_seed(seed)

    def normal(self, base, place, shape):
        return torch.randn(shape, generator=self.generator(base, place)).to(self.cell.dtype)

    def accumulation(self):
        return int(self.cell.axis("accumulation", 1))

    def learning_rate(self):
        return LEARNING_RATE

    def is_covered(self):
        """Whether this file reproduces the cell's subject."""
        return True

    def tiling(self):
        """Of the variant; the reference has none."""
        variant = self.cell.variant
        backward = "explicit-inputs" if self.is_explicit(variant) else "grad-but-last"
        return Tiling(int(self.cell.axis("tiles", 1)), backward)

    def ddp_options(self):
        variant, cell = self.cell.variant, self.cell
        return {
            "static_graph": cell.is_on("static_graph") or "static-graph" in variant,
            "find_unused_parameters": cell.is_on("find_unused") or self.finds_unused(variant),
        }

    @staticmethod
    def is_explicit(variant):
        return "explicit-inputs" in variant

    @staticmethod
    def finds_unused(variant):
        return "find-unused" in variant


class SummedLinear(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.delta = base, nn.Parameter(torch.zeros_like(base.weight))

    def forward(self, rows):
        return functional.linear(rows, self.base.weight + self.delta)


class Layers(nn.Module):
    """A tiled MLP and the layers around it."""

    def __init__(self, cell, tiling):
        super().__init__()
        around, is_dyadic = cell.axis("around", "layers"), cell.axis("values") == "dyadic"
        self.tiling = tiling
        self.below = nn.Linear(WIDTH, WIDTH) if around == "layers" else None
        self.mlp = SwiGlu(WIDTH, HIDDEN, nn.Identity() if is_dyadic else functional.silu)
        for name in ("gate", "up", "down") if cell.scenario == SUMMED else ():
            setattr(self.mlp, name, SummedLinear(getattr(self.mlp, name)))
        self.router = nn.Linear(WIDTH, 2) if cell.scenario == ROUTED else None
        self.above = nn.Linear(WIDTH, WIDTH) if around != "nothing" else None
        if cell.axis("frozen") == "all":
            self.mlp.requires_grad_(False)
        if cell.axis("frozen") == "gate":
            self.mlp.gate.requires_grad_(False)
        if is_dyadic:
            with torch.no_grad():
                for weight in self.parameters():
                    weight.random_(-1, 2)

    def routed(self, rows):
        output = self.mlp(rows)
        if self.router is None:
            return (output,)
        probabilities = self.router(rows).softmax(-1)
        return output * probabilities[..., :1], probabilities

    def forward(self, rows):
        hidden = rows.requires_grad_() if self.below is None else self.below(rows)
        if self.tiling is None:
            output, *more = self.routed(hidden)
        else:
            own = [*self.mlp.parameters()]
            own += [] if self.router is None else self.router.parameters()
            output, *more = tiled(self.routed, own, hidden, self.tiling)
        return [output if self.above is None else self.above(output), *more]


class TiledVisionLanguage(VisionLanguage):
    def __init__(self, tiling):
        super().__init__(Sizes((1, 8, 8)), lora={"draws_b": True})
        for block in self.language.blocks if tiling else ():
            self.tile(block.mlp, tiling)

    @staticmethod
    def tile(mlp, tiling):
        plain = mlp.forward
        mlp.forward = lambda whole: tiled(
            lambda rows: (plain(rows),), list(mlp.parameters()), whole, tiling
        )[0]


class HooksPerTile(Scenario):
    def __init__(self, cell):
        super().__init__(cell)
        self.is_dyadic = cell.axis("values") == "dyadic"
        self.is_vision_language = cell.axis("around") == "vision-language-model"

    def tiling(self):
        variant = self.cell.variant
        backward = "per-tile"
        scenario = self.cell.scenario
        if variant.startswith(("grad-but-last", "one-tile")) or scenario == SUMMED:
            backward = "grad-but-last"
        if variant == "gated" and self.cell.world > 1:
            backward = "grad-but-last"
        if variant == "explicit-inputs" or scenario == ROUTED:
            backward = "explicit-inputs"
        return Tiling(
            int(self.cell.axis("tiles", 1)),
            backward,
            sets_aside=variant.endswith("set-aside"),
            carries_all_outputs=variant != "dropped",
            clones_first=variant == "cloned",
        )

    def accumulation(self):
        return 2 if self.cell.variant.startswith("one-tile") else super().accumulation()

    def learning_rate(self):
        return 0 if self.is_dyadic else LEARNING_RATE

    def model(self, tiling):
        if self.is_vision_language:
            return TiledVisionLanguage(tiling)
        return Layers(self.cell, tiling)

    def drawn(self, base, place, shape):
        if not self.is_dyadic:
            return self.normal(base, place, shape)
        generator = self.generator(base, place)
        return torch.randint(-1, 2, shape, generator=generator, dtype=self.cell.dtype)

    def loss(self, model, *place):
        if self.is_vision_language:
            image = self.drawn(1_000_000, place, (self.shape[0], 1, 8, 8))
            text = torch.randint(32, self.shape, generator=self.generator(2_000_000, place))
            logits = model(image, text)[:, -1 - text.shape[1] : -1]
            return functional.cross_entropy(logits.reshape(-1, 32), text.reshape(-1))
        rows, target = (self.drawn(n * 1_000_000, place, (*self.shape, WIDTH)) for n in (1, 2))
        output, *more = model(rows)
        if self.is_dyadic:
            return (output * target).sum()
        losses = [(output - target).pow(2).mean()] + [other.pow(2).mean() for other in more]
        return sum(losses[1:], losses[0])


TOUCHING_ALL = (
    "touching-all",
    "shared-grad-but-last",
    "shared-static-graph",
    "tokenless-tile-guarded",
)


class ExpertLayers(nn.Module):
    """Two layers with a part between them that is tiled once or twice: two experts, and a column
    that routes."""

    def __init__(self, variant, tiling):
        super().__init__()
        self.below = nn.Linear(WIDTH, WIDTH)
        self.usual = SwiGlu(WIDTH, HIDDEN)
        self.rare = SwiGlu(WIDTH, HIDDEN)
        self.above = nn.Linear(WIDTH, WIDTH)
        if "unused" in variant and variant != "find-unused":
            self.unused = nn.Linear(WIDTH, WIDTH)
        self.layers = 2 if "shared" in variant else 1
        self.tiling = tiling
        self.touches_all = variant in TOUCHING_ALL
        self.has_padding = "tokenless" in variant

    def experts(self, rows):
        values, route = rows[:, :WIDTH], rows[:, WIDTH].detach()
        output = torch.zeros_like(values)
        for expert, is_mine in ((self.usual, route == 0), (self.rare, route > 0)):
            mine = is_mine.nonzero().squeeze(-1)
            if len(mine):
                output = output.index_add(0, mine, expert(values.index_select(0, mine)))
        return output

    def tile(self, rows):
        output = self.experts(rows)
        for parameter in self.own() if self.touches_all else ():
            output = output + (parameter * 0).sum()
        return (output,)

    def own(self):
        return [*self.usual.parameters(), *self.rare.parameters()]

    def forward(self, rows):
        hidden = self.below(rows)
        route = torch.zeros_like(rows[..., :1])
        by_row = route.view(-1)
        if self.has_padding:
            by_row[: (len(by_row) + 1) // 2] = -1
        by_row[-1 if self.has_padding else 0] = 1
        for _ in range(self.layers):
            routed = torch.cat([hidden, route], -1)
            if self.tiling:
                (output,) = tiled(self.tile, self.own(), routed, self.tiling)
            else:
                output = self.experts(routed.flatten(0, 1)).view_as(hidden)
            hidden = hidden + output
        return self.above(hidden)


class AbsentFromLastTile(Scenario):
    def is_covered(self):
        """Python's binding refuses to copy None, in other words than torch's own."""
        return self.cell.variant != "tokenless-tile"

    @staticmethod
    def is_explicit(variant):
        return "explicit-inputs" in variant or variant.startswith("unused-")

    @staticmethod
    def finds_unused(variant):
        return variant in ("find-unused", "unused-found")

    def model(self, tiling):
        return ExpertLayers(self.cell.variant, tiling)

    def loss(self, model, *place):
        rows, target = (self.normal(n * 1_000_000, place, (*self.shape, WIDTH)) for n in (1, 2))
        return (model(rows) - target).pow(2).mean()


class AboveEmbedding(nn.Module):
    """An MLP above a frozen embedding; `run(mlp, hidden)`."""

    def __init__(self, cell, run):
        super().__init__()
        embedding = torch.randn(VOCABULARY, WIDTH)
        self.embedding = nn.Parameter(embedding, requires_grad=False)
        self.mlp = SwiGlu(WIDTH, HIDDEN)
        self.head = nn.Linear(WIDTH, WIDTH) if cell.axis("above") == "head" else nn.Identity()
        self.run = run

    def forward(self, tokens):
        return self.head(self.run(self.mlp, functional.embedding(tokens, self.embedding)))


class InputNeedsNoGradient(Scenario):
    def model(self, tiling):
        def run_tiled(mlp, hidden):
            if self.cell.variant == "input-requires-grad":
                hidden.requires_grad_()
            return tiled(lambda rows: (mlp(rows),), list(mlp.parameters()), hidden, tiling)[0]

        def run_checkpoint(mlp, hidden):
            is_reentrant = self.cell.variant == "checkpoint-reentrant"
            return checkpoint(mlp, hidden, use_reentrant=is_reentrant)

        if not tiling:
            return AboveEmbedding(self.cell, lambda mlp, hidden: mlp(hidden))
        is_checkpoint = self.cell.variant.startswith("checkpoint")
        return AboveEmbedding(self.cell, run_checkpoint if is_checkpoint else run_tiled)

    def loss(self, model, *place):
        tokens = torch.randint(VOCABULARY, self.shape, generator=self.generator(1_000_000, place))
        target = self.normal(2_000_000, place, (*self.shape, WIDTH))
        return (model(tokens) - target).pow(2).mean()


def with_dropout(tokens, probability):
    noise = (torch.rand(tokens.shape) >= probability).to(tokens.dtype).div_(1 - probability)
    return tokens * noise


class DroppedLayers(nn.Module):
    """An MLP with dropout between two layers; `run(mlp, parameters, hidden)`."""

    def __init__(self, cell, run):
        super().__init__()
        self.below = nn.Linear(WIDTH, WIDTH)
        self.mlp = SwiGlu(WIDTH, HIDDEN)
        self.above = nn.Linear(WIDTH, WIDTH)
        self.is_residual = cell.is_on("residual")
        self.run = run

    def dropped(self, rows):
        output = self.mlp(rows)
        return with_dropout(output, 0.25)

    def forward(self, rows):
        hidden = self.below(rows)
        hidden = rows + hidden if self.is_residual else hidden
        return self.above(self.run(self.dropped, list(self.mlp.parameters()), hidden))


class AnotherMask(Scenario):
    def __init__(self, cell):
        super().__init__(cell)
        self.has_autocast = cell.is_on("autocast")

    def learning_rate(self):
        return 0 if self.has_autocast else LEARNING_RATE

    def autocast(self, **options):
        return torch.autocast("cpu", torch.bfloat16, enabled=self.has_autocast, **options)

    def tiling(self):
        options, lost = {}, self.cell.axis("lost")
        if self.cell.variant == "first-mask-for-all":
            options["random"] = "first-for-all"
        if self.cell.variant == "not-restored":
            options["random"] = "restored" if lost == "autocast" else "drawn-anew"
            options["restores_autocast"] = lost == "mask"
        return Tiling(int(self.cell.axis("tiles")), "explicit-inputs", **options)

    def model(self, tiling):
        def run_tiled(mlp, parameters, hidden):
            return tiled(lambda rows: (mlp(rows),), parameters, hidden, tiling)[0]

        def run_plain(mlp, _parameters, hidden):
            if not self.has_autocast:
                return mlp(hidden)
            outputs = []  # tile by tile, because each one's gradient is rounded to bfloat16
            for rows in hidden.flatten(0, -2).tensor_split(int(self.cell.axis("tiles"))):
                with self.autocast(cache_enabled=False):
                    outputs.append(mlp(rows))
            return torch.cat(outputs).view_as(hidden)

        return DroppedLayers(self.cell, run_tiled if tiling else run_plain)

    def loss(self, model, *place):
        rows, target = (self.normal(n * 1_000_000, place, (*self.shape, WIDTH)) for n in (1, 2))
        torch.manual_seed(self.generator(3_000_000, place).initial_seed())
        with self.autocast():
            output = model(rows)
        return (output - target).pow(2).mean()


class CheckpointedVisionLanguage(VisionLanguage):
    """With a dropout before every block; `run(segment, tokens)` runs both."""

    def __init__(self, cell, run, run_nested):
        is_shared = "shared" in cell.variant
        sizes = Sizes(
            (1, 4, 4),
            width=8,
            heads=1,
            hidden=8,
            blocks=1,
            vocabulary=16,
            text=3,
            language_heads=1,
            language_hidden=4,
            language_blocks=4 if is_shared else 28,
        )
        has_adapters = "shared-adapters" in cell.variant or cell.axis("trained") == "adapters"
        lora = {"rank": 1, "alpha": 1, "draws_b": True} if has_adapters else None
        super().__init__(sizes, shared=is_shared, lora=lora)
        dropped = 0.1 if cell.is_on("dropout") else 0
        for block in (*self.vision.blocks, *dict.fromkeys(self.language.blocks)):
            self.run_with(run, block, dropped)
        for block in dict.fromkeys(self.language.blocks) if run_nested else ():
            self.run_with(run_nested, block.mlp, 0)

    @staticmethod
    def run_with(run, module, dropped):
        plain = module.forward

        def segment(tokens):
            return plain(with_dropout(tokens, dropped) if dropped else tokens)

        module.forward = lambda tokens: run(segment, tokens)


class ReentrantCheckpoint(Scenario):
    def is_covered(self):
        """Memory is not covered."""
        return self.cell.variant != "non-reentrant"

    def tiling(self):
        return self.cell.variant != "no-checkpoint"

    def model(self, is_checkpointed):
        self.is_trained_by_ddp = is_checkpointed is not None
        is_reentrant = "non-reentrant" not in self.cell.variant

        def run(segment, tokens):
            if is_reentrant and not tokens.requires_grad:
                tokens = tokens.detach().requires_grad_()
            stops_early = set_checkpoint_early_stop(self.cell.axis("early_stop") != "off")
            with torch.autograd.graph.save_on_cpu(), stops_early:
                return checkpoint(segment, tokens, use_reentrant=is_reentrant)

        def run_plain(segment, tokens):
            return segment(tokens)

        if not is_checkpointed:
            return CheckpointedVisionLanguage(self.cell, run_plain, None)
        nests = "nested" in self.cell.variant
        return CheckpointedVisionLanguage(self.cell, run, run if nests else None)

    def loss(self, model, *place):
        image = self.normal(1_000_000, place, (self.shape[0], 1, 4, 4))
        text = torch.randint(16, self.shape, generator=self.generator(2_000_000, place))
        torch.manual_seed(self.generator(3_000_000, place).initial_seed())
        for parameter in model.parameters() if self.is_trained_by_ddp and not place[2] else ():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        logits = model(image, text)[:, -1 - text.shape[1] : -1]
        return functional.cross_entropy(logits.reshape(-1, 16), text.reshape(-1))


class MlpLayer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), SwiGlu(width, hidden)

    def forward(self, rows):
        return rows + self.mlp(self.norm(rows))


class MlpLayers(nn.Module):
    def __init__(self):
        super().__init__()
        inputs, width, hidden = 4, 5, 7
        self.embedding = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(MlpLayer(width, hidden) for _ in range(2))
        self.head = nn.Linear(width, 1)

    def forward(self, rows):
        hidden = self.embedding(rows)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


class AccumulatorUnderDdp(Scenario):
    def __init__(self, cell):
        self.cell = cell
        self.length, self.tiles = int(cell.axis("length")), int(cell.axis("tiles"))

    def is_covered(self):
        """Predictions have references of their own."""
        return self.cell.variant.startswith("ddp-") and not self.cell.variant.endswith("by-its-law")

    def learning_rate(self):
        return 0.2

    def tiling(self):
        is_mended = "mended" in self.cell.variant
        return Tiling(self.tiles, accumulator="mended" if is_mended else "published")

    def model(self, tiling):
        model = MlpLayers()
        for layer in model.layers if tiling else ():
            TiledVisionLanguage.tile(layer.mlp, tiling)
        return model

    def rows(self, base, place, features):
        if self.cell.axis("tile_values") == "random":
            return self.normal(base, place, (1, self.length, features))
        tile = self.normal(base, place, (1, self.length // self.tiles, features))
        return tile.repeat(1, self.tiles, 1)

    def loss(self, model, *place):
        return (model(self.rows(1_000_000, place, 4)) - self.rows(2_000_000, place, 1)).pow(2).mean()


SCENARIOS = {
    "reentrant-checkpoint-under-ddp": ReentrantCheckpoint,
    "recomputed-tile-draws-another-dropout-mask": AnotherMask,
    "tiled-backward-fires-hooks-per-tile": HooksPerTile,
    SUMMED: HooksPerTile,
    ROUTED: HooksPerTile,
    "tiled-parameter-absent-from-last-tile": AbsentFromLastTile,
    "tiled-input-needs-no-gradient": InputNeedsNoGradient,
    "tiled-gradient-accumulator-under-ddp": AccumulatorUnderDdp,
}
