"""The hook of `lockstep watch`, and what `lockstep.watch()` starts. Its name is private, so that a job may have
a module `lockstep` of its own."""
