#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// The files in the folder of an execution that hold texts as the ranks wrote them: what a hook
/// knows, errors, stacks and outputs. Ascending. None if the folder is missing.
std::vector<std::string> files_of_texts(const std::filesystem::path& folder);

/// Masks secrets in all texts of a document, by the names of its fields, too.
void mask_document(nlohmann::json& document);

/// The text of the file with that name without secrets. What is no document, or nested deeper than
/// 64 levels, is a text. Equal to `text` if there is none.
std::string masked_text_of_file(const std::string& name, const std::string& text);

/// Rewrites those of the files that hold secrets. To be called before the files are sealed, when no
/// rank writes any more. A file above `kLargestTexts` stays as it is. Throws Error (usage) if one
/// cannot be read or written.
void mask_texts_of_ranks(const std::filesystem::path& folder);

/// Bytes of a file of texts that is read whole.
inline constexpr std::uint64_t kLargestTexts = 1 << 26;

/// Objects and lists in each other, of the documents that ranks write.
inline constexpr std::size_t kMostLevelsOfTexts = 8;

}  // namespace lockstep
