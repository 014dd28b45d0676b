"""Compares the parts of harness/train with Python's torch: sampler, optimizers, clipping, layers.

Both sides compute the same numbers from the same seeds; the bits must be equal. Attention and block
are also compared with torch's own modules, which order their products differently: up to rounding.

train_parity.py PROGRAM: PROGRAM is the program train_parity.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data.distributed import DistributedSampler

from models import (
    Block,
    CausalSelfAttention,
    LoraLinear,
    Mlp,
    SelfAttention,
    Sizes,
    SwiGlu,
    Transformer,
    VisionLanguage,
)

DTYPES = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "I64": torch.int64}
TRAINED = {str(dtype).removeprefix("torch."): dtype
           for dtype in (torch.float32, torch.float64, torch.bfloat16)}
ROUNDING = 1e-5  # for sums of about ten products of order 10, in float32


def read_safetensors(file):
    data = file.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = torch.empty(0, dtype=DTYPES[entry["dtype"]])
        if begin < end:
            values = torch.frombuffer(bytearray(data[begin:end]), dtype=values.dtype)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def normal(shape, seed, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def samplers(numbers):
    for size in (0, 1, 2, 5, 8, 9, 24, 101):
        for world in (1, 2, 3, 8):
            for case in range(8):
                seed, shuffle, drop_last = (0, 42)[case & 1], bool(case & 2), bool(case & 4)
                for rank in range(world):
                    sampler = DistributedSampler(
                        range(size), world, rank, shuffle=shuffle, seed=seed, drop_last=drop_last
                    )
                    for epoch in (0, 1, 7):
                        sampler.set_epoch(epoch)
                        key = (size, world, rank, seed, int(shuffle), int(drop_last), epoch)
                        numbers["/".join(map(str, ("sampler", *key)))] = torch.tensor(
                            list(sampler), dtype=torch.int64
                        )


def parameters(dtype):
    shapes = ((), (3,), (4, 4), (17, 31))
    return [nn.Parameter(normal(shape, 10 + i, dtype)) for i, shape in enumerate(shapes)]


def set_gradients(trained, step):
    for i, parameter in enumerate(trained):
        missing = (step + i) % 3 == 2
        shape, dtype = parameter.shape, parameter.dtype
        parameter.grad = None if missing else normal(shape, 100 * step + i, dtype)


def adamw(numbers, name, **options):
    for dtype_name, dtype in TRAINED.items():
        trained = parameters(dtype)
        optimizer = torch.optim.AdamW(trained, lr=0.01, fused=True, **options)
        for step in range(1, 7):
            if step == 4:
                optimizer.param_groups[0]["lr"] = 0.003
            set_gradients(trained, step)
            optimizer.step()
            for i, parameter in enumerate(trained):
                numbers[f"adamw/{name}/{dtype_name}/{step}/{i}"] = parameter.detach().clone()


def muon(numbers):
    for dtype_name, dtype in TRAINED.items():
        shapes = ((4, 4), (17, 31), (31, 17))
        trained = [nn.Parameter(normal(shape, 10 + i, dtype)) for i, shape in enumerate(shapes)]
        optimizer = torch.optim.Muon(trained, lr=0.01)
        for step in range(1, 7):
            if step == 4:
                optimizer.param_groups[0]["lr"] = 0.003
            set_gradients(trained, step)
            optimizer.step()
            for i, parameter in enumerate(trained):
                numbers[f"muon/{dtype_name}/{step}/{i}"] = parameter.detach().clone()


def clip_to(trained, max_norm, foreach=None):
    return nn.utils.clip_grad_norm_(trained, max_norm, foreach=foreach).double()


def clip(numbers):
    for dtype_name, dtype in TRAINED.items():
        for text in ("0.125", "3", "10000"):
            clipped = parameters(dtype)
            set_gradients(clipped, 1)
            numbers[f"clip/{dtype_name}/{text}/norm"] = clip_to(clipped, float(text), foreach=False)
            for i, parameter in enumerate(clipped):
                if parameter.grad is not None:
                    numbers[f"clip/{dtype_name}/{text}/{i}"] = parameter.grad


def with_drawn_weights(module):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(parameter.shape, 20 + i))
    return module


def layers(numbers):
    own = {"norm": nn.LayerNorm(12), "mlp": Mlp(12, 20)}
    own |= {"attention": SelfAttention(12, 3), "block": Block(12, 3, 20)}
    own |= {"rms_norm": nn.RMSNorm(12, eps=1e-6), "swiglu": SwiGlu(12, 20)}
    own |= {"polynomial": SwiGlu(12, 20, nn.Identity())}
    own |= {"lora": LoraLinear(nn.Linear(12, 12), rank=3, alpha=5)}
    own |= {"causal_attention": CausalSelfAttention(12, 3)}
    for name, module in own.items():
        with_drawn_weights(module)
        tokens = normal((2, 5, 12), 1).requires_grad_()
        output = module(tokens)
        output.backward(normal((2, 5, 12), 2))
        numbers[f"layer/{name}/output"] = output.detach()
        numbers[f"layer/{name}/input_gradient"] = tokens.grad
        for key, parameter in module.named_parameters():
            if parameter.grad is not None:
                numbers[f"layer/{name}/gradient/{key}"] = parameter.grad


def training(numbers, name, make_optimizer):
    torch.manual_seed(7)
    model = Transformer()
    optimizer = make_optimizer(model.parameters(), lr=0.01)
    for i, (key, parameter) in enumerate(model.named_parameters()):
        numbers[f"training/{name}/initial/{i:02}/{key}"] = parameter.detach().clone()
    for step in range(1, 4):
        prefix = f"training/{name}/{step}"
        optimizer.zero_grad()
        logits = model(normal((6, 64), 100 * step))
        drawn = torch.Generator().manual_seed(200 * step)
        loss = functional.cross_entropy(logits, torch.randint(4, (6,), generator=drawn))
        loss.backward()
        numbers[f"{prefix}/logits"] = logits.detach()
        numbers[f"{prefix}/loss"] = loss.detach()
        numbers[f"{prefix}/norm"] = clip_to(list(model.parameters()), 0.5)
        for key, parameter in model.named_parameters():
            numbers[f"{prefix}/gradient/{key}"] = parameter.grad.clone()
        optimizer.step()
        for key, parameter in model.named_parameters():
            numbers[f"{prefix}/parameter/{key}"] = parameter.detach().clone()


def vision_language_step(numbers, prefix, model, step):
    dtype = model.vision.position.dtype
    drawn = torch.Generator().manual_seed(200 * step)
    text = torch.randint(32, (3, 5), generator=drawn)
    logits = model(normal((3, 2, 8, 12), 100 * step).to(dtype), text)
    # Predictions of the last image token and of every text token but the last.
    loss = functional.cross_entropy(logits[:, 5:-1].reshape(-1, 32), text.reshape(-1))
    loss.backward()
    numbers[f"{prefix}/logits"] = logits.detach()
    numbers[f"{prefix}/loss"] = loss.detach()
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            numbers[f"{prefix}/gradient/{key}"] = parameter.grad


def vision_language(numbers, name, blocks=2, **options):
    for dtype_name, dtype in TRAINED.items():
        torch.manual_seed(7)
        model = VisionLanguage(Sizes((2, 8, 12), language_blocks=blocks), **options).to(dtype)
        prefix = f"vision_language/{name}/{dtype_name}"
        for i, (key, parameter) in enumerate(model.named_parameters()):
            numbers[f"{prefix}/initial/{i:02}/{key}"] = parameter.detach().clone()
        optimizer = fused_adamw(model.parameters(), lr=0.01)
        for step in (1, 2):
            optimizer.zero_grad()
            vision_language_step(numbers, f"{prefix}/{step}", model, step)
            optimizer.step()


def vision_language_models(numbers):
    vision_language(numbers, "tied")
    vision_language(numbers, "untied", tied=False)
    vision_language(numbers, "polynomial", activation=nn.Identity())
    vision_language(numbers, "shared", blocks=3, shared=True)
    vision_language(numbers, "lora", lora={})
    vision_language(
        numbers, "lora_untied", tied=False, lora={"rank": 3, "alpha": 5, "draws_b": True}
    )


def fused_adamw(trained, lr):
    return torch.optim.AdamW(trained, lr=lr, fused=True)


def python_numbers():
    numbers = {}
    samplers(numbers)
    adamw(numbers, "default")
    adamw(numbers, "other", betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)
    muon(numbers)
    clip(numbers)
    layers(numbers)
    training(numbers, "adamw", fused_adamw)
    training(numbers, "sgd", torch.optim.SGD)
    vision_language_models(numbers)
    return numbers


def causal_attention():
    ours = with_drawn_weights(CausalSelfAttention(12, 3))
    attention = nn.MultiheadAttention(12, 3, bias=False, batch_first=True)
    *projections, output = ours.state_dict().values()
    attention.load_state_dict({"in_proj_weight": torch.cat(projections), "out_proj.weight": output})
    tokens, later = normal((2, 5, 12), 1), torch.ones(5, 5).triu(1).bool()
    return attention(tokens, tokens, tokens, attn_mask=later, is_causal=True)[0].detach()


def torch_modules():
    """Attention and block as torch's own modules, with the weights of `layers`."""
    attention = nn.MultiheadAttention(12, 3, batch_first=True)
    block = nn.TransformerEncoderLayer(
        12, 3, 20, dropout=0, activation="gelu", batch_first=True, norm_first=True
    )
    ours = [with_drawn_weights(SelfAttention(12, 3)), with_drawn_weights(Block(12, 3, 20))]
    own = [list(module.state_dict().values()) for module in ours]
    order = "norm1.{} self_attn.in_proj_{} self_attn.out_proj.{} norm2.{} linear1.{} linear2.{}"
    names = [name.format(kind) for name in order.split() for kind in ("weight", "bias")]
    attention.load_state_dict(
        dict(zip(("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"), own[0]))
    )
    block.load_state_dict(dict(zip(names, own[1])))
    tokens = normal((2, 5, 12), 1)
    return {
        "layer/attention/output": attention(tokens, tokens, tokens)[0].detach(),
        "layer/block/output": block(tokens).detach(),
        "layer/causal_attention/output": causal_attention(),
    }


def bits(tensor):
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def difference(key, ours, theirs):
    """The difference of two numbers, as a sentence; None if the bits are equal."""
    if ours is None or theirs is None:
        return f"{key}: only {'Python has it' if ours is None else 'we have it'}"
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{key}: ours {ours.dtype} {ours.shape}, Python's {theirs.dtype} {theirs.shape}"
    if bits(ours) == bits(theirs):
        return None
    largest = (ours.double() - theirs.double()).abs().max().item()
    return f"{key}: other bits; they differ by up to {largest:g}"


def distance(key, ours, theirs):
    """A sentence if two numbers differ by more than rounding; otherwise None."""
    largest = (ours - theirs).abs().max().item()
    return None if largest <= ROUNDING else f"{key}: {largest:g} from torch's own module"


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "numbers.safetensors"
        subprocess.run([sys.argv[1], str(file)], check=True)
        ours = read_safetensors(file)
    theirs, modules = python_numbers(), torch_modules()
    keys = sorted(set(ours) | set(theirs))
    sentences = [difference(key, ours.get(key), theirs.get(key)) for key in keys]
    sentences += [distance(key, ours[key], output) for key, output in modules.items()]
    differences = [sentence for sentence in sentences if sentence]
    print(*differences[:40], sep="\n")
    print(f"{len(sentences)} numbers compared, {len(differences)} differ")
    return 1 if differences or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
