#include "harness/diff/hyperparameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

namespace lockstep {

namespace {

// What the hook records last of a rank and of an optimizer: the limits of its _configuration.py.
constexpr const char* kLastOptimizer = " 7";
constexpr const char* kLastGroup = " group 3";

/// The parts of "AdamW 1 group 0.lr"; the kind is empty if it is none of an optimizer.
struct Hyperparameter {
  std::string kind;  ///< of the optimizer
  std::string name;
  bool is_of_last = false;        ///< of the optimizers that a rank records
  bool is_of_last_group = false;  ///< that it records of one
};

Hyperparameter hyperparameter_of(const Setting& setting) {
  const std::size_t dot = setting.name.rfind('.');
  if (dot == std::string::npos) return {};
  const std::string owner = setting.name.substr(0, dot);
  const std::string kind = owner.substr(0, owner.find(' '));
  return {kind, setting.name.substr(dot + 1), owner.starts_with(kind + kLastOptimizer),
          owner.ends_with(kLastGroup)};
}

/// What each hyperparameter is, in any optimizer and group on any rank.
struct Hyperparameters {
  std::map<std::string, std::set<std::string>> values;
  bool is_complete = true;  ///< else there may be others
};

/// How a step is computed, or what it is called.
bool is_none(const std::string& name) {
  constexpr std::array<std::string_view, 6> kNone{"foreach",        "fused", "capturable",
                                                  "differentiable", "name",  "grad_scale"};
  return std::find(kNone.begin(), kNone.end(), name) != kNone.end();
}

/// "0.0001" and "1e-04" are the same.
std::string canonical(const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  const bool is_number = !value.empty() && end == value.c_str() + value.size();
  return is_number ? fmt::format("{}", number) : value;
}

Hyperparameters hyperparameters_of(const JobRecord& job) {
  Hyperparameters all;
  for (const Setting& setting : job.configuration) {
    const Hyperparameter one = hyperparameter_of(setting);
    if (one.kind.empty() || is_none(one.name)) continue;
    all.values[one.name].insert(canonical(setting.value));
    all.is_complete = all.is_complete && !one.is_of_last && !one.is_of_last_group;
  }
  return all;
}

bool has_all(const std::set<std::string>& values, const std::set<std::string>& others) {
  return std::includes(values.begin(), values.end(), others.begin(), others.end());
}

}  // namespace

bool is_scheduled(const std::string& name) {
  return name == "lr" || name == "momentum" || name == "betas";
}

std::vector<std::string> differing_hyperparameters(const JobRecord& a, const JobRecord& b,
                                                   std::int64_t offset) {
  const Hyperparameters of_a = hyperparameters_of(a), of_b = hyperparameters_of(b);
  std::vector<std::string> differing;
  for (const auto& [name, values] : of_a.values) {
    const auto other = of_b.values.find(name);
    if (other == of_b.values.end()) continue;
    const bool is_missing = (of_b.is_complete && !has_all(other->second, values)) ||
                            (of_a.is_complete && !has_all(values, other->second));
    if (!is_missing || (offset != 0 && is_scheduled(name))) continue;
    differing.push_back(fmt::format("{} is {} in A and {} in B", name, fmt::join(values, " and "),
                                    fmt::join(other->second, " and ")));
  }
  return differing;
}

bool has_optimizers_by_element(const JobRecord& job) {
  constexpr std::array<std::string_view, 11> kByElement{"ASGD",    "Adadelta", "Adagrad", "Adam",
                                                        "AdamW",   "Adamax",   "NAdam",   "RAdam",
                                                        "RMSprop", "Rprop",    "SGD"};
  std::set<std::string> kinds, of_torch;
  for (const Setting& setting : job.configuration) {
    const Hyperparameter one = hyperparameter_of(setting);
    if (one.kind.empty()) continue;
    if (one.is_of_last) return false;  // others may follow
    kinds.insert(one.kind);
    if (one.name == "foreach") of_torch.insert(one.kind);  // others have taken these names, too
  }
  return !kinds.empty() && kinds == of_torch &&
         std::all_of(kinds.begin(), kinds.end(), [&](const std::string& kind) {
           return std::find(kByElement.begin(), kByElement.end(), kind) != kByElement.end();
         });
}

bool has_muon(const JobRecord& job) {
  return std::ranges::any_of(job.configuration, [](const Setting& setting) {
    const Hyperparameter one = hyperparameter_of(setting);
    return one.kind == "Muon" && one.name == "ns_steps";  // not one of a script by this name
  });
}

bool has_scaled_gradients(const JobRecord& job) {
  return std::ranges::any_of(job.configuration, [](const Setting& setting) {
    return hyperparameter_of(setting).name == "grad_scale";
  });
}

}  // namespace lockstep
