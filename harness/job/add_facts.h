#pragma once

#include <algorithm>
#include <vector>

namespace lockstep {

/// Adds facts that ranks have in common: those known already get more ranks.
template <class Fact>
void add_facts(const std::vector<Fact>& more, std::vector<Fact>& facts) {
  for (const Fact& one : more) {
    const auto same = std::find_if(facts.begin(), facts.end(), [&](Fact known) {
      known.ranks = one.ranks;
      return known == one;
    });
    if (same == facts.end()) {
      facts.push_back(one);
    } else {
      same->ranks.insert(same->ranks.end(), one.ranks.begin(), one.ranks.end());
      std::sort(same->ranks.begin(), same->ranks.end());
    }
  }
}

}  // namespace lockstep
