#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

class Rank;

/// A condition of the bug. Values are words; a body reads them with `Rank::text` and similar calls.
struct Axis {
  std::string name;
  std::vector<std::string> values;
  std::string default_value;               ///< the value if none is chosen; one of `values`
  std::vector<std::string> variants = {};  ///< that depend on it; empty: all
  bool in_reference = true;                ///< whether references depend on it as well
};

/// Conditions and their values, as `--set` takes them: "stage=2 static_graph=on". Throws Error
/// (internal) for any other word.
struct Settings {
  Settings() = default;
  Settings(
      const char* words);  // NOLINT(google-explicit-constructor): a list of variants reads better

  std::vector<AxisValue> values;
};

/// What a cell is expected to show.
using ExpectationOf = std::function<Expectation(const Cell&)>;

/// One way to run a scenario. The functions below make one of each role.
struct Variant {
  std::string name;
  Role role = Role::buggy;
  std::string summary;  ///< one line
  /// The conditions of the variant. The name of an axis fixes that axis, which `--set` and
  /// `--matrix` can then no longer choose; any other name is agreed between the variants and the
  /// body.
  Settings sets = {};
  ExpectationOf expect = {};       ///< of its cells; empty: `Scenario::expect`
  std::string reference = {};      ///< compared with this one; empty: the scenario's first one
  std::vector<Claim> claims = {};  ///< in addition to the scenario's
  /// Time limit of its cells that should not finish.
  std::optional<std::chrono::milliseconds> limit = {};

  /// The same variant, compared with the reference `reference_name`.
  Variant compared_with(std::string reference_name) const;
  /// The same variant with `more` claims of its own.
  Variant with_claims(std::vector<Claim> more) const;
  /// The same variant; its cells that should not finish are ended after 2 s.
  Variant hanging() const;
};

/// The fault.
Variant buggy(std::string name, std::string summary, Settings sets = {}, ExpectationOf expect = {});
/// A change that looks like a fix and is none.
Variant wrong_fix(std::string name, std::string summary, Settings sets = {},
                  ExpectationOf expect = {});
/// The fault under conditions that hide it. `expect` says how else that shows.
Variant latent(std::string name, std::string summary, Settings sets = {},
               ExpectationOf expect = {});
/// A fix. `expect` says which published tables it meets, or which errors it raises.
Variant fixed(std::string name, std::string summary, Settings sets = {}, ExpectationOf expect = {});
/// One process that computes the right values for all ranks.
Variant reference(std::string name, std::string summary, Settings sets = {});

/// Devices of a kind other than cpu that a cell needs on each of its machines.
struct DeviceNeeds {
  int count = 1;
  bool cpu_stands_in = true;  ///< for the second of two, if there is one GPU
};

/// One device per rank, all of the same kind.
DeviceNeeds device_per_rank(const Cell& cell);

/// All world sizes from `least` to `most`, by default up to the largest that scenarios have been
/// run with.
inline constexpr int kMostTriedRanks = 16;
std::vector<int> worlds_from(int least, int most = kMostTriedRanks);

/// Where a fault was found.
struct Origin {
  std::string project = {};
  std::string link = {};      ///< issue or pull request, "SchmiedmayerLab/OpenTSLM#49"
  std::string kept = {};      ///< parts of the original that are here
  std::string left_out = {};  ///< parts that are not, and why
};

/// One bug class: one program in one file, run in its variants. The id names the fault and is never
/// reused. Plain data and two functions; a scenario holds no state.
struct Scenario {
  std::string id = {};  ///< the name of its file with - in place of _; set by the registry
  std::string summary;
  std::string source = {};  ///< path of its file in the project; set by the registry
  Origin origin = {};
  std::vector<Variant> variants;
  std::vector<int> worlds = worlds_from(2);  ///< world sizes it supports
  /// Kinds of devices it can train on. The first is the default.
  std::vector<DeviceKind> devices{DeviceKind::cpu, DeviceKind::sim, DeviceKind::cuda};
  std::function<DeviceNeeds(const Cell&)> device_needs = {};  ///< empty: one device
  std::int64_t steps = 3;                                     ///< unless --steps says otherwise
  std::vector<Axis> axes = {};
  std::vector<Claim> claims;  ///< true of a correct program; judged in every cell
  std::vector<TableSpec> tables = {};
  /// Why a cell cannot be run; an empty text if it can. Empty: every cell can.
  std::function<std::string(const Cell&)> precondition = {};
  /// For variants without their own; empty: they break nothing, as correct programs do.
  ExpectationOf expect = {};
  std::function<void(Rank&)> body;  ///< runs on every rank of a cell
};

/// "2 to 16", or "2, 4, 8" if sizes in between are not supported.
std::string worlds_in_words(const Scenario& scenario);

/// The variant called `name`; null if there is none.
const Variant* find_variant(const Scenario& scenario, const std::string& name);

/// The variant of role `reference` that `variant` is compared with; null if there is none, and for
/// a reference itself.
const Variant* reference_of(const Scenario& scenario, const Variant& variant);

/// The axes that `variant` depends on and does not fix, in the order of the scenario.
std::vector<const Axis*> axes_of(const Scenario& scenario, const Variant& variant);

/// The values that `variant` fixes, as its cells have them.
std::vector<AxisValue> settings_of(const Scenario& scenario, const Variant& variant);

/// The scenario's expectation of one of its cells, preconditions first.
Expectation declared_expectation(const Scenario& scenario, const Cell& cell);

/// Throws Error (internal) if the scenario contradicts itself: duplicate names, an axis without its
/// default value, no device or an unknown one, no claim, a reference that is none or depends on
/// more than its variant, a table or an axis of an unknown variant, a fixed value that its axis
/// does not have, a faulty variant without an expectation.
void validate(const Scenario& scenario);

/// All scenarios of this program, in the order of the list in scenarios/CMakeLists.txt. CMake
/// generates it from that list.
const std::vector<Scenario>& registry();

}  // namespace lockstep
