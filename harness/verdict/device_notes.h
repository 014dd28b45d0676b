#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// What a user would want to know of the devices that hold a job's parameters: "ranks 0,1 hold
/// parameters on one GPU ..."; "rank 1 holds head.weight on cpu, ranks 0,2 on cuda". Both may be
/// meant, and explain memory, time, or a hang of NCCL. `are_copies`: each rank holds all
/// parameters, so that one which it does not list is where most of its own are.
std::vector<std::string> device_notes(const std::vector<DeviceUse>& devices, bool are_copies);

}  // namespace lockstep
