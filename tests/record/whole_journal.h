#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/journal.h"

namespace lockstep {

/// All rows of a journal.
struct WholeJournal {
  std::string identity;
  std::vector<Observation> observations;
  bool torn_tail = false;
};

inline WholeJournal read_journal(const std::filesystem::path& path) {
  const JournalReader reader(path);
  WholeJournal journal{reader.identity(), {}, reader.has_torn_tail()};
  for (const JournalStep& step : reader.steps()) {
    for (Observation& observation : reader.read(step)) {
      journal.observations.push_back(std::move(observation));
    }
  }
  return journal;
}

/// Also removes its table and index.
inline void remove_journal(const std::filesystem::path& path) {
  for (const auto& file : {path, tensor_table_file(path), index_file(path)}) {
    std::filesystem::remove(file);
  }
}

}  // namespace lockstep
