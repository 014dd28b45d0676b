#pragma once

namespace lockstep {

/// Torch ends a process whose current folder was removed. Throws Error (usage) there, before torch
/// is loaded.
void require_current_folder();

}  // namespace lockstep
