#include "harness/record/rank_end.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/whole_file.h"
#include "harness/record/whole_number.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

std::filesystem::path rank_statement_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.end.json", rank);
}

void write_rank_statement(const std::filesystem::path& file, const RankStatement& statement) {
  using Json = nlohmann::ordered_json;
  Json json = {{"step", statement.step},        {"line", statement.line},
               {"ended", statement.ended},      {"raised", statement.raised},
               {"is_own", statement.is_own},    {"error", statement.error},
               {"cause", name(statement.cause)}};
  if (statement.step_s) json["step_s"] = *statement.step_s;
  if (statement.rows) json["rows"] = *statement.rows;
  if (statement.step_began_ns) json["step_began_ns"] = *statement.step_began_ns;
  if (statement.rendezvous) json["rendezvous"] = name(*statement.rendezvous);
  // A framework's error may hold any bytes; a statement is written whatever they are.
  write_whole_file(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

namespace {

constexpr const char* kStatementFields =
    "a rank's statement (step, line, ended, raised, is_own, error, cause) in JSON";

}  // namespace

RankStatement read_rank_statement(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  const std::string text = read_text(file, kLargestStatement);
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    RankStatement statement{whole_number<std::int64_t>(json, "step"),
                            whole_number<int>(json, "line"),
                            json.at("ended").get<bool>(),
                            json.at("raised").get<bool>(),
                            json.at("is_own").get<bool>(),
                            json.at("error").get<std::string>()};
    const auto cause = parse<ExitCause>(json.at("cause").get<std::string>());
    if (!cause) throw std::out_of_range("cause");
    statement.cause = *cause;
    if (json.contains("step_s")) statement.step_s = json.at("step_s").get<double>();
    if (json.contains("rows")) statement.rows = whole_number<std::int64_t>(json, "rows");
    if (json.contains("step_began_ns")) {
      statement.step_began_ns = whole_number<std::int64_t>(json, "step_began_ns");
    }
    if (json.contains("rendezvous")) {
      statement.rendezvous = parse<RendezvousState>(json.at("rendezvous").get<std::string>());
      if (!statement.rendezvous) throw std::out_of_range("rendezvous");
    }
    return statement;
  } catch (const std::exception&) {
    throw malformed(file.string(), 0, 0, kStatementFields, text);
  }
}

}  // namespace lockstep
