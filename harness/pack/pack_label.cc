#include "harness/pack/pack_label.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kLargestLabel = 1 << 20;
constexpr std::string_view kSchema = "lockstep.pack";
constexpr std::string_view kVersion = "1.0";

PackLabel label_in(const nlohmann::json& json) {
  const auto contents = parse<PackContents>(json.at("contents").get<std::string>());
  if (!contents) throw std::out_of_range("contents");
  return {*contents, whole_number<std::size_t>(json, "masked_names")};
}

}  // namespace

std::string render_label(const PackLabel& label) {
  const nlohmann::ordered_json json = {{"schema", kSchema},
                                       {"version", kVersion},
                                       {"contents", name(label.contents)},
                                       {"masked_names", label.masked_names}};
  return json.dump(2) + "\n";
}

std::optional<PackLabel> read_label(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kPackLabel;
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_text(path, kLargestLabel);
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("schema") != kSchema) throw std::out_of_range("schema");
    const nlohmann::json version = json.value("version", nlohmann::json(""));
    if (version == kVersion) return label_in(json);
    throw other_version(path.string(), "a pack",
                        version.is_string() ? version.get<std::string>() : version.dump(),
                        kVersion);
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw malformed(path.string(), 0, 0, "what 'lockstep pack' writes", text);
  }
}

}  // namespace lockstep
