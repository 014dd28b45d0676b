"""Digests of parameters that no optimizer of this process steps, as rows have them."""

from _lockstep import _library
from _lockstep._placement import placement_of

_MOST = 1024  # parameters
_MOST_BYTES = 256 * 2**20  # of these, so that it takes a moment


def digests_of(torch, parameters):
    """One for each, in their order; "": of none that is whole, of a type that has one, and among the first."""
    digests, size, digest = [], 0, _library.digester()
    for tensor in parameters[:_MOST]:
        text = ""
        try:
            placed = placement_of(tensor)
            if not placed.reason and placed.part is None:
                size += placed.local.numel() * placed.local.element_size()
                if size > _MOST_BYTES:
                    break
                text = digest_of(torch, placed.local, digest)
        except Exception:  # of a type without a digest, or a parameter that has no shape yet
            pass
        digests.append(text)
    return digests + [""] * (len(parameters) - len(digests))


def digest_of(torch, tensor, digest):
    """Of one with values in memory. `digest`: a digester."""
    with torch.no_grad():
        value = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return digest(str(value.dtype)[len("torch."):], tuple(value.shape), value.data_ptr())
