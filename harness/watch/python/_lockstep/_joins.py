"""A rank whose data ends before that of others: in torch's Join it goes along with their collectives, and trains no
more until all have ended. The steps of the others count on it, too, so that later ones have the same numbers."""

_MOST = 1000  # that are noted


class Joins:
    """Of one rank, for its outermost Join at a time. A step is a forward pass whose gradients are reduced."""

    def __init__(self):
        self._context = None  # a Join, and
        self._begin = 0  # the last step before it
        self._rounds = 0  # such passes of this rank in it
        self._missed = 0  # such passes of others since this rank has ended its data
        self._knows_steps = False  # in the last one each such pass of this rank was a step
        self.is_joined = False  # now: others train, and this rank does not
        self.is_lost = False  # how many steps the others trained meanwhile is unknown
        self._facts = []

    def facts(self):
        """`until`: the last step of the others; 0: they train on, or it is unknown."""
        return self._facts

    def enter(self, context, step):
        """`step`: the present one."""
        if self._context is None and context._enable:
            self._context, self._begin, self._rounds, self._missed = context, step, 0, 0

    def see_round(self, joinable):
        """This rank told the others that it goes on."""
        if self._context is not None:
            self._rounds += bool(getattr(joinable, "require_backward_grad_sync", True))

    def follow(self, context, begin):
        """This rank is about to wait for the others. `begin`: is called once if one of them still trains."""
        if context is not self._context:
            return
        hook = context._join_hooks[0]
        shadow = hook.main_hook

        def main_hook():
            if not self.is_joined:
                self.is_joined = True
                begin()
            shadow()
            ddp = getattr(hook, "ddp", None)  # it has learned of the others whether they reduce
            self._missed += bool(getattr(ddp, "require_forward_param_sync", True))

        hook.main_hook = main_hook

    def note_begin(self, step):
        """`step`: the last one of this rank."""
        if self._rounds:
            self._knows_steps = step - self._begin == self._rounds
        self.is_lost = not self._knows_steps or len(self._facts) == _MOST
        self._facts.append({"after": step, "until": 0})

    def leave(self, context, step, has_raised):
        """`step`: the present one; optimizers that are in the Join step with the others. Returns the number of steps
        that the others have trained meanwhile and this rank has not counted; 0: none, or unknown."""
        if context is not self._context:
            return 0
        was_joined, self._context, self.is_joined = self.is_joined, None, False
        if not was_joined:
            return 0
        if has_raised:
            self.is_lost = True
            return 0
        after = self._facts[-1]["after"]
        if step > after:
            self.is_lost = False
        missed = 0 if self.is_lost or step > after else self._missed
        if not self.is_lost:
            self._facts[-1]["until"] = step + missed
        return missed
