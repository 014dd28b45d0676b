#include "harness/checkpoint/model_names.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lockstep {

namespace {

/// The shortest first.
constexpr std::array<std::string_view, 9> kPrefixes{
    "",           "app.",        "net.",         "model.",           "module.",
    "app.model.", "state_dict.", "model_state.", "model_state_dict."};

constexpr std::array<std::string_view, 5> kOptimizers{"optim", "optimizer", "optimizers",
                                                      "optim_state", "optimizer_state"};

constexpr std::array<std::string_view, 3> kWrappers{"_orig_mod", "_fsdp_wrapped_module",
                                                    "_checkpoint_wrapped_module"};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::set<std::string> model_names(const std::set<std::string>& names, std::string_view prefix) {
  std::set<std::string> inner;
  for (const std::string& name : names) inner.insert(model_name(name, prefix));
  return inner;
}

std::int64_t matches(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::count_if(a.begin(), a.end(), [&](const auto& name) { return b.contains(name); });
}

}  // namespace

bool is_of_optimizer(std::string_view name) {
  if (name.starts_with("app.")) name.remove_prefix(4);
  const std::size_t dot = name.find('.');
  return dot != name.npos && holds(kOptimizers, name.substr(0, dot));
}

std::string without_wrappers(std::string_view name) {
  std::string plain;
  while (!name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size() - 1);
    const bool is_last = name[dot] != '.';
    const std::string_view part = name.substr(0, is_last ? name.size() : dot);
    if (is_last || !holds(kWrappers, part)) plain += name.substr(0, part.size() + !is_last);
    name.remove_prefix(part.size() + !is_last);
  }
  while (plain.starts_with("module.")) plain.erase(0, 7);
  return plain;
}

std::string model_name(std::string_view name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return without_wrappers(name);
}

std::array<std::string, 2> model_prefixes(const std::set<std::string>& a,
                                          const std::set<std::string>& b) {
  std::array<std::set<std::string>, kPrefixes.size()> of_b;
  std::transform(kPrefixes.begin(), kPrefixes.end(), of_b.begin(),
                 [&](std::string_view prefix) { return model_names(b, prefix); });
  std::array<std::string, 2> best;
  std::int64_t most = -1;
  for (const std::string_view prefix : kPrefixes) {
    const std::set<std::string> of_a = model_names(a, prefix);
    for (std::size_t i = 0; i < of_b.size(); ++i) {
      const std::int64_t found = matches(of_a, of_b[i]);
      if (found <= most) continue;
      most = found;
      best = {std::string(prefix), std::string(kPrefixes[i])};
    }
  }
  return best;
}

}  // namespace lockstep
