"""Which steps of this process are observed."""

_THINNED = 100  # of so many steps one is observed once the history is used up


class ObservedSteps:
    """`watch`: the library's, which knows how many rows were written, and which steps it was told to leave
    out; `note_thinning` is called once the history is used up."""

    def __init__(self, settings, watch, note_thinning):
        self._settings, self._watch, self._note_thinning = settings, watch, note_thinning
        self.thinned_after = 0  # step; 0: all are observed
        self._decided = (0, False)  # the last step of which is known whether it is observed

    def is_due(self, step):
        """Whether a step is observed. Once decided it stays so: its backward passes come before it."""
        if self._decided[0] != step:
            thinned = self._watch.thinned_segments(step) * self._settings.segment_rows()
            if not self.thinned_after and 0 < self._settings.history_rows() < self._watch.rows - thinned:
                self.thinned_after = step - 1
                self._note_thinning()
            self._decided = (step, self._is_asked(step))
        return self._decided[1]

    def _is_asked(self, step):
        asked = self._settings
        every = asked.every * (_THINNED if self.thinned_after else 1)
        return ((step - asked.first) % every == 0 and step >= asked.first
                and not 0 < asked.last < step and self._watch.observes(step))
