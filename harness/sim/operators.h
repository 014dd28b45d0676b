#pragma once

namespace lockstep::sim {

/// Registers the operators of virtual devices with torch's dispatcher. Call once per process.
void register_operators();

}  // namespace lockstep::sim
