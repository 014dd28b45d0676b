#pragma once

#include <string_view>

namespace lockstep {

/// How a name sounds.
///   harmless   "max_tokens", "sort_key", "attn.key.weight"
///   doubtful   it has such a word and does not end in it: "token_dispatcher"; a value is secret if
///              it looks random
///   weak       "token", "key": also words of models, of their texts and of dictionaries
///   strong     "api_key", "password"
enum class SecretName { harmless, doubtful, weak, strong };

/// `name` is that of an option, a variable, a field or a header, with any of their spellings:
/// "--api-key", "API_KEY", "apiKey", "X-Api-Key". Takes time linear in it.
SecretName secrecy_of(std::string_view name);

/// Whether the whole rest of a line is the value: "Authorization: Bearer S", "Cookie: a=b; c=d".
bool has_long_value(std::string_view name);

}  // namespace lockstep
