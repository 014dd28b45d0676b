#include "harness/record/stall.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/rank_stack.h"
#include "harness/record/whole_file.h"
#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"
#include "reports/base/secrets.h"
#include "reports/record/limits.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLargestStall = 1 << 26;
constexpr double kLongestLimit = 1e9;  // seconds, whose nanoseconds are a number of 64 bits

fs::path stall_file(const fs::path& folder) { return folder / "stall.json"; }

StalledRank rank_in(const Json& json) {
  const auto state = parse<StalledState>(json.at("state").get<std::string>());
  if (!state) throw std::out_of_range("state");
  StalledRank rank{whole_number<int>(json, "rank"), *state,
                   whole_number<std::int64_t>(json, "steps"),
                   mask_secrets(json.at("place").get<std::string>())};
  rank.awaits_message = json.at("awaits_message");
  rank.collectives = whole_numbers<std::int64_t>(json, "collectives");
  rank.stack = stack_in(json.at("stack"));
  return rank;
}

Stall stall_in(const Json& json) {
  Stall stall;
  stall.seen_ns = whole_number<std::int64_t>(json, "seen_ns");
  stall.limit_s = json.at("limit_s");
  stall.request = whole_number<std::uint32_t>(json, "request");
  stall.world_size = whole_number<int>(json, "world_size");
  stall.is_open = json.at("is_open");
  stall.is_over = json.at("is_over");
  const bool is_time = stall.seen_ns >= 0 && stall.limit_s >= 0 && stall.limit_s <= kLongestLimit;
  if (!is_time) throw std::out_of_range("seen_ns or limit_s");
  if (stall.world_size < 0 || stall.world_size > kMostRanksOfRecord) {
    throw std::out_of_range("world_size");
  }
  for (const Json& one : json.at("ranks")) {
    stall.ranks.push_back(rank_in(one));
    const int rank = stall.ranks.back().rank;
    if (rank < 0 || rank >= stall.world_size) throw std::out_of_range("rank");
  }
  return stall;
}

}  // namespace

bool Stall::has_waiting() const {
  return is_open || std::ranges::any_of(ranks, &StalledRank::awaits_message);
}

void write_stall(const fs::path& folder, const Stall& stall) {
  Json ranks = Json::array();
  for (const StalledRank& one : stall.ranks) {
    ranks.push_back({{"rank", one.rank},
                     {"state", name(one.state)},
                     {"steps", one.steps},
                     {"place", one.place},
                     {"awaits_message", one.awaits_message},
                     {"collectives", one.collectives},
                     {"stack", one.stack}});
  }
  const Json json = {{"seen_ns", stall.seen_ns},
                     {"limit_s", stall.limit_s},
                     {"request", stall.request},
                     {"world_size", stall.world_size},
                     {"is_open", stall.is_open},
                     {"is_over", stall.is_over},
                     {"ranks", ranks}};
  write_whole_file(stall_file(folder),
                   json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<Stall> read_stall(const fs::path& folder) {
  const fs::path path = stall_file(folder);
  if (!fs::exists(path)) return {};
  try {
    return stall_in(Json::parse(read_text(path.string(), kLargestStall)));
  } catch (const std::exception& error) {
    throw malformed(path.string(), 0, 0, "what `lockstep watch` writes", error.what());
  }
}

}  // namespace lockstep
