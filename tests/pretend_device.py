"""A pretend device, whose operations are computed on the CPU, but not with tensors of the CPU.

It shows without a GPU that every tensor is on the right device: results have the bits of the CPU, and a
tensor that was left on the CPU is an error. Like CUDA it accepts tensors without dimensions and indices from
the CPU. Unlike CUDA it draws no random numbers: those of the package come from generators on the CPU.

A tensor of the device has true sizes and strides. Its values are in a storage of the CPU, which is an
attribute of its own storage: views, and tensors that autograd saves, share the storage but not the object.
It uses private functions of torch 2.13, the version in constraints.txt.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration

NAME = "pretend"
KEY, AUTOCAST_KEY = "PrivateUse1", "AutocastPrivateUse1"
ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
AS_STRIDED = torch.ops.aten.as_strided.default
SET = torch.ops.aten.set_.source_Storage_storage_offset
MOVES = ("aten::_copy_from", "aten::_copy_from_and_resize")  # between devices
INDEXED = ("aten::index", "aten::index_put_", "aten::_index_put_impl_")  # by indices of any device
# Operations whose kernel for other devices consists of operations that the CPU does not use.
WHOLE = (
    "convolution", "convolution_backward", "silu_backward", "mse_loss", "index.Tensor", "index_put_",
    "_index_put_impl_",
)  # fmt: skip
IN_BF16 = ("conv2d", "linear", "matmul", "mm", "bmm", "addmm", "baddbmm")  # with autocast, as on the CPU

Pairs = list[tuple[Tensor, Tensor]]  # arguments on the CPU, with their tensors of the device
_libraries: list[torch.library.Library] = []  # a kernel is removed together with its library


class _Module(backend_registration._DummyBackendModule):
    """The module `torch.pretend`; the device has no random generator."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def get_rng_state(self, device: torch.device) -> Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: torch.device) -> None:
        pass


def register() -> torch.device:
    """Register the device, once in a process, and return it."""
    if not _libraries:
        # The first backward pass starts a thread for each device, after which a forked process cannot train.
        torch.ones(1, requires_grad=True).backward()
        torch.autograd.set_multithreading_enabled(False)
        backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
        default, aten = (torch.library.Library(name, "IMPL") for name in ("_", "aten"))
        default.fallback(compute, KEY)
        default.fallback(torch.library.fallthrough_kernel, AUTOCAST_KEY)
        aten.impl("as_strided", _as_strided, KEY)
        for name in WHOLE:
            aten.impl(name, _whole(name), KEY)
        for name in IN_BF16:
            aten.impl(name, _in_bf16(name), AUTOCAST_KEY)
        _libraries.extend([default, aten])
    return torch.device(NAME, 0)


def compute(op: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    """Compute any operation on the CPU, after checking that its tensors are on the device."""
    _check(op, args, kwargs)
    pairs: Pairs = []
    raw_args, raw_kwargs = _on_cpu(list(args), pairs), {k: _on_cpu(v, pairs) for k, v in kwargs.items()}
    if op._schema.name in MOVES:
        raw_args[1].copy_(raw_args[0])
        return args[1]
    numbers = [
        a for a, value in zip(op._schema.arguments, args, strict=False) if isinstance(value, float | int)
    ]
    # Torch passes a number as a tensor, which arrives here as a number again: another overload takes it.
    overloaded = any(str(argument.type) == "Tensor" for argument in numbers)
    result = (op._overloadpacket if overloaded else op)(*raw_args, **raw_kwargs)
    for raw, tensor in pairs:
        if raw.shape != tensor.shape:  # an empty tensor for a result of unknown size
            _place(tensor, raw, _new_storage(raw))
    return _on_device(result, pairs)


def _check(op: Any, args: Any, kwargs: Any) -> None:  # noqa: ANN401
    """Raise RuntimeError for a tensor on another device, and for random numbers."""
    name = op._schema.name
    if torch.Tag.nondeterministic_seeded in op.tags:
        raise RuntimeError(f"{name}: expected random numbers to be drawn on the CPU, not on {NAME}")
    if name in MOVES:
        return
    checked = (args[0], *args[2:]) if name in INDEXED else (*args, *kwargs.values())
    for tensor in _tensors(checked):
        if tensor.device.type != NAME and tensor.dim():
            raise RuntimeError(
                f"{name}: expected all tensors to be on the same device, {NAME}, found one of shape "
                f"{tuple(tensor.shape)} on {tensor.device}"
            )


def _tensors(values: Any) -> Iterator[Tensor]:  # noqa: ANN401
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _on_cpu(value: Any, pairs: Pairs) -> Any:  # noqa: ANN401
    """Return an argument on the CPU, where tensors share their values; add them to `pairs`."""
    if isinstance(value, list | tuple):
        return [_on_cpu(part, pairs) for part in value]
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if not isinstance(value, Tensor) or value.device.type != NAME:
        return value
    storage, raw = value.untyped_storage(), torch.empty(0, dtype=value.dtype)
    raw.set_(storage.values, value.storage_offset(), value.shape, value.stride())  # type: ignore[attr-defined]
    pairs.append((raw, value))
    return raw


def _on_device(result: Any, pairs: Pairs) -> Any:  # noqa: ANN401
    """Return a result on the device: an argument that was written to, a view of one, or a new tensor."""
    if isinstance(result, list | tuple):
        return [_on_device(part, pairs) for part in result]
    if not isinstance(result, Tensor):
        return result
    for raw, tensor in pairs:
        if raw is result:
            return tensor
    for raw, tensor in pairs:
        if raw.untyped_storage()._cdata == result.untyped_storage()._cdata:
            return _as_strided(tensor, result.shape, result.stride(), result.storage_offset())
    return _place(torch._C._acc.create_empty_tensor((), result.dtype), result, _new_storage(result))


def _new_storage(raw: Tensor) -> torch.UntypedStorage:
    """Return a storage of the device with the values of a tensor on the CPU."""
    values = raw.untyped_storage()
    place = values.data_ptr(), torch.device(NAME, 0), values.nbytes()
    storage: torch.UntypedStorage = torch._C._construct_storage_from_data_pointer(*place)
    storage.values = values  # type: ignore[attr-defined]
    return storage


def _place(tensor: Tensor, raw: Tensor, storage: torch.UntypedStorage) -> Tensor:
    """Give a tensor another storage, with the sizes of `raw`; the kernel of the CPU changes no values."""
    placed: Tensor = SET.redispatch(ON_CPU, tensor, storage, raw.storage_offset(), raw.shape, raw.stride())
    return placed


def _as_strided(tensor: Tensor, size: Any, stride: Any, offset: int | None = None) -> Tensor:  # noqa: ANN401
    """Return a view; the kernel of the CPU reads no values."""
    view: Tensor = AS_STRIDED.redispatch(ON_CPU, tensor, size, stride, offset)
    return view


def _operation(name: str) -> Any:  # noqa: ANN401
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _whole(name: str) -> Callable[..., Any]:
    op = _operation(name)
    return lambda *args, **kwargs: compute(op, *args, **kwargs)


def _in_bf16(name: str) -> Callable[..., Any]:
    op, autocast = _operation(name), torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def cast(value: Any) -> Any:  # noqa: ANN401
        return value.bfloat16() if isinstance(value, Tensor) and value.dtype == torch.float32 else value

    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with torch._C._ExcludeDispatchKeyGuard(autocast):
            return op(*map(cast, args), **kwargs)

    return call
