#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/base/error.h"

namespace lockstep {

// Sentences about a command line, in addition to those of error.h; error.cc has both.

/// `command` ("lockstep run") has no option `given`; offers the nearest of `known`.
Error unknown_option(std::string_view command, std::string_view given,
                     const std::vector<std::string>& known);

/// `command` was called with the words `extra`, in their order, in addition to those that it takes;
/// `usage` says how it is called.
Error unexpected_words(std::string_view command, const std::vector<std::string>& extra,
                       std::string_view usage);

/// `command` was called without a word that it needs, or in another wrong way; `what` says how.
Error wrong_arguments(std::string_view command, std::string_view what, std::string_view usage);

/// No name of the kind `what` ("scenario") matches `pattern`. Offers the nearest of `known`.
Error nothing_matches(std::string_view what, std::string_view pattern,
                      const std::vector<std::string>& known);

/// As in error.h, with the specific `remedy`, "Name a new folder".
Error unreadable(std::string_view path, std::string_view why, std::string_view remedy);
Error unwritable(std::string_view path, std::string_view why, std::string_view remedy);

/// Standard output takes no more; `why` in the system's words.
Error unwritable_output(std::string_view why);

/// The run in `folder` cannot be removed; `why` in the system's words.
Error unremovable(std::string_view folder, std::string_view why);

/// The run in `folder` cannot be packed, and the remedy.
Error unpackable(std::string_view folder, std::string_view why, std::string_view remedy);

/// The first argument of `compare` is a run and the second a table.
Error swapped_arguments(std::string_view run, std::string_view table);

/// Both arguments of `compare` are runs.
Error two_runs(std::string_view first, std::string_view second);

}  // namespace lockstep
