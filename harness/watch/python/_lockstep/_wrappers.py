"""Parameters whose gradients no wrapper reduces: DistributedDataParallel was bypassed, or does not know of them.
Reads torch's wrappers and changes none; only once nothing was reduced in a step, the next forward passes are
looked at."""

import weakref

from _lockstep._objects import objects_of, type_of
from _lockstep._stalls import place_of_caller

_MOST_NAMES = 4096  # of parameters in all facts of a rank
_MOST_PROBES = 3  # steps of a wrapper whose forward passes are looked at
_MOST_FORWARDS = 64  # of these
_MOST_ELEMENTS = 2**24  # of gradients, to ask a reducer for its parameters: it makes a copy of their size


class _Wrapper:
    """A DistributedDataParallel. `owned`: ids of its parameters when it was made; `ignored`: of those that it is to
    leave out."""

    def __init__(self, ddp):
        self.reference = weakref.ref(ddp)
        self.owned = {id(parameter) for parameter in getattr(ddp, "_module_parameters", ddp.module.parameters())}
        names = getattr(ddp, "parameters_to_ignore", ())
        self.ignored = {id(parameter) for name, parameter in ddp.module.named_parameters() if name in names}
        self.first = self.last = 0  # steps in which it reduced nothing
        self.was_silent = False  # nothing at all was reduced in one of these
        self.is_over = False  # something was reduced since then
        self.reason = self.place = ""
        self.forwards = []  # that the probe saw: whether by the wrapper, whether in no_sync, place
        self.is_inside = False  # its own forward calls that of the module next
        self.probes = 0  # steps whose forward passes were looked at

    def begins_at(self, step):
        """The first step in which it reduced nothing, if it was seen in `step`. Before the first one collectives make
        the model equal; the reducer counts the forward passes that it reduces, but for the last one, so the first
        step may be one of these."""
        if self.first or step > 2:
            return self.first or step
        try:
            counted = self.reference().logger._get_ddp_logging_data().ints_map.get("iteration", 0)
        except Exception:  # of private functions of torch
            return step
        return step if counted else 1

    def look(self, step, is_silent):
        """Of a step that begins. `is_silent`: None: unknown, as in the first step."""
        if self.reference() is None or self.is_over:
            return
        has_begun = getattr(self.reference(), "_lazy_init_ran", True)
        if is_silent or is_silent is None and not has_begun:
            self.first, self.last = self.begins_at(step), step
            self.was_silent = self.was_silent or bool(is_silent)
        elif self.was_silent:
            self.is_over = True
        else:  # the training reduces by itself
            self.first, self.last, self.reason = 0, 0, ""

    def wants_probe(self):
        return bool(self.first) and not self.is_over and not self.reason and self.probes < _MOST_PROBES

    def classify(self):
        """What the forward passes of a step say that reduced nothing."""
        if not self.forwards:
            self.reason = "bypassed"
        elif not any(is_own for is_own, _, _ in self.forwards):
            self.reason, self.place = "bypassed", self.forwards[0][2]
        elif all(is_in_no_sync for is_own, is_in_no_sync, _ in self.forwards if is_own):
            self.reason = "no_sync"
            self.place = next(place for is_own, _, place in self.forwards if is_own)


class Wrappers:
    def __init__(self, torch):
        self._torch = torch
        self._wrappers = []
        self._probe = None  # a handle
        self._step = 0
        self._facts = []  # pairs of a fact and the wrapper that it is about, if it is one; the training may be gone
        self._looks_at = 1  # the step before which the parameters are looked at next

    def before_step(self, step, is_silent, parameters):
        """An optimizer's step begins. `is_silent`: no collective was called since the one before; None: unknown.
        `parameters`: gives pairs of tensor and name of all optimizers. Raises nothing: without these facts a cause
        is not told."""
        try:
            self._step = step
            if step >= self._looks_at:
                self._find()
            self._look_at_forwards(step, is_silent)
            if step >= self._looks_at:
                self._looks_at = 2 * step
                self._facts = self._facts_of(parameters())
        except Exception:  # of a wrapper with odd attributes
            self._wrappers, self._facts, self._looks_at = [], [], float("inf")

    def _look_at_forwards(self, step, is_silent):
        self._end_probe()
        for wrapper in self._wrappers:
            wrapper.look(step, is_silent)
        if any(wrapper.wants_probe() for wrapper in self._wrappers):
            self._begin_probe()

    def end(self):
        if self._probe is not None:
            self._probe.remove()
            self._probe = None

    def _find(self):
        """Adds wrappers that were made since the last time."""
        ddp_type = type_of("torch.nn.parallel.distributed", "DistributedDataParallel")
        known = {id(wrapper.reference()) for wrapper in self._wrappers}
        for ddp in objects_of(ddp_type) if ddp_type is not None else []:
            if id(ddp) not in known and getattr(ddp, "module", None) is not None and self._ranks_of(ddp) > 1:
                self._wrappers.append(_Wrapper(ddp))

    @staticmethod
    def _ranks_of(ddp):
        try:
            return ddp.process_group.size()
        except Exception:  # its group was destroyed
            return 1

    # Forward passes.

    def _begin_probe(self):
        torch = self._torch
        for wrapper in self._wrappers:
            wrapper.forwards, wrapper.is_inside = [], False
            wrapper.probes += 1

        def hook(module, args):
            try:
                if not torch.compiler.is_compiling() and torch.is_grad_enabled():
                    self._see_forward(module)
            except Exception:  # the job must not notice: such as of a folder that is gone, for the line
                pass

        self._probe = torch.nn.modules.module.register_module_forward_pre_hook(hook)

    def _see_forward(self, module):
        for wrapper in self._wrappers:
            ddp = wrapper.reference()
            if len(wrapper.forwards) == _MOST_FORWARDS:
                continue
            if ddp is not None and module is ddp:
                wrapper.is_inside = True
                wrapper.forwards.append((True, not ddp.require_backward_grad_sync, place_of_caller()))
            elif ddp is not None and module is ddp.module:
                if not wrapper.is_inside:
                    wrapper.forwards.append((False, False, place_of_caller()))
                wrapper.is_inside = False

    def _end_probe(self):
        if self._probe is None:
            return
        self.end()
        for wrapper in self._wrappers:
            if wrapper.first and not wrapper.is_over and not wrapper.reason:
                wrapper.classify()
                self._looks_at = self._step

    # Facts.

    def facts(self):
        """Of the steps so far; last step 0: it goes on."""
        return [{**fact, "first_step": wrapper.first if wrapper else 1,
                 "last_step": wrapper.last if wrapper and wrapper.is_over else 0} for fact, wrapper in self._facts
                if wrapper is None or wrapper.first]  # else it has reduced since then

    def _facts_of(self, parameters):
        parameters = [(tensor, name) for tensor, name in parameters if tensor.requires_grad]
        room, facts = _MOST_NAMES, []
        for fact, wrapper in self._facts_of_wrappers(parameters) + self._facts_of_shards(parameters):
            room -= len(fact["parameters"])
            if fact["parameters"] and room >= 0:
                facts.append((fact, wrapper))
        return facts

    def _facts_of_wrappers(self, parameters):
        living = [wrapper for wrapper in self._wrappers if wrapper.reference() is not None]
        if not living:
            return []
        facts = [self._fact(wrapper.reason, [name for tensor, name in parameters if id(tensor) in wrapper.owned],
                            wrapper)
                 for wrapper in living if wrapper.first and wrapper.reason]
        owned = set().union(*(wrapper.owned | wrapper.ignored for wrapper in living))
        inside = {id(parameter) for wrapper in living for parameter in wrapper.reference().module.parameters()}
        others = [(tensor, name) for tensor, name in parameters if id(tensor) not in owned]
        unfrozen = set().union(*(self._unfrozen(wrapper.reference()) for wrapper in living))
        return facts + [
            self._fact("added_after", [name for tensor, name in others if id(tensor) in inside]),
            self._fact("outside", [name for tensor, name in others if id(tensor) not in inside]),
            self._fact("unfrozen_after", [name for tensor, name in parameters if id(tensor) in unfrozen])]

    @staticmethod
    def _fact(reason, names, wrapper=None, engine="DDP"):
        return {"reason": reason, "wrapper": engine, "place": wrapper.place if wrapper else "",
                "parameters": sorted(names)}, wrapper

    def _unfrozen(self, ddp):
        """Ids of its parameters that require a gradient, and did not when it was made."""
        now = [parameter for parameter in getattr(ddp, "_module_parameters", []) if parameter.requires_grad]
        try:
            if len(now) <= ddp.logger._get_ddp_logging_data().ints_map["num_parameter_tensors"]:
                return set()
            if sum(parameter.numel() for parameter in now) > _MOST_ELEMENTS:
                return set()
            reduced = {id(parameter) for bucket in ddp.reducer._get_zeros_like_grad_buckets()
                       for parameter in bucket.parameters()}
        except Exception:  # of private functions of torch
            return set()
        return {id(parameter) for parameter in now} - reduced

    def _facts_of_shards(self, parameters):
        """Of fully_shard: plain parameters in none of its modules. Those inside it was told to ignore."""
        fsdp_type = type_of("torch.distributed.fsdp", "FSDPModule")
        modules = objects_of(fsdp_type) if fsdp_type is not None else []
        if not modules:
            return []
        inside = {id(parameter) for module in modules for parameter in module.parameters()}
        plain = [name for tensor, name in parameters if id(tensor) not in inside]
        return [self._fact("outside", plain, engine="fully_shard")]
