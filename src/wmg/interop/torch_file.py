"""PyTorch's `.pth` files: read without PyTorch, written with it.

A `.pth` file is a pickle, and a pickle is a program. Here it is not run but read: a small
stack machine follows the few opcodes that a dictionary of tensors needs and calls nothing.
Tensors are views of the file's bytes, so a file cannot ask for more memory than it has.
"""

import importlib
import io
import math
import os
import pathlib
import pickletools
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from wmg.tools import files
from wmg.tools.errors import BadInput, quote

Kind = TypeVar("Kind")

MAGIC = 0x1950A86A20F9469CFC6C
ZIP_MAGIC = b"PK\x03\x04"
PROTOCOL = 1001
LARGEST_FILE = 2**31
MOST_OPCODES = 200_000
"""Most opcodes of a pickle. Each may make an object; a tensor has about 40."""
STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}
DICTIONARY = ("collections", "OrderedDict")
TENSOR = ("torch._utils", "_rebuild_tensor_v2")
PARAMETER = ("torch._utils", "_rebuild_parameter")


class _Refused(Exception):
    """Why a file is not read; `read_pth` adds the file's name."""


class _Global(NamedTuple):
    """A name the file refers to. It is never looked up."""

    module: str
    name: str


class _Storage(NamedTuple):
    dtype: np.dtype
    key: str
    length: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_ZIP_ERRORS = (
    zipfile.BadZipFile,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""All that `zipfile` has been seen to raise on damaged archives."""
_MARK = object()
"""Stands on the stack where a MARK opcode was."""


def read_pth(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The tensors of a state dict, as read-only arrays; nothing in the file is executed."""
    path = pathlib.Path(path)
    try:
        data = files.read_bounded(path, LARGEST_FILE)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # no regular file, or too large
        raise BadInput(str(error)) from None
    try:
        return _read_zip(data) if data.startswith(ZIP_MAGIC) else _read_old(data)
    except _Refused as error:
        raise BadInput(f"{path} is not a readable PyTorch state dict: {error}") from None


def _read_zip(data: bytes) -> dict[str, np.ndarray]:
    """The form of PyTorch 1.6 and later: a zip file with one member per storage."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = _stored_members(archive, len(data))
    except _ZIP_ERRORS as error:
        raise _Refused(f"its zip archive is damaged ({error})") from None
    roots = [name[: -len("data.pkl")] for name in members if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise _Refused("its zip archive has no data.pkl")
    if members.get(roots[0] + "byteorder", b"little") != b"little":
        raise _Refused("it was written on a big-endian machine")

    def storage_bytes(storage: _Storage) -> tuple[bytes, int]:
        member = members.get(f"{roots[0]}data/{storage.key}")
        if member is None or len(member) != storage.length * storage.dtype.itemsize:
            raise _Refused(f"storage {quote(storage.key)} is missing or cut short")
        return member, 0

    state = _Pickle(io.BytesIO(members[roots[0] + "data.pkl"])).load()
    return _arrays(state, storage_bytes)


def _stored_members(archive: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    infos = archive.infolist()
    # PyTorch never compresses. Taking only that, and no more than the file's own size in
    # all, makes a zip bomb impossible.
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
        raise _Refused("its zip archive is compressed")
    if sum(info.file_size for info in infos) > size:
        raise _Refused("its zip archive is damaged (members overlap)")
    return {info.filename: archive.read(info) for info in infos}


def _read_old(data: bytes) -> dict[str, np.ndarray]:
    """The form before PyTorch 1.6: five pickles, then every storage behind its length."""
    file = io.BytesIO(data)
    if _Pickle(file).load() != MAGIC:
        raise _Refused("it does not begin as one")
    if _Pickle(file).load() != PROTOCOL:
        raise _Refused("its protocol is not known")
    system = _Pickle(file).load()
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _Refused("it was written on a big-endian machine")
    state, keys = _Pickle(file).load(), _Pickle(file).load()
    storages = {tensor.storage.key: tensor.storage for tensor in _tensors(state).values()}
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise _Refused("its list of storages is damaged")
    starts: dict[str, int] = {}
    place = file.tell()
    for key in keys:
        if key not in storages or key in starts:
            raise _Refused(f"storage {quote(key)} is not part of it")
        storage = storages[key]
        starts[key] = place + 8
        place = starts[key] + storage.length * storage.dtype.itemsize
        count = int.from_bytes(data[starts[key] - 8 : starts[key]], "little")
        if count != storage.length or place > len(data):
            raise _Refused(f"storage {quote(key)} is cut short")

    def storage_bytes(storage: _Storage) -> tuple[bytes, int]:
        if storage.key not in starts or storages[storage.key] != storage:
            raise _Refused(f"storage {quote(storage.key)} is missing")
        return data, starts[storage.key]

    return _arrays(state, storage_bytes)


def _tensors(state: Any) -> dict[str, _Tensor]:
    if not isinstance(state, dict) or not state:
        raise _Refused("it holds no dictionary of tensors")
    for name, tensor in state.items():
        if not isinstance(tensor, _Tensor):
            raise _Refused(f"its entry {quote(name)} is not a tensor")
    return state


def _arrays(
    state: Any, storage_bytes: Callable[[_Storage], tuple[bytes, int]]
) -> dict[str, np.ndarray]:
    """Each tensor as a view of its storage, if it lies within it."""
    return {
        name: _view(name, tensor, *storage_bytes(tensor.storage))
        for name, tensor in _tensors(state).items()
    }


def _view(name: str, tensor: _Tensor, data: bytes, start: int) -> np.ndarray:
    storage, size = tensor.storage, tensor.storage.dtype.itemsize
    count = math.prod(tensor.shape)
    steps = zip(tensor.shape, tensor.strides, strict=True)
    last = tensor.offset + sum((length - 1) * stride for length, stride in steps)
    # The count, too: strides of zero make a tensor of any size out of one number.
    if not count or count > storage.length or last >= storage.length:
        raise _Refused(f"tensor {quote(name)} is empty or reaches outside its storage")
    # A stride along a dimension of 1 is not used and may be anything.
    strides = [stride if n > 1 else 0 for n, stride in zip(*tensor[2:], strict=True)]
    strides = [stride * size for stride in strides]
    return np.ndarray(tensor.shape, storage.dtype, data, start + tensor.offset * size, strides)


class _Pickle:
    """Reads one pickle of plain data and tensors: a stack machine that calls nothing."""

    def __init__(self, file: io.BytesIO):
        self.file = file
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The pickled object; the file then stands behind it."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strange escapes in strings of no use
                for count, (opcode, argument, _) in enumerate(pickletools.genops(self.file)):
                    if count == MOST_OPCODES:
                        raise _Refused(f"its pickle has more than {MOST_OPCODES:,} opcodes")
                    if opcode.name == "STOP":
                        return self.stack.pop()
                    self._follow(opcode.name, argument)
        except (ValueError, IndexError, KeyError, TypeError, StopIteration):
            pass  # pickletools and the stack say in many ways that the bytes make no sense
        raise _Refused("its pickle is cut short or damaged")

    def _follow(self, opcode: str, argument: Any) -> None:
        if opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode]())
        elif opcode in _LITERALS:
            self.stack.append(argument)
        elif opcode in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif opcode == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif opcode in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif opcode in _ACTIONS:
            _ACTIONS[opcode](self, argument)
        else:
            raise _Refused(f"its pickle has the opcode {opcode}, which no state dict needs")

    def _pop(self, count: int) -> tuple[Any, ...]:
        if count > len(self.stack):
            raise IndexError
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return tuple(items)

    def _pop_to_mark(self) -> tuple[Any, ...]:
        above = next(i for i, item in enumerate(reversed(self.stack)) if item is _MARK)
        return self._pop(above + 1)[1:]

    def _tuple(self, _: Any) -> None:
        self.stack.append(self._pop_to_mark())

    def _set_items(self, items: tuple[Any, ...]) -> None:
        names = items[::2]
        # Names only: to hash a tuple nested a million times would end the process.
        if not all(isinstance(name, str) for name in names) or len(items) % 2:
            raise TypeError
        _expect(dict, self.stack[-1]).update(zip(names, items[1::2], strict=True))

    def _append(self, items: tuple[Any, ...]) -> None:
        _expect(list, self.stack[-1]).extend(items)

    def _name(self, argument: str | None) -> None:
        module, name = self._pop(2) if argument is None else argument.split(" ")
        asked = f"{_expect(str, module)}.{_expect(str, name)}"
        allowed = (module, name) in (DICTIONARY, TENSOR, PARAMETER)
        if not allowed and not (module == "torch" and name in STORAGES):
            raise _Refused(f"it asks for {quote(asked)}, which no state dict needs")
        self.stack.append(_Global(module, name))

    def _call(self, _: Any) -> None:
        """What calling one of the three known names would give, without calling it."""
        name, arguments = self._pop(2)
        if name == DICTIONARY and arguments == ():
            self.stack.append({})
        elif name == TENSOR:
            self.stack.append(_tensor(*arguments[:4]))
        elif name == PARAMETER:
            self.stack.append(_expect(_Tensor, arguments[0]))
        else:
            raise _Refused("its pickle makes a call that no state dict needs")

    def _build(self, _: Any) -> None:
        # Attributes of the dictionary itself: PyTorch's version notes, not needed.
        self._pop(1)
        _expect(dict, self.stack[-1])

    def _persistent(self, _: Any) -> None:
        (reference,) = self._pop(1)
        word, kind, key, _, count, *view = reference
        known = word == "storage" and isinstance(kind, _Global) and kind.name in STORAGES
        if not known or not isinstance(key, str) or not _is_count(count) or any(view):
            raise _Refused("its pickle refers to something that is not a storage")
        self.stack.append(_Storage(np.dtype(STORAGES[kind.name]), key, count))


def _expect(kind: type[Kind], value: Any) -> Kind:
    if not isinstance(value, kind):
        raise TypeError
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any) -> _Tensor:
    fits = len(shape) == len(strides) <= 8
    if not fits or not all(_is_count(number) for number in (offset, *shape, *strides)):
        raise TypeError
    return _Tensor(_expect(_Storage, storage), offset, tuple(shape), tuple(strides))


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": lambda: _MARK,
}
_LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"} | {
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINSTRING",
    "SHORT_BINSTRING",
}
_ACTIONS: dict[str, Callable[[_Pickle, Any], None]] = {
    "PROTO": lambda pickle, _: None,
    "FRAME": lambda pickle, _: None,
    "TUPLE": _Pickle._tuple,
    "TUPLE1": lambda pickle, _: pickle.stack.append(pickle._pop(1)),
    "TUPLE2": lambda pickle, _: pickle.stack.append(pickle._pop(2)),
    "TUPLE3": lambda pickle, _: pickle.stack.append(pickle._pop(3)),
    "SETITEM": lambda pickle, _: pickle._set_items(pickle._pop(2)),
    "SETITEMS": lambda pickle, _: pickle._set_items(pickle._pop_to_mark()),
    "APPEND": lambda pickle, _: pickle._append(pickle._pop(1)),
    "APPENDS": lambda pickle, _: pickle._append(pickle._pop_to_mark()),
    "GLOBAL": _Pickle._name,
    "STACK_GLOBAL": _Pickle._name,
    "REDUCE": _Pickle._call,
    "BUILD": _Pickle._build,
    "BINPERSID": _Pickle._persistent,
}


def write_pth(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray]) -> None:
    """A state dict in the old form, which every version of PyTorch reads."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise BadInput(
            f"writing {os.fspath(path)} needs torch: pip install 'wmg[official]'"
        ) from None
    state = {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()}
    written = io.BytesIO()
    torch.save(state, written, _use_new_zipfile_serialization=False)
    try:
        files.write_atomically(pathlib.Path(path), written.getvalue())
    except OSError as error:
        raise BadInput(f"{os.fspath(path)} cannot be written: {error.strerror}") from None
