#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// What stands for a secret.
inline constexpr std::string_view kMaskedSecret = "***";

/// `text` with apparent secrets replaced by `***`: the values of options, variables, fields and
/// headers whose names sound secret ("--api-key S", "HF_TOKEN=S", "'password': 'S'",
/// "Authorization: Bearer S"), whatever has the shape of a known kind of token, credentials and
/// signatures in URLs, and PEM blocks. Names of tensors and of settings that only resemble those
/// ("attn.key.weight", "--max-tokens 512", "eos_token=</s>") stay. Takes time linear in the text,
/// and masking twice is masking once.
std::string mask_secrets(std::string_view text);

/// The words of a command, each masked; the value of an option may be the word after it.
std::vector<std::string> mask_command(std::vector<std::string> words);

/// The value of a setting or a variable with that name.
std::string mask_value(std::string_view name, std::string_view value);

/// The name of a tensor or of a group. In "attn.token: my_moment" there is no secret, whatever the
/// state is called: in names without capital letters only what has the shape of one is replaced.
std::string mask_name(std::string_view name);

}  // namespace lockstep
