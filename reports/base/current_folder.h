#pragma once

namespace lockstep {

/// Throws Error (usage) if the current folder was removed, because torch would end the process.
/// Call it before torch is loaded.
void require_current_folder();

}  // namespace lockstep
