"""A tiled function in Python: recomputed tile by tile in backward.

Does the same as harness/train/autograd/tiled, with torch.autograd alone.
"""

import contextlib
import threading
import typing

import torch


class Tiling(typing.NamedTuple):
    tiles: int = 1
    backward: str = "per-tile"  # or "grad-but-last", "explicit-inputs"
    sets_aside: bool = False  # gradients of earlier tiles are stored separately from `.grad`
    carries_all_outputs: bool = True
    random: str = "restored"  # or "drawn-anew", "first-for-all": when tiles are recomputed
    restores_autocast: bool = True
    clones_first: bool = False  # copy the first gradient of a parameter, if none is set aside
    accumulator: str = ""  # or "published", "mended": hooks that accumulate, with one backward per
                           # tile


class GradientAccumulator:
    """The class of that name in axolotl's tiled MLP, as it was merged. Or mended: hooks are removed
    before those of the next tile, nothing is divided, and the returned value is not also set."""

    def __init__(self, parameters, tiles, is_mended):
        self.tiles, self.is_mended = tiles, is_mended
        self.parameters, self.hooks, self.lock = parameters, [], threading.Lock()
        self.sums = {}
        for parameter in parameters:
            self.sums[parameter] = torch.zeros_like(parameter)
            if parameter.grad is not None:
                self.sums[parameter] = parameter.grad.to(parameter.dtype)
                parameter.grad = None

    def install_hooks(self, is_last):
        if self.is_mended:
            self.remove_hooks()

        def hook_of(parameter):
            def hook(gradient):
                with self.lock:
                    scale = 1 if self.is_mended else 1 / self.tiles
                    self.sums[parameter] += gradient.to(parameter.dtype) * scale
                    if not is_last:
                        return None
                    whole = self.sums[parameter].to(parameter.dtype)
                    parameter.grad = None if self.is_mended else whole
                    return whole

            return hook

        self.hooks += [parameter.register_hook(hook_of(parameter)) for parameter in self.parameters]

    def remove_hooks(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()


def added(total, more):
    if total is None or more is None:
        return more if total is None else total
    return total + more


class Tiled(torch.autograd.Function):
    @staticmethod
    def split(context, tensor):
        return tensor.flatten(0, -2).tensor_split(context.tiling.tiles)

    @staticmethod
    def forward(context, function, parameters, tiling, whole, *_shown):
        context.set_materialize_grads(False)
        context.function, context.parameters, context.tiling = function, parameters, tiling
        context.save_for_backward(whole)
        context.random, by_tile = [], []
        context.autocast = {
            "enabled": torch.is_autocast_enabled("cpu"),
            "dtype": torch.get_autocast_dtype("cpu"),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        for rows in Tiled.split(context, whole):
            context.random.append(torch.get_rng_state())
            by_tile.append(function(rows))
        outputs = [torch.cat(tiles) for tiles in zip(*by_tile)]
        return tuple(rows.reshape(*whole.shape[:-1], *rows.shape[1:]) for rows in outputs)

    @staticmethod
    def backward(context, *gradients):
        if not context.tiling.carries_all_outputs:
            gradients = gradients[:1]
        shown = len(context.needs_input_grad) - 4
        if all(gradient is None for gradient in gradients):
            return (None,) * (4 + shown)
        backward = {
            "per-tile": Tiled.backward_per_tile,
            "grad-but-last": Tiled.grad_but_last,
            "explicit-inputs": Tiled.explicit_inputs,
        }[context.tiling.backward]
        of_rows, of_parameters = backward(context, list(Tiled.recomputed(context, gradients)))
        (whole,) = context.saved_tensors
        of_whole = None if of_rows[0] is None else torch.cat(of_rows).view_as(whole)
        return (None, None, None, of_whole, *of_parameters)

    @staticmethod
    def recomputed(context, gradients):
        """Per tile: a function that recomputes its rows, then its outputs and their gradients."""
        (whole,) = context.saved_tensors
        by_output = [g if g is None else Tiled.split(context, g) for g in gradients]

        def again(index, rows):
            rows = rows.detach().requires_grad_()
            with Tiled.conditions(context, index), torch.enable_grad():
                outputs = context.function(rows)
            taken = [(o, g[index]) for o, g in zip(outputs, by_output) if g is not None]
            return rows, [output for output, _ in taken], [gradient for _, gradient in taken]

        for index, rows in enumerate(Tiled.split(context, whole)):
            yield lambda index=index, rows=rows: again(index, rows)

    @staticmethod
    @contextlib.contextmanager
    def conditions(context, index):
        """The conditions of a tile's recomputation."""
        tiling = context.tiling
        with contextlib.ExitStack() as stack:
            if tiling.random != "drawn-anew":
                stack.enter_context(torch.random.fork_rng(devices=[]))
                of_tile = 0 if tiling.random == "first-for-all" else index
                torch.set_rng_state(context.random[of_tile])
            if tiling.restores_autocast:
                stack.enter_context(torch.autocast("cpu", **context.autocast))
            yield

    @staticmethod
    def grad(context, tile):
        """Of rows and parameters; no hook runs."""
        rows, outputs, gradients = tile()
        inputs = [rows, *context.parameters]
        of_rows, *more = torch.autograd.grad(outputs, inputs, gradients, allow_unused=True)
        return torch.zeros_like(rows) if of_rows is None else of_rows, more

    @staticmethod
    def run_backward(tile):
        rows, outputs, gradients = tile()
        torch.autograd.backward(outputs, gradients)
        return rows.grad

    @staticmethod
    def taken_out(context):
        taken = [parameter.grad for parameter in context.parameters]
        for parameter in context.parameters:
            parameter.grad = None
        return taken

    @staticmethod
    def accumulated(context, tiles):
        is_mended = context.tiling.accumulator == "mended"
        accumulator = GradientAccumulator(context.parameters, len(tiles), is_mended)
        of_rows = []
        for index, tile in enumerate(tiles):
            accumulator.install_hooks(index + 1 == len(tiles))
            of_rows.append(Tiled.run_backward(tile))
        accumulator.remove_hooks()
        return of_rows, ()

    @staticmethod
    def backward_per_tile(context, tiles):
        if context.tiling.accumulator:
            return Tiled.accumulated(context, tiles)
        if not context.tiling.sets_aside:
            return [Tiled.run_backward(tile) for tile in tiles], ()
        aside, of_rows = Tiled.taken_out(context), []
        for tile in tiles:
            of_rows.append(Tiled.run_backward(tile))
            aside = [added(*pair) for pair in zip(aside, Tiled.taken_out(context))]
        for parameter, gradient in zip(context.parameters, aside):
            parameter.grad = gradient
        return of_rows, ()

    @staticmethod
    def grad_but_last(context, tiles):
        aside = Tiled.taken_out(context) if context.tiling.sets_aside else None
        of_rows = []
        for tile in tiles[:-1]:
            rows, gradients = Tiled.grad(context, tile)
            of_rows.append(rows)
            if aside is not None:
                aside = [added(*pair) for pair in zip(aside, gradients)]
                continue
            for parameter, gradient in zip(context.parameters, gradients):
                if parameter.grad is None:
                    is_cloned = context.tiling.clones_first and gradient is not None
                    parameter.grad = gradient.clone() if is_cloned else gradient
                elif gradient is not None:
                    parameter.grad.add_(gradient)
        if aside is not None and len(tiles) > 1:  # a single tile never puts it back
            for parameter, gradient in zip(context.parameters, aside):
                parameter.grad = gradient
        return [*of_rows, Tiled.run_backward(tiles[-1])], ()

    @staticmethod
    def explicit_inputs(context, tiles):
        of_rows, sums = [], [None] * len(context.parameters)
        for tile in tiles:
            rows, gradients = Tiled.grad(context, tile)
            of_rows.append(rows)
            sums = [added(*pair) for pair in zip(sums, gradients)]
        return of_rows, sums


def tiled(function, parameters, whole, tiling):
    """`function` of rows, returning a tuple; `parameters` are the leaves that it uses."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    shown = trained if tiling.backward == "explicit-inputs" else ()
    return Tiled.apply(function, trained, tiling, whole, *shown)
