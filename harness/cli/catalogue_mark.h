#pragma once

/// What a program with scenarios says of itself in its file, so that `lockstep` knows it before it
/// becomes it: the loader may end it before it can say anything. Fields, one a line, follow the
/// word; a character of value 0 ends it.
///   lockstep=0.1.0      the version of Lockstep that it was built with
///   torch=2.11.0+cpu    and of torch
///   library=PATH        where that torch has libtorch_cpu.so
#define LOCKSTEP_CATALOGUE_MARK "lockstep catalogue mark\n"
