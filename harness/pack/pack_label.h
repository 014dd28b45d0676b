#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "reports/base/names.h"

namespace lockstep {

/// What a pack holds of a run.
///   files      its record and the files that a report needs
///   findings   its record alone, with the results of its last judgement
enum class PackContents { files, findings };

template <>
struct Names<PackContents> {
  static constexpr std::array<std::string_view, 2> values{"files", "findings"};
};

/// The member `pack.json` of a pack (docs/formats.md, "Pack"). The folder of an unpacked pack has
/// it, too.
struct PackLabel {
  PackContents contents = PackContents::files;
  std::size_t masked_names = 0;  ///< by --redact
};

/// The name of the member.
inline constexpr const char* kPackLabel = "pack.json";

/// The text of the file.
std::string render_label(const PackLabel& label);

/// Empty for a folder that is no unpacked pack. Throws Error (usage) if the file is malformed or of
/// another version.
std::optional<PackLabel> read_label(const std::filesystem::path& folder);

}  // namespace lockstep
