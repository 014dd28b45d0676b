#include "harness/record/texts_of_ranks.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "harness/record/flat_json.h"
#include "harness/record/rank_files.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"
#include "reports/base/secrets.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

void mask(Json& json, const std::string& name) {
  if (json.is_string()) json = mask_value(name, json.get<std::string>());
  if (json.is_array()) {
    for (Json& one : json) mask(one, name);
  }
  if (json.is_object()) {
    for (auto& [key, one] : json.items()) mask(one, key);
  }
}

bool holds_texts(std::string_view name) {
  const bool is_of_rank = name.starts_with("rank-");
  const bool is_of_process = name.starts_with("process-") && name.ends_with(".error.json");
  return is_of_process || name == "stall.json" || name == "launcher.log" ||
         (is_of_rank && (name.ends_with(".log") ||
                         std::any_of(kEndingsOfTexts.begin(), kEndingsOfTexts.end(),
                                     [&](std::string_view one) { return name.ends_with(one); })));
}

/// The document that a rank wrote; none: it is another text.
std::optional<Json> document_in(const std::string& text, const std::string& name) {
  try {
    return parse_flat_json(text, name, "the document", kMostLevelsOfTexts);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> files_of_texts(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    std::string name = entry.path().filename();
    if (holds_texts(name)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

void mask_document(Json& document) { mask(document, ""); }

std::string masked_text_of_file(const std::string& name, const std::string& text) {
  auto json = name.ends_with(".json") ? document_in(text, name) : std::nullopt;
  if (!json) return mask_secrets(text);
  const Json before = *json;
  mask_document(*json);
  return *json == before ? text : json->dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void mask_texts_of_ranks(const fs::path& folder) {
  for (const std::string& name : files_of_texts(folder)) {
    const fs::path file = folder / name;
    std::error_code failure;
    const bool is_file = fs::is_regular_file(fs::symlink_status(file, failure));
    if (!is_file || fs::file_size(file, failure) > kLargestTexts) continue;
    const std::string text = read_text(file.string(), kLargestTexts);
    const std::string masked = masked_text_of_file(name, text);
    if (masked != text) write_whole_file(file, masked);
  }
}

}  // namespace lockstep
