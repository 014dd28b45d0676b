"""Models of harness/train in torch.nn: the same layers, drawn in the same order.

The seed of Python's own generator determines their weights.
"""

import typing

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, tokens):
        return self.down(functional.gelu(self.up(tokens)))


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_projection = nn.Linear(width, 3 * width)
        self.out_projection = nn.Linear(width, width)

    def forward(self, tokens):
        def heads_of(part):
            return part.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        query, key, value = map(heads_of, self.in_projection(tokens).chunk(3, dim=-1))
        with sdpa_kernel(SDPBackend.MATH):
            attended = functional.scaled_dot_product_attention(query, key, value)
        return self.out_projection(attended.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = Mlp(width, hidden)

    def forward(self, tokens):
        tokens = tokens + self.attention(self.attention_norm(tokens))
        return tokens + self.mlp(self.mlp_norm(tokens))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.randn(8, 32) * 0.02)
        self.embedding = nn.Linear(8, 32)
        self.blocks = nn.ModuleList(Block(32, 4, 64) for _ in range(2))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 4)

    def forward(self, series):
        tokens = self.embedding(series.reshape(len(series), 8, 8)) + self.position
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(self.norm(tokens).mean(dim=1))


class SwiGlu(nn.Module):
    def __init__(self, width, hidden, activation=functional.silu):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.activation = activation

    def forward(self, tokens):
        return self.down(self.activation(self.gate(tokens)) * self.up(tokens))


class LoraLinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8, draws_b=False):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)
        self.scale = alpha / rank
        if not draws_b:
            nn.init.zeros_(self.lora_b.weight)

    def forward(self, tokens):
        return self.base(tokens) + self.lora_b(self.lora_a(tokens)) * self.scale


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, tokens):
        def heads_of(part):
            return part.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        parts = (self.query(tokens), self.key(tokens), self.value(tokens))
        with sdpa_kernel(SDPBackend.MATH):
            attended = functional.scaled_dot_product_attention(
                *map(heads_of, parts), is_causal=True
            )
        return self.output(attended.transpose(1, 2).flatten(-2))


class LanguageBlock(nn.Module):
    def __init__(self, width, heads, hidden, activation):
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.attention = CausalSelfAttention(width, heads)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-6)
        self.mlp = SwiGlu(width, hidden, activation)

    def forward(self, tokens):
        tokens = tokens + self.attention(self.attention_norm(tokens))
        return tokens + self.mlp(self.mlp_norm(tokens))


class Sizes(typing.NamedTuple):
    """Sizes of a vision-language model; `image` is [channels, height, width]."""

    image: tuple
    width: int = 16  # of an image token
    heads: int = 2
    hidden: int = 32
    blocks: int = 2
    vocabulary: int = 32
    text: int = 16
    language_heads: int = 2
    language_hidden: int = 32
    language_blocks: int = 2

    @property
    def patches(self):
        return (self.image[1] // 4) * (self.image[2] // 4)


class Vision(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.position = nn.Parameter(torch.randn(sizes.patches, sizes.width) * 0.02)
        self.embedding = nn.Linear(sizes.image[0] * 4 * 4, sizes.width)
        self.blocks = nn.ModuleList(
            Block(sizes.width, sizes.heads, sizes.hidden) for _ in range(sizes.blocks)
        )

    def forward(self, image):
        patches = functional.unfold(image, kernel_size=4, stride=4).transpose(1, 2)
        # In bfloat16, linear layers round differently if their input is not contiguous.
        tokens = self.embedding(patches.contiguous()) + self.position
        for block in self.blocks:
            tokens = block(tokens)
        return tokens


class Projector(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 16)
        self.down = nn.Linear(16, 16)

    def forward(self, tokens):
        return self.down(functional.gelu(self.up(tokens)))


class Language(nn.Module):
    def __init__(self, sizes, tied, shared, activation):
        super().__init__()
        entries, layers = sizes.vocabulary, sizes.language_blocks
        self.position = nn.Parameter(torch.randn(sizes.patches + sizes.text, 16) * 0.02)
        self.embedding = nn.Embedding(entries, 16, _weight=torch.randn(entries, 16) * 0.02)
        blocks = [
            LanguageBlock(16, sizes.language_heads, sizes.language_hidden, activation)
            for _ in range(1 if shared else layers)
        ]
        self.blocks = nn.ModuleList(blocks * layers if shared else blocks)
        self.norm = nn.RMSNorm(16, eps=1e-6)
        self.head = nn.Linear(16, entries, bias=False, device="meta" if tied else None)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        tokens = tokens + self.position[: tokens.shape[1]]
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(self.norm(tokens))


class VisionLanguage(nn.Module):
    """`lora`: the options of the adapters, if there are any."""

    def __init__(self, sizes, tied=True, shared=False, activation=functional.silu, lora=None):
        super().__init__()
        self.vision = Vision(sizes)
        self.projector = Projector(sizes.width)
        self.language = Language(sizes, tied, shared, activation)
        if lora is not None:
            self.requires_grad_(False)
            for part in [part for block in dict.fromkeys(self.language.blocks)
                         for part in (block.attention, block.mlp)]:
                for name, layer in list(part.named_children()):
                    setattr(part, name, LoraLinear(layer, **lora))

    def forward(self, image, text):
        tokens = (self.projector(self.vision(image)), self.language.embedding(text))
        return self.language(torch.cat(tokens, dim=1))
