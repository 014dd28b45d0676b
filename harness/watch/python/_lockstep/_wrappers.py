"""Parameters whose gradients no wrapper reduces: DistributedDataParallel or DeepSpeed's engine was bypassed, or does not
know of them. Reads the wrappers and changes none; only once nothing was reduced in a step, the next forward passes are
looked at."""

import copy
import weakref

from _lockstep._fully_shard import divided_by, group_of
from _lockstep._objects import objects_of, type_of
from _lockstep._stalls import place_of_caller

_MOST_NAMES = 4096  # of parameters in all facts of a rank
_MOST_PROBES = 3  # steps of a wrapper whose forward passes are looked at
_MOST_FORWARDS = 64  # of these
_MOST_ELEMENTS = 2**24  # of gradients, to ask a reducer for its parameters: it makes a copy of their size


class _Wrapper:
    """What reduces the gradients of the module inside. `owned`: ids of its parameters when it was made; `ignored`: of
    those that it is to leave out."""

    def __init__(self, wrapper, made_at, ranks):
        self.reference, self.module = weakref.ref(wrapper), weakref.ref(wrapper.module)
        self.made_at = made_at
        self.ranks = ranks
        self.owned = {id(parameter) for parameter in wrapper.module.parameters()}
        self.written = set()  # ids of those that were written after it had made them equal, before the first step
        self.ignored = set()
        self.first = self.last = 0  # steps in which it reduced nothing
        self.is_silent = False  # so was the present one
        self.is_over = False  # it reduced something since then
        self.is_repeated = False  # it did so between two of these steps
        self.reason = self.place = ""
        self.inside = frozenset()  # ids of its modules, while the probe looks
        self.forwards = []  # of its own, that the probe saw: whether in no_sync, and the place
        self.bypass = None  # the place of the first forward pass beside it
        self.has_evaluated = False  # a forward pass of its own without gradients, that the probe saw
        self.probes = 0  # steps whose forward passes were looked at

    def look(self, step, is_silent):
        """Of a step that begins. `is_silent`: None: unknown, as in the first step."""
        self.is_silent = self.has_left_out() or bool(is_silent)
        if not self.is_silent:
            self.is_over = bool(self.first)
        else:
            self.is_repeated |= self.is_over
            self.first, self.last, self.is_over = self.begins_at(step), step, False

    def names_of(self, ids, parameters):
        """Of the parameters with these ids that its module has. Ids of those that are gone may be those of others."""
        own = ids & self.present()
        return [name for tensor, name in parameters if id(tensor) in own]

    def present(self):
        """Ids of the parameters that its module has now."""
        module = self.module()
        return {id(parameter) for parameter in module.parameters()} if module is not None else set()

    def wants_probe(self):
        is_open = self.first and not self.reason and self.module() is not None
        return bool(is_open) and self.probes < _MOST_PROBES

    def begin_probe(self):
        module = self.module()
        self.inside = frozenset(map(id, module.modules())) if module is not None else frozenset()
        self.forwards, self.bypass = [], None
        self.probes += 1

    def is_evaluated(self):
        """Whether its forward was called without gradients while it reduced nothing, as far as known."""
        return self.has_evaluated

    def see_forward(self, module, active, has_gradients):
        """`active`: the DistributedDataParallel whose forward is running; None: none is."""
        wrapper = self.reference()
        if not has_gradients:
            self.has_evaluated |= wrapper is not None and module is wrapper
        elif wrapper is not None and module is wrapper:
            if len(self.forwards) < _MOST_FORWARDS:
                self.forwards.append((self.is_in_no_sync(wrapper), place_of_caller()))
        elif self.bypass is None and active is None and id(module) in self.inside:
            self.bypass = place_of_caller(self.inside)

    def classify(self):
        """What the forward passes of a step say that reduced nothing."""
        if not self.forwards and (self.bypass is not None or self.has_never_run()):
            self.reason, self.place = "bypassed", self.bypass or ""
        elif self.forwards and all(is_in_no_sync for is_in_no_sync, _ in self.forwards):
            self.reason, self.place = "no_sync", self.forwards[0][1]


class _Ddp(_Wrapper):
    name = "DDP"

    def __init__(self, ddp, made_at=""):
        super().__init__(ddp, made_at, _ranks_of(ddp))
        self.owned = {id(parameter) for parameter in getattr(ddp, "_module_parameters", ddp.module.parameters())}
        names = getattr(ddp, "parameters_to_ignore", ())
        self.ignored = {id(parameter) for name, parameter in ddp.module.named_parameters() if name in names}
        self._contents = []

    def note_contents(self, ddp):
        """They are the same on all ranks now."""
        self._contents = [(weakref.ref(parameter), _contents_of(parameter))
                          for parameter in getattr(ddp, "_module_parameters", ())]

    def look_at_contents(self, step):
        """Before an optimizer steps, which writes them, too."""
        if step == 1:
            self.written = {id(parameter) for parameter, contents in
                            ((reference(), contents) for reference, contents in self._contents)
                            if parameter is not None and _contents_of(parameter) != contents}
        self._contents = []

    def begins_at(self, step):
        """The first step in which it reduced nothing, if it was seen in `step`. Before the first one collectives make
        the model equal; the reducer counts the forward passes that it reduces, but for the last one, so the first
        step may be one of these."""
        if self.first or step > 2 or self.has_left_out():
            return self.first or step
        try:
            counted = self.reference().logger._get_ddp_logging_data().ints_map.get("iteration", 0)
        except Exception:  # of private functions of torch
            return step
        return step if counted else 1

    def has_left_out(self):
        """Whether its last forward pass was one without a reduction, or there was none."""
        ddp = self.reference()
        return ddp is None or not (getattr(ddp, "_lazy_init_ran", True)
                                   and getattr(ddp, "require_forward_param_sync", True))

    def has_never_run(self):
        return not getattr(self.reference(), "_lazy_init_ran", True)

    def is_evaluated(self):
        return self.has_evaluated or self.first == 1 and getattr(self.reference(), "_lazy_init_ran", False)

    @staticmethod
    def is_in_no_sync(ddp):
        return not ddp.require_backward_grad_sync


class _Engine(_Wrapper):
    """DeepSpeed's. It counts its steps after that of its optimizer, so it has counted none in the first one."""

    name = "DeepSpeed"

    def __init__(self, engine):
        super().__init__(engine, "", getattr(engine, "dp_world_size", 0))
        self._counted = None

    def begins_at(self, step):
        return self.first or (1 if self.has_never_run() else step)

    def has_left_out(self):
        engine, before = self.reference(), self._counted
        if engine is not None:  # one of a pipeline counts whole steps alone
            self._counted = getattr(engine, "global_steps", 0) + getattr(engine, "micro_steps", 0)
        return self._counted == before

    def has_never_run(self):
        return self._counted == 0

    @staticmethod
    def is_in_no_sync(engine):
        return getattr(engine, "inside_no_sync_ctxt", False)


def _contents_of(parameter):
    """Other ones after it was written."""
    return parameter._version, parameter.data_ptr()


def _ranks_of(ddp):
    """In its group."""
    try:
        return ddp.process_group.size()
    except Exception:  # the group was destroyed
        return 0


_made = []  # wrappers as they were made, while their modules live


def note_made(ddp, is_synced):
    """A DistributedDataParallel was made. `is_synced`: whether it made the parameters of all ranks equal. Raises
    nothing."""
    try:
        _made[:] = [wrapper for wrapper in _made if wrapper.module() is not None]
        made = _Ddp(ddp, place_of_caller())
        if is_synced:
            made.note_contents(ddp)
        _made.append(made)
    except Exception:  # of a subclass with odd attributes, or a folder that is gone
        pass


def in_wrappers():
    """Ids of the parameters that living DistributedDataParallels have now."""
    return set().union(*(wrapper.present() for wrapper in _made))


def broadcast_buffers():
    """Ids of the buffers that living DistributedDataParallels broadcast before forward passes."""
    wrappers = [wrapper.reference() for wrapper in _made]
    return {id(buffer) for wrapper in wrappers if getattr(wrapper, "broadcast_buffers", False)
            for buffer in getattr(wrapper, "modules_buffers", ())}


class Wrappers:
    def __init__(self, torch):
        self._torch = torch
        self._wrappers = []
        self._taken = set()  # of those that were noted when they were made
        self._probe, self._probed = None, []  # a handle, and the wrappers that it looks at
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
        for wrapper in self._wrappers:
            wrapper.look(step, is_silent)
        self._end_probe()
        self._probed = [wrapper for wrapper in self._wrappers if wrapper.wants_probe()]
        if self._probed:
            self._begin_probe()

    def end(self):
        if self._probe is not None:
            self._probe.remove()
            self._probe = None

    def _find(self):
        """Adds wrappers that were made since the last time. One that is gone counts while the module inside lives:
        that may be trained alone."""
        found = [copy.copy(made) for made in _made if made not in self._taken]
        self._taken.update(_made)
        known = {id(wrapper.reference()) for wrapper in self._wrappers + found}
        for wrapped, made in ((_ddps(), _Ddp), (_engines_of_deepspeed(), _Engine)):
            found += [made(one) for one in wrapped if id(one) not in known and getattr(one, "module", None) is not None]
        for wrapper in found:
            if isinstance(wrapper, _Ddp):
                wrapper.look_at_contents(self._step)
        if found and self._has_others():
            self._wrappers += [one for one in found if one.ranks > 0 and one.module() is not None]

    def _has_others(self):
        distributed = self._torch.distributed
        return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1

    # Forward passes.

    def _begin_probe(self):
        torch = self._torch
        ddp_type = type_of("torch.nn.parallel.distributed", "DistributedDataParallel")
        for wrapper in self._probed:
            wrapper.begin_probe()

        def hook(module, args):
            try:
                if not torch.compiler.is_compiling():
                    active = getattr(ddp_type, "_active_ddp_module", None)
                    for wrapper in self._probed:
                        wrapper.see_forward(module, active, torch.is_grad_enabled())
            except Exception:  # the job must not notice: such as of a folder that is gone, for the line
                pass

        self._probe = torch.nn.modules.module.register_module_forward_pre_hook(hook)

    def _end_probe(self):
        """Before a step whose forward passes were looked at."""
        if self._probe is None:
            return
        self.end()
        for wrapper in self._probed:
            if wrapper.is_silent:
                wrapper.classify()
                self._looks_at = self._step

    # Facts.

    def facts(self):
        """Of the steps so far; last step 0: it goes on."""
        return [{**fact, "first_step": wrapper.first if wrapper else 1,
                 "last_step": wrapper.last if wrapper and wrapper.is_over else 0,
                 "is_repeated": bool(wrapper and wrapper.is_repeated),
                 "is_evaluated": bool(wrapper and fact["reason"] == "bypassed" and wrapper.is_evaluated())}
                for fact, wrapper in self._facts]

    def _facts_of(self, parameters):
        parameters = [(tensor, name) for tensor, name in parameters if tensor.requires_grad]
        room, facts = _MOST_NAMES, []
        trained = {id(tensor) for tensor, _ in parameters}
        wrappers = [one for one in self._wrappers if not one.present().isdisjoint(trained)]
        shards = _shards_with(trained)
        found = self._facts_of_wrappers(parameters, wrappers) + self._facts_of_shards(parameters, shards)
        engines = _engines_of_deepspeed()
        if engines:  # its own parameters are plain tensors, if it makes some
            inside = _ids_in(engines)
            found.append(_fact("outside", [name for tensor, name in parameters if id(tensor) not in inside
                                           and isinstance(tensor, self._torch.nn.Parameter)], engine="DeepSpeed"))
        elif not wrappers and not shards and self._has_others():
            found = [_fact("unwrapped", [name for _, name in parameters])]
        found += [_fact("written_after", wrapper.names_of(wrapper.written, parameters), wrapper.made_at)
                  for wrapper in wrappers]
        for fact, wrapper in found:
            room -= len(fact["parameters"])
            if fact["parameters"] and room >= 0:
                facts.append((fact, wrapper))
        return facts

    def _facts_of_wrappers(self, parameters, wrappers):
        facts, living = [], [wrapper for wrapper in wrappers if wrapper.reference() is not None]
        for wrapper in wrappers:
            if wrapper not in living and any(one.module() is wrapper.module() for one in living):
                continue  # it was made again
            own = wrapper.names_of(wrapper.owned, parameters)
            if wrapper.ranks == 1:
                facts.append(_fact("group_of_one", own, wrapper.made_at, engine=wrapper.name))
            elif wrapper.first and wrapper.reason:
                facts.append(_fact(wrapper.reason, own, wrapper.place, wrapper, wrapper.name))
            elif wrapper.name == "DDP" and self._is_in_backward():
                facts.append(_fact("in_backward", own, wrapper.made_at))
        living = [wrapper for wrapper in living if isinstance(wrapper, _Ddp)]
        return facts + self._facts_of_unknown(parameters, living) if living else facts

    def _facts_of_unknown(self, parameters, living):
        """Of parameters that no wrapper knows."""
        owned = set().union(*(wrapper.owned | wrapper.ignored for wrapper in living))
        others = [(tensor, name) for tensor, name in parameters if id(tensor) not in owned]
        facts, inside = [], set()
        for wrapper in living:
            own = wrapper.present()
            unfrozen = self._unfrozen(wrapper.reference())
            facts += [_fact("added_after", [name for tensor, name in others if id(tensor) in own], wrapper.made_at),
                      _fact("unfrozen_after", [name for tensor, name in parameters if id(tensor) in unfrozen],
                            wrapper.made_at)]
            inside |= own
        return [*facts, _fact("outside", [name for tensor, name in others if id(tensor) not in inside],
                              living[0].made_at if len(living) == 1 else "")]

    def _is_in_backward(self):
        """Whether this thread computes gradients, as while an optimizer steps in a hook of a gradient."""
        try:
            return self._torch._C._current_graph_task_id() != -1
        except AttributeError:  # of another torch
            return False

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

    @staticmethod
    def _facts_of_shards(parameters, modules):
        """Of fully_shard: plain parameters in none of its modules, and those that it was told not to reduce. Plain ones
        inside it was told to ignore."""
        if not modules:
            return []
        inside, unreduced = _ids_in(modules), _ids_in(module for module in modules if not _reduces(module))
        return [_fact("outside", [name for tensor, name in parameters if id(tensor) not in inside],
                      engine="fully_shard"),
                _fact("switched_off", [name for tensor, name in parameters if id(tensor) in unreduced],
                      engine="fully_shard")]


def _fact(reason, names, place="", wrapper=None, engine="DDP"):
    """And the wrapper whose steps it is about; None: it holds in all."""
    return {"reason": reason, "wrapper": engine, "place": place, "parameters": sorted(names)}, wrapper


def _shards_with(trained):
    """The modules of FSDP, if some of their parameters are trained: those of fully_shard, and of FSDP1, which has all
    parameters inside."""
    modules = [module for name in ("FSDPModule", "FullyShardedDataParallel")
               for module in _all_of("torch.distributed.fsdp", name)]
    return modules if not trained.isdisjoint(_ids_in(modules)) else []


def _all_of(module, name):
    """The objects of a type, if the training has imported it."""
    found = type_of(module, name)
    return objects_of(found) if found is not None else []


def _ddps():
    return _all_of("torch.nn.parallel.distributed", "DistributedDataParallel")


def _engines_of_deepspeed():
    return _all_of("deepspeed.runtime.engine", "DeepSpeedEngine")


def _ids_in(modules):
    """Ids of their parameters, also of those in whose place fully_shard has put gathered ones for now."""
    ids = set()
    for module in modules:
        ids.update(id(parameter) for parameter in module.parameters())
        ids.update(id(parameter) for parameter in divided_by(module))
    return ids


def _reduces(module):
    """Whether the gradients of its own parameters are reduced in backward passes, as it was told last."""
    try:
        group = group_of(module)
        return group is None or group.reduce_grads and group.all_reduce_grads
    except AttributeError:  # of private attributes of torch
        return True
