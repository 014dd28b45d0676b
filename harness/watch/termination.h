#pragma once

namespace lockstep {

/// An exception of C++ that nobody catches ends the process from now on only after
/// `allow_termination`, or after two seconds: the state that a debugger would see is still there,
/// and another thread can note it. Processes that this one forks end at once. Does nothing where
/// the process has no C++ library of its own; a second call does nothing.
void delay_termination();

/// Whether the process waits for `allow_termination`.
bool is_terminating();

void allow_termination();

}  // namespace lockstep
