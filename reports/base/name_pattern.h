#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The module of a tensor: "attn.k" of "attn.k.bias". Empty: the model itself.
std::string module_of(std::string_view tensor);

/// Whether `name` matches `pattern`, in which a `*` stands for any text, including none.
bool matches(std::string_view pattern, std::string_view name);

/// The shortest pattern, such as "*.lora_A.*.weight", that all of `names` match and none of
/// `others` does. Empty: there is none, or `names` has fewer than two.
std::string pattern_of(const std::vector<std::string>& names,
                       const std::vector<std::string>& others);

/// Which of several names are meant: "all 129", "14 of 129, all *.lora_A.*.weight", "3 of 129",
/// "5 of 129: a, b, c and 2 more" where no pattern fits. `names`: of them, in the order to name
/// them; `others`: the rest.
std::string share_in_words(const std::vector<std::string>& names,
                           const std::vector<std::string>& others);

}  // namespace lockstep
