#include "harness/record/rank_exit.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "harness/record/whole_file.h"
#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

void write_json(const fs::path& file, const OrderedJson& json) {
  write_whole_file(file, json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

/// Result of `parse` for the file; empty if the file is missing.
template <class Parse>
auto read_file(const fs::path& file, const char* expected, const Parse& parse)
    -> std::optional<decltype(parse(OrderedJson()))> {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  const std::string text = read_text(file, kLargestStatus);
  try {
    return parse(OrderedJson::parse(text));
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw malformed(file.string(), 0, 0, expected, text);
  }
}

constexpr const char* kExitFields =
    "the end of a rank (process, rank, world_size, launcher, host, kind, cause, code, detail, "
    "ended_s, "
    "ended_ns) in JSON";

}  // namespace

fs::path rank_exit_file(const fs::path& folder, int rank) {
  return folder / fmt::format("rank-{}.exit.json", rank);
}

fs::path rank_here_file(const fs::path& folder, int rank) {
  return folder / fmt::format("rank-{}.here", rank);
}

void write_rank_exit(const fs::path& folder, const LaunchedExit& exit) {
  OrderedJson json = {{"process", exit.process},
                      {"rank", exit.end.rank},
                      {"world_size", exit.world_size},
                      {"launcher", exit.launcher},
                      {"host", exit.host},
                      {"kind", name(exit.end.kind)},
                      {"cause", name(exit.end.cause)},
                      {"code", exit.end.code},
                      {"detail", exit.end.detail},
                      {"ended_s", exit.ended_s},
                      {"ended_ns", exit.end.ended_ns.value_or(0)}};
  if (exit.end.limit_s) json["limit_s"] = *exit.end.limit_s;
  write_json(rank_exit_file(folder, exit.end.rank), json);
}

std::optional<LaunchedExit> read_rank_exit(const fs::path& folder, int rank) {
  const fs::path file = rank_exit_file(folder, rank);
  return read_file(file, kExitFields, [&](const OrderedJson& json) {
    LaunchedExit exit;
    const OrderedJson& word = json.at("kind");
    const auto kind = parse<ExitKind>(word.get<std::string>());
    const auto cause = parse<ExitCause>(json.at("cause").get<std::string>());
    if (!kind) throw malformed(file.string(), 0, 0, kExitFields, word.dump());
    if (!cause) throw malformed(file.string(), 0, 0, kExitFields, json.at("cause").dump());
    exit.process = json.at("process").get<std::string>();
    exit.end.rank = whole_number<int>(json, "rank");
    if (exit.end.rank != rank) {
      throw malformed(file.string(), 0, 0, fmt::format("rank {}", rank),
                      fmt::to_string(exit.end.rank));
    }
    exit.end.kind = *kind;
    exit.end.cause = *cause;
    exit.end.code = whole_number<int>(json, "code");
    exit.end.detail = json.at("detail").get<std::string>();
    exit.world_size = whole_number<int>(json, "world_size");
    exit.launcher = json.at("launcher").get<std::string>();
    exit.host = json.at("host").get<std::string>();
    exit.ended_s = json.at("ended_s").get<double>();
    exit.end.ended_ns = whole_number<std::int64_t>(json, "ended_ns");
    if (json.contains("limit_s")) exit.end.limit_s = json.at("limit_s").get<double>();
    return exit;
  });
}

fs::path world_file(const fs::path& folder) { return folder / "world.json"; }

void write_world(const fs::path& folder, const World& world) {
  write_json(world_file(folder),
             {{"host", world.host}, {"port", world.port}, {"token", world.token}});
}

std::optional<World> read_world(const fs::path& folder) {
  return read_file(world_file(folder), "the rendezvous (host, port, token) in JSON",
                   [](const OrderedJson& json) {
                     return World{json.at("host").get<std::string>(),
                                  whole_number<int>(json, "port"),
                                  json.at("token").get<std::string>()};
                   });
}

}  // namespace lockstep
