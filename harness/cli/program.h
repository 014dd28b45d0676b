#pragma once

namespace lockstep {

/// The program `lockstep` on the scenarios of `registry()`: arguments in, text and exit status out.
/// Catches every Error and prints it as one sentence on standard error.
int run_program(int argc, char** argv);

}  // namespace lockstep
