#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/observation.h"

namespace lockstep {

/// The journal of a rank in the folder of its cell.
std::filesystem::path journal_file(const std::filesystem::path& folder, int rank);

/// Append-only CSV file of observations of one rank. Every row is written in full by one write, so
/// that a rank that is killed leaves whole rows and at most one torn one. One thread at a time.
class JournalWriter {
 public:
  /// Creates the file with its header and, in front, the definition of its digests and `identity`,
  /// which says who writes it (empty: it is not said). Throws Error (usage) when the file exists or
  /// cannot be made.
  explicit JournalWriter(const std::filesystem::path& path, std::string_view identity = "");
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// Appends one row. Throws Error (usage) when the disk is full or the file is gone.
  void append(const Observation& observation);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// What a journal held.
struct Journal {
  std::string identity;  ///< `process_identity` of who wrote it; empty: not known
  std::string digest;    ///< definition of its digests: "lockstep-2"
  std::vector<Observation> observations;
  bool torn_tail = false;  ///< the last row was torn and left out
};

/// Whether a journal was begun: a rank that was killed at once leaves an empty file, or none.
/// Throws Error (usage) for what is no file that is read.
bool has_journal(const std::filesystem::path& path);

/// Reads a journal. Throws Error (usage) with file, line, column and what was expected; rows whose
/// seq does not count on are malformed.
Journal read_journal(const std::filesystem::path& path);

}  // namespace lockstep
