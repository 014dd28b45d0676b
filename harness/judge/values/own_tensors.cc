#include "harness/judge/values/own_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

bool is_decimal(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// With "#" for each number: "experts.#.w".
std::string without_numbers(const std::string& name) {
  std::string pattern;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!is_decimal(name[i])) {
      pattern += name[i];
    } else if (i == 0 || !is_decimal(name[i - 1])) {
      pattern += '#';
    }
  }
  return pattern;
}

/// Whether the hook made the name up, of a parameter in no module. It has numbers in any case.
bool is_made_up(const std::string& name) {
  return without_numbers(name).starts_with("optimizer#.group#.");
}

/// What ranks have in common where each has its own: the pattern of its name, shape and type.
using LonePattern = std::tuple<std::string, Shape, std::string>;

/// A parameter by what was observed of it.
struct Lone {
  int rank = -1;             ///< the first that held it
  bool is_candidate = true;  ///< whole, and on no other rank
  LonePattern pattern;
};

std::map<std::string, Lone> lone_candidates_in(const StepReader& evidence) {
  std::map<std::string, Lone> parameters;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind != Kind::parameter) continue;
    Lone& one = parameters[tensor.name];
    if (one.rank < 0) one.rank = ranks.front();
    one.is_candidate = one.is_candidate && ranks.size() == 1 && ranks.front() == one.rank &&
                       tensor.replica_group.empty() && tensor.not_comparable.empty() &&
                       tensor.local_shape == tensor.global_shape;
    if (one.is_candidate) {
      one.pattern = {without_numbers(tensor.name), *tensor.global_shape, *tensor.dtype};
    }
  }
  return parameters;
}

/// What all names have before their first number.
std::string common_beginning(const std::set<std::string>& names) {
  const std::string& first = *names.begin();
  const std::string& last = *names.rbegin();
  std::size_t length = 0;
  while (length < std::min(first.size(), last.size()) && first[length] == last[length] &&
         !is_decimal(first[length])) {
    ++length;
  }
  return first.substr(0, length);
}

/// As a part of a regular expression.
std::string escaped_in_regex(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (c == '.') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace

std::set<std::string> own_tensors(const StepReader& evidence) {
  std::set<std::string> names;
  std::map<int, std::vector<LonePattern>> by_rank;
  for (auto& [name, one] : lone_candidates_in(evidence)) {
    if (!one.is_candidate || is_made_up(name)) continue;
    names.insert(name);
    by_rank[one.rank].push_back(std::move(one.pattern));
  }
  for (auto& [rank, own] : by_rank) std::ranges::sort(own);
  const auto processes = static_cast<std::size_t>(evidence.processes());
  const bool are_alike = processes > 1 && by_rank.size() == processes &&
                         std::ranges::all_of(by_rank, [&](const auto& one) {
                           return one.second == by_rank.begin()->second;
                         });
  return are_alike ? names : std::set<std::string>();
}

std::string lone_in_words(const std::set<std::string>& names) {
  const std::string more =
      names.size() > 1 ? fmt::format(" and {} more are each", names.size() - 1) : " is";
  const std::string beginning = common_beginning(names);
  return fmt::format("{}{} on one rank alone: if that is meant to be, --ignore{} leaves {} out",
                     *names.begin(), more,
                     beginning.empty() ? "" : fmt::format(" '^{}'", escaped_in_regex(beginning)),
                     names.size() > 1 ? "them" : "it");
}

}  // namespace lockstep
