#pragma once

#include "reports/record/run_record.h"

namespace lockstep {

/// The record with all of its texts masked (reports/base/secrets.h). Names of tensors, groups and
/// folders stay, unless they have the shape of a secret. Every renderer shows this, and every
/// record is written and read so.
RunRecord without_secrets(RunRecord run);

}  // namespace lockstep
