// Preloaded, it reports another torch release than Lockstep was built with.

#include <cstdint>

extern "C" std::uint64_t aoti_torch_abi_version() { return 99ULL << 56 | 1ULL << 48; }
