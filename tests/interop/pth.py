"""PyTorch's files of tensors, put together without PyTorch."""

import io
import pickle
import struct
import zipfile

import numpy as np

from wmg.interop import torch_file

STORAGE = {np.dtype("f4"): b"FloatStorage", np.dtype("i8"): b"LongStorage"}


def number(value):
    return b"J" + struct.pack("<i", value)


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def numbers(values):
    return b"(" + b"".join(number(value) for value in values) + b"t"


def tensor_code(key, array, *, shape=None, strides=None, offset=0):
    """Opcodes that make a tensor, as PyTorch writes them."""
    strides = [s // array.itemsize for s in array.strides] if strides is None else strides
    storage = b"(" + text("storage") + b"ctorch\n" + STORAGE[array.dtype] + b"\n"
    storage += text(key) + text("cpu") + number(array.size) + b"tQ"
    place = number(offset) + numbers(array.shape if shape is None else shape)
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + place + numbers(strides) + hooks + b"tR"
    )


def state_code(entries):
    """A pickled OrderedDict with PyTorch's `_metadata` attribute."""
    body = b"".join(text(name) + code for name, code in entries.items())
    metadata = b"}" + text("_metadata") + b"}sb"
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + body + b"u" + metadata + b"."


def entries(tensors):
    return {name: tensor_code(str(i), a) for i, (name, a) in enumerate(tensors.items())}


def old_form(code, tensors):
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}
    head = [torch_file.MAGIC, torch_file.PROTOCOL, system]
    keys = [str(i) for i in range(len(tensors))]
    data = b"".join(pickle.dumps(item, 2) for item in head) + code + pickle.dumps(keys, 2)
    for array in tensors.values():
        data += struct.pack("<q", array.size) + array.tobytes()
    return data


def zip_form(code, tensors, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("model/data.pkl", code)
        for i, array in enumerate(tensors.values()):
            archive.writestr(f"model/data/{i}", array.tobytes())
    return file.getvalue()


def write(path, tensors):
    """What `torch_file.write_pth` does, without PyTorch."""
    path.write_bytes(old_form(state_code(entries(tensors)), tensors))
