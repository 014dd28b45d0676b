#include "harness/job/rank_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/record/flat_json.h"
#include "harness/record/rank_files.h"
#include "harness/record/rank_stack.h"
#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"
#include "reports/base/secrets.h"
#include "reports/record/limits.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kLargestFacts = 1 << 20;

std::vector<CallsPerStep> calls_in(const nlohmann::json& rows) {
  std::vector<CallsPerStep> calls;
  for (const nlohmann::json& row : rows) {
    calls.push_back({whole_number<std::int64_t>(row, "first_step"),
                     whole_number<std::int64_t>(row, "last_step"),
                     whole_number<int>(row, "group_size"),
                     whole_number<std::int64_t>(row, "collectives")});
  }
  return calls;
}

std::vector<Precision> precisions_in(const nlohmann::json& rows) {
  std::vector<Precision> precisions;
  for (const nlohmann::json& row : rows) {
    precisions.push_back(
        {row.at("operation"), row.at("dtype"), whole_number<std::int64_t>(row, "first_step"), {}});
  }
  return precisions;
}

std::vector<Unreduced> unreduced_in(const nlohmann::json& rows) {
  std::vector<Unreduced> unreduced;
  for (const nlohmann::json& row : rows) {
    const auto reason = parse<NoReduction>(row.at("reason").get<std::string>());
    if (!reason) throw std::out_of_range("reason");
    unreduced.push_back({*reason,
                         row.at("wrapper"),
                         mask_secrets(row.at("place").get<std::string>()),
                         whole_number<std::int64_t>(row, "first_step"),
                         whole_number<std::int64_t>(row, "last_step"),
                         {},
                         row.at("parameters"),
                         false,
                         row.value("is_repeated", false),
                         row.value("is_evaluated", false)});
  }
  return unreduced;
}

std::optional<LastCalls> last_calls_in(const nlohmann::json& json) {
  if (json.empty()) return {};
  LastCalls last{{}, whole_number<std::int64_t>(json, "step"), json.at("without_gradient"), {}};
  for (const nlohmann::json& row : json.at("calls")) {
    last.calls.push_back({row.at("operation"), mask_secrets(row.at("place").get<std::string>()),
                          whole_number<std::int64_t>(row, "calls"), row.at("is_of_gradients")});
  }
  return last;
}

std::vector<JoinedRanks> joined_in(const nlohmann::json& rows) {
  std::vector<JoinedRanks> joined;
  for (const nlohmann::json& row : rows) {
    joined.push_back(
        {{}, whole_number<std::int64_t>(row, "after"), whole_number<std::int64_t>(row, "until")});
  }
  return joined;
}

std::vector<Untrained> untrained_in(const nlohmann::json& rows) {
  std::vector<Untrained> untrained;
  for (const nlohmann::json& row : rows) {
    untrained.push_back({row.at("optimizer"),
                         mask_secrets(row.at("place").get<std::string>()),
                         row.at("is_sharded"),
                         whole_number<std::int64_t>(row, "held"),
                         whole_number<std::int64_t>(row, "first_step"),
                         whole_number<std::int64_t>(row, "last_step"),
                         {},
                         row.at("parameters")});
  }
  return untrained;
}

std::vector<BrokenTie> broken_ties_in(const nlohmann::json& rows) {
  std::vector<BrokenTie> ties;
  for (const nlohmann::json& row : rows) {
    ties.push_back({whole_number<std::int64_t>(row, "step"), {}, row.at("parameters")});
  }
  return ties;
}

std::vector<DividedParameters> divided_in(const nlohmann::json& rows) {
  std::vector<DividedParameters> divided;
  for (const nlohmann::json& row : rows) {
    DividedParameters& one = divided.emplace_back();
    one.wrapper = row.at("wrapper");
    one.place = mask_secrets(row.at("place").get<std::string>());
    one.number = whole_number<std::int64_t>(row, "number");
    one.parameters = row.at("parameters");
    one.digests = row.at("digests");
    if (one.parameters.size() != one.digests.size()) {
      throw std::invalid_argument("as many digests as parameters");
    }
  }
  return divided;
}

std::vector<PairedParameters> parameter_orders_in(const nlohmann::json& rows) {
  std::vector<PairedParameters> orders;
  for (const nlohmann::json& row : rows) {
    orders.push_back({row.at("wrapper"),
                      whole_number<std::int64_t>(row, "count"),
                      row.at("names"),
                      row.at("order"),
                      {}});
  }
  return orders;
}

std::vector<DeviceUse> devices_in(const nlohmann::json& rows) {
  std::vector<DeviceUse> devices;
  for (const nlohmann::json& row : rows) {
    devices.push_back({row.at("device"),
                       row.at("id"),
                       whole_number<std::int64_t>(row, "parameters"),
                       {},
                       row.at("names")});
  }
  return devices;
}

std::vector<ScheduleSteps> schedules_in(const nlohmann::json& rows) {
  std::vector<ScheduleSteps> schedules;
  for (const nlohmann::json& row : rows) {
    schedules.push_back({row.at("name"),
                         row.at("optimizer"),
                         whole_number<std::int64_t>(row, "steps"),
                         whole_number<std::int64_t>(row, "step"),
                         {}});
  }
  return schedules;
}

std::vector<SamplerUse> samplers_in(const nlohmann::json& rows) {
  std::vector<SamplerUse> samplers;
  for (const nlohmann::json& row : rows) {
    samplers.push_back({row.at("name"),
                        row.at("place"),
                        whole_number<std::int64_t>(row, "samples"),
                        whole_number<std::int64_t>(row, "parts"),
                        whole_number<std::int64_t>(row, "part"),
                        whole_number<std::int64_t>(row, "seed"),
                        whole_number<std::int64_t>(row, "passes"),
                        whole_number<std::int64_t>(row, "repeats"),
                        {}});
  }
  return samplers;
}

std::vector<FrozenParameter> frozen_in(const nlohmann::json& rows) {
  std::vector<FrozenParameter> frozen;
  for (const nlohmann::json& row : rows) {
    frozen.push_back({row.at("model"),
                      row.at("name"),
                      row.at("first"),
                      row.at("last"),
                      {},
                      row.at("is_buffer")});
  }
  return frozen;
}

std::vector<ReducedMetric> metrics_in(const nlohmann::json& rows) {
  std::vector<ReducedMetric> metrics;
  for (const nlohmann::json& row : rows) {
    metrics.push_back({row.at("name"), row.at("operation"), row.at("value"), row.at("weight"),
                       row.at("reported"), whole_number<std::int64_t>(row, "step")});
  }
  return metrics;
}

std::vector<Arrival> arrivals_in(const nlohmann::json& rows) {
  std::vector<Arrival> arrivals;
  for (const nlohmann::json& row : rows) {
    arrivals.push_back(
        {whole_number<std::int64_t>(row, "step"), whole_number<std::int64_t>(row, "group"),
         whole_number<std::int64_t>(row, "number"), whole_number<std::int64_t>(row, "ns")});
  }
  return arrivals;
}

/// 0: the file does not say it.
template <class Integer>
Integer number_in(const nlohmann::json& json, const char* name) {
  return json.contains(name) ? whole_number<Integer>(json, name) : Integer{0};
}

/// None: the file does not say it.
std::vector<std::int64_t> numbers_in(const nlohmann::json& json, const char* name) {
  if (!json.contains(name)) return {};
  return whole_numbers<std::int64_t>(json, name);
}

std::map<std::string, int> sizes_in(const nlohmann::json& groups) {
  if (!groups.is_object()) throw std::out_of_range("groups");
  std::map<std::string, int> sizes;
  for (const auto& [name, size] : groups.items())
    sizes[name] = as_whole_number<int>(size, "groups");
  return sizes;
}

std::map<std::string, std::string> settings_in(const nlohmann::json& json) {
  auto settings = json.get<std::map<std::string, std::string>>();
  for (auto& [name, value] : settings) value = mask_value(name, value);
  return settings;
}

std::map<std::int64_t, std::map<std::string, std::string>> hyperparameters_in(
    const nlohmann::json& rows) {
  std::map<std::int64_t, std::map<std::string, std::string>> hyperparameters;
  for (const nlohmann::json& row : rows) {
    hyperparameters[whole_number<std::int64_t>(row, "step")] = settings_in(row.at("values"));
  }
  return hyperparameters;
}

RankFacts facts_in(const nlohmann::json& json) {
  return {
      .world_size = whole_number<int>(json, "world_size"),
      .torch = json.at("torch"),
      .failure = mask_secrets(json.value("failure", "")),
      .skipped_steps = numbers_in(json, "skipped_steps"),
      .thinned_after = number_in<std::int64_t>(json, "thinned_after"),
      .written_before = numbers_in(json, "written_before"),
      .writes_known_until = number_in<std::int64_t>(json, "writes_known_until"),
      .agree_every = std::max<std::int64_t>(number_in<std::int64_t>(json, "agree_every"), 0),
      .captured_updates = number_in<std::int64_t>(json, "captured_updates"),
      .perturbed = json.contains("perturbed")
                       ? std::optional(whole_number<std::int64_t>(json, "perturbed"))
                       : std::nullopt,
      .calls_in_forward = json.value("calls_in_forward", -1),
      .has_copies = json.value("has_copies", false),
      .has_only_copies = json.value("has_only_copies", false),
      .calls = calls_in(json.value("collectives", nlohmann::json::array())),
      .calls_in_steps = calls_in(json.value("collectives_in_steps", nlohmann::json::array())),
      .configuration = settings_in(json.value("configuration", nlohmann::json::object())),
      .hyperparameters = hyperparameters_in(json.value("hyperparameters", nlohmann::json::array())),
      .hyperparameters_until = number_in<std::int64_t>(json, "hyperparameters_until"),
      .precisions = precisions_in(json.value("precisions", nlohmann::json::array())),
      .unreduced = unreduced_in(json.value("unreduced", nlohmann::json::array())),
      .last_calls = last_calls_in(json.value("last_calls", nlohmann::json::object())),
      .joined = joined_in(json.value("joined", nlohmann::json::array())),
      .untrained = untrained_in(json.value("untrained", nlohmann::json::array())),
      .broken_ties = broken_ties_in(json.value("broken_ties", nlohmann::json::array())),
      .divided = divided_in(json.value("divided", nlohmann::json::array())),
      .parameter_orders =
          parameter_orders_in(json.value("parameter_orders", nlohmann::json::array())),
      .schedules = schedules_in(json.value("schedules", nlohmann::json::array())),
      .devices = devices_in(json.value("devices", nlohmann::json::array())),
      .samplers = samplers_in(json.value("samplers", nlohmann::json::array())),
      .frozen = frozen_in(json.value("frozen", nlohmann::json::array())),
      .metrics = metrics_in(json.value("metrics", nlohmann::json::array())),
      .peak_bytes = std::max<std::int64_t>(number_in<std::int64_t>(json, "peak_bytes"), 0),
      .peak_device_bytes =
          std::max<std::int64_t>(number_in<std::int64_t>(json, "peak_device_bytes"), 0),
      .optimizers = settings_in(json.value("optimizers", nlohmann::json::object())),
      .state_buffers = json.value("state_buffers", std::vector<std::string>()),
      .groups = sizes_in(json.value("groups", nlohmann::json::object())),
      .machine = {number_in<int>(json, "local_first"), number_in<int>(json, "local_count")},
      .rendezvous = number_in<std::int64_t>(json, "rendezvous"),
      .error_part = parse<StepPart>(json.value("error_part", "")).value_or(StepPart::unknown),
      .last_call = mask_secrets(json.value("last_call", "")),
      .error_place = mask_secrets(json.value("error_place", "")),
      .error_stack = stack_in(json.value("error_stack", nlohmann::json::array())),
      .arrivals = arrivals_in(json.value("arrivals", nlohmann::json::array())),
      .clock = json.value("clock", "")};
}

constexpr std::uint64_t kLargestElsewhere = 1 << 12;

std::optional<Elsewhere> read_elsewhere(const std::filesystem::path& folder, int rank) {
  const std::filesystem::path path = rank_file(folder, rank, kElsewhereEnding);
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_text(path.string(), kLargestElsewhere);
  try {
    const auto json = nlohmann::json::parse(text);
    return Elsewhere{whole_number<std::int64_t>(json, "process"),
                     whole_number<std::int64_t>(json, "step")};
  } catch (const std::exception&) {
    throw malformed(path.string(), 0, 0, "what the hook of a watched rank writes",
                    text.substr(0, 60));
  }
}

}  // namespace

std::optional<RankFacts> read_rank_facts(const std::filesystem::path& folder, int rank) {
  const std::filesystem::path path = rank_file(folder, rank, kFactsEnding);
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_text(path.string(), kLargestFacts);
  try {
    RankFacts facts = facts_in(parse_flat_json(text, path.string(), "the facts"));
    facts.elsewhere = read_elsewhere(folder, rank);
    if (facts.world_size > rank && facts.world_size <= kMostRanksOfRecord) return facts;
  } catch (const std::exception&) {
    // Reported below.
  }
  throw malformed(path.string(), 0, 0, "what the hook of a watched rank writes",
                  mask_secrets(text).substr(0, 60));
}

std::map<int, DigestsOfNames> bystanders_in(const std::filesystem::path& folder) {
  std::map<int, DigestsOfNames> bystanders;
  for (const int rank : ranks_with_file(folder, kBystanderEnding)) {
    const std::string path = rank_file(folder, rank, kBystanderEnding).string();
    const std::string text = read_text(path, kLargestFacts);
    try {
      const auto json = parse_flat_json(text, path, "the copies");
      DigestsOfNames& copies = bystanders[rank];
      for (const nlohmann::json& copy : json.at("copies")) {
        copies.emplace(copy.at("name"), copy.at("digest"));
      }
    } catch (const std::exception&) {
      throw malformed(path, 0, 0, "what the hook of a rank that trains nothing writes",
                      mask_secrets(text).substr(0, 60));
    }
  }
  return bystanders;
}

std::vector<int> ranks_with_facts(const std::filesystem::path& folder) {
  return ranks_with_file(folder, kFactsEnding);
}

std::map<int, RankFacts> read_all_facts(const std::filesystem::path& folder) {
  std::map<int, RankFacts> all;
  for (const int rank : ranks_with_facts(folder)) {
    if (const auto facts = read_rank_facts(folder, rank)) all.emplace(rank, *facts);
  }
  return all;
}

void add_memory(const std::optional<PeakMemory>& more, std::optional<PeakMemory>& memory) {
  if (!more || !memory) {
    if (more) memory = more;
    return;
  }
  if (more->most > memory->most) {
    std::tie(memory->most, memory->most_of) = std::tie(more->most, more->most_of);
  }
  if (more->least < memory->least) {
    std::tie(memory->least, memory->least_of) = std::tie(more->least, more->least_of);
  }
}

std::optional<std::int64_t> fewest_perturbed(std::optional<std::int64_t> one,
                                             std::optional<std::int64_t> other) {
  return one && other ? std::min(one, other) : std::max(one, other);  // absent is the least
}

int most_calls(int one, int other) { return one < 0 || other < 0 ? -1 : std::max(one, other); }

}  // namespace lockstep
