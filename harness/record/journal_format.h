#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "reports/base/csv_text.h"

namespace lockstep {

/// Columns of a journal's row.
struct JournalColumn {
  enum : std::size_t {
    kStep,
    kMicroBatch,
    kTensor,
    kDigest,
    kNorm,
    kMinimum,
    kMaximum,
    kNonFinite
  };
};

const CsvKind& kind_of_journals();

/// The first two lines of a journal.
struct JournalHeader {
  bool is_thinned = false;  ///< steps in the index have no rows here
  std::string identity;     ///< `process_identity` of the writer; empty: unknown
  std::uint64_t bytes = 0;  ///< of both lines
  std::int64_t lines = 0;

  /// Bytes of the lines that the writer wrote, before the rows of steps were removed.
  std::uint64_t bytes_as_written() const;
};

/// Both lines, as the process `identity` writes them.
std::string journal_header_of(std::string_view identity);

/// The same lines for a journal in which some steps have no rows any more.
std::string thinned_journal_header(std::string_view lines);

/// Throws Error (usage) if it is malformed, of another version or with other digests.
JournalHeader read_journal_header(const std::filesystem::path& path);

}  // namespace lockstep
