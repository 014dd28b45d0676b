"""The facts about devices and memory, of stand-ins for GPUs and for the torch that knows them:
device_facts.py PYTHON_FOLDER"""

import sys
import types

sys.path.insert(0, sys.argv[1])
from _lockstep import _devices  # noqa: E402

CUDA = types.SimpleNamespace(
    is_initialized=lambda: True, device_count=lambda: 2, max_memory_allocated=lambda device: 100 + device,
    get_device_properties=lambda device: types.SimpleNamespace(uuid="GPU-" + device[-1]))
TORCH = types.SimpleNamespace(cuda=CUDA)


def parameters(*places):
    """Pairs of tensor and name, in the order of the devices `places`."""
    return [(types.SimpleNamespace(device=device), "p%d" % number) for number, device in enumerate(places)]


def fails(*_):
    raise RuntimeError("CUDA error: unspecified launch failure")


def main():
    assert _devices.uses_of(TORCH, []) == []
    assert _devices.uses_of(TORCH, parameters("cpu", "cpu")) == [
        {"device": "cpu", "id": "", "parameters": 2, "names": []}]
    assert _devices.uses_of(TORCH, parameters("cpu", "cuda:1", "cuda:0", "cuda:1", "cpu", "cuda:1")) == [
        {"device": "cuda:1", "id": "GPU-1", "parameters": 3, "names": []},
        {"device": "cpu", "id": "", "parameters": 2, "names": ["p0", "p4"]},
        {"device": "cuda:0", "id": "GPU-0", "parameters": 1, "names": ["p2"]}]
    many = _devices.uses_of(TORCH, parameters(*["cuda:0"] * 300, *["cpu"] * 200))
    assert many[1]["parameters"] == 200 and len(many[1]["names"]) == 64

    memory = _devices.memory_of(TORCH)
    assert memory["peak_device_bytes"] == 201 and memory["peak_bytes"] > 2**20, memory
    # A job whose driver failed is not harmed.
    broken = types.SimpleNamespace(cuda=types.SimpleNamespace(
        is_initialized=fails, get_device_properties=fails))
    assert _devices.memory_of(broken)["peak_device_bytes"] == 0
    assert _devices.uses_of(broken, parameters("cuda:0"))[0]["id"] == ""


main()
