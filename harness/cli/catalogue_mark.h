#pragma once

/// A program with scenarios contains this mark, so that `lockstep` can read its versions without
/// starting it: the loader may end it before it prints anything. Fields follow, one per line; a
/// character of value 0 ends them.
///   lockstep=0.1.0      the version of Lockstep that it was built with
///   torch=2.11.0+cpu    and of torch
///   library=PATH        the path of libtorch_cpu.so in that torch; in a wheel, relative to the
///                       folder of the program
#define LOCKSTEP_CATALOGUE_MARK "lockstep catalogue mark\n"
