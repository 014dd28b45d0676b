#include "reports/record/claim.h"

#include <fmt/format.h>

namespace lockstep {

namespace {

/// The point at which a kind is what it is to be; a claim about another point names it.
Point customary_point(Kind kind) {
  switch (kind) {
    case Kind::parameter:
      return Point::stepped;
    case Kind::gradient:
      return Point::reduced;
    case Kind::buffer:
    case Kind::loss:
      return Point::forward;
    case Kind::memory:
      return Point::backward;
  }
  return Point::forward;
}

std::string_view predicate_in_words(Predicate predicate) {
  switch (predicate) {
    case Predicate::agree_across_ranks:
      return "agree across ranks";
    case Predicate::equal_reference:
      return "equal the reference";
    case Predicate::ranks_finish:
      return "ranks finish";
    case Predicate::at_most_reference:
      return "stays within the reference's";
    case Predicate::collectives_match:
      return "collectives match";
  }
  return "";
}

}  // namespace

Claim agree_across_ranks(Kind kind, Point point) {
  return {Predicate::agree_across_ranks, kind, point};
}

Claim equal_reference(Kind kind, Point point) { return {Predicate::equal_reference, kind, point}; }

Claim at_most_reference(Kind kind, Point point) {
  return {Predicate::at_most_reference, kind, point};
}

Claim ranks_finish() { return {Predicate::ranks_finish, std::nullopt, std::nullopt}; }

Claim collectives_match() { return {Predicate::collectives_match, std::nullopt, std::nullopt}; }

std::string sentence(const Claim& claim) {
  std::string text(predicate_in_words(claim.predicate));
  if (!claim.kind) return text;
  text = fmt::format("{} {}", plural(*claim.kind), text);
  if (claim.point && claim.point != customary_point(*claim.kind)) {
    text += fmt::format(" at {}", name(*claim.point));
  }
  return text;
}

std::string_view plural(Kind kind) {
  switch (kind) {
    case Kind::parameter:
      return "parameters";
    case Kind::gradient:
      return "gradients";
    case Kind::buffer:
      return "buffers";
    case Kind::loss:
      return "losses";
    case Kind::memory:
      return "memory";
  }
  return "";
}

}  // namespace lockstep
