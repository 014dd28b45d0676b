#pragma once

#include <string>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// Whether ranks saw the same samples, by the digests of `watch --data`: "ranks 0,1 saw the same
/// samples in each of the first 4 steps". Meant for ranks of one tensor-parallel
/// group, else a sign that the data is not divided between ranks. Empty: no two ranks did so in
/// every step, or no data was observed. Reads up to eight steps.
std::string shared_samples_in_words(const StepReader& evidence);

}  // namespace lockstep
