#include "harness/record/rank_status.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/whole_file.h"
#include "harness/record/whole_number.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"
#include "reports/base/secrets.h"

namespace lockstep {

std::filesystem::path rank_status_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.status.json", rank);
}

void write_rank_status(const std::filesystem::path& file, const RankStatus& status) {
  nlohmann::ordered_json json = {{"process", status.process},
                                 {"step", status.step},
                                 {"line", status.line},
                                 {"ended", status.ended},
                                 {"raised", status.raised},
                                 {"is_own", status.is_own},
                                 {"error", mask_secrets(status.error)},
                                 {"cause", name(status.cause)}};
  if (status.step_s) json["step_s"] = *status.step_s;
  if (status.rows) json["rows"] = *status.rows;
  if (status.step_began_ns) json["step_began_ns"] = *status.step_began_ns;
  if (status.rendezvous) json["rendezvous"] = name(*status.rendezvous);
  // A framework's error may hold any bytes, and the status must still be written.
  write_whole_file(file, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

namespace {

constexpr const char* kStatusFields =
    "a rank's status (process, step, line, ended, raised, is_own, error, cause) in JSON";

}  // namespace

RankStatus read_rank_status(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  const std::string text = read_text(file, kLargestStatus);
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    RankStatus status{whole_number<std::int64_t>(json, "step"),
                      whole_number<int>(json, "line"),
                      json.at("ended").get<bool>(),
                      json.at("raised").get<bool>(),
                      json.at("is_own").get<bool>(),
                      mask_secrets(json.at("error").get<std::string>())};
    const auto cause = parse<ExitCause>(json.at("cause").get<std::string>());
    if (!cause) throw std::out_of_range("cause");
    status.cause = *cause;
    status.process = json.at("process").get<std::string>();
    if (json.contains("step_s")) status.step_s = json.at("step_s").get<double>();
    if (json.contains("rows")) status.rows = whole_number<std::int64_t>(json, "rows");
    if (json.contains("step_began_ns")) {
      status.step_began_ns = whole_number<std::int64_t>(json, "step_began_ns");
    }
    if (json.contains("rendezvous")) {
      status.rendezvous = parse<RendezvousState>(json.at("rendezvous").get<std::string>());
      if (!status.rendezvous) throw std::out_of_range("rendezvous");
    }
    return status;
  } catch (const std::exception&) {
    throw malformed(file.string(), 0, 0, kStatusFields, text);
  }
}

}  // namespace lockstep
