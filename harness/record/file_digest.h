#pragma once

#include <cstdint>

#include "harness/record/digest.h"
#include "reports/base/regular_file.h"

namespace lockstep {

/// The digest of `size` bytes of a file from `begin` on, as of a tensor of that size. Reads a few
/// MiB at a time. Requires: they lie within the file. Throws Error (usage) like
/// `RegularFile::read`.
Digest digest_of(const RegularFile& file, std::uint64_t begin, std::uint64_t size);

}  // namespace lockstep
