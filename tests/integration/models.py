"""Model files for tests: small safetensors written by hand, and broken ones."""

import hashlib
import json
import random
import struct

DTYPES = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "I64": 8}


def tensor_bytes(seed, count):
    return random.Random(seed).randbytes(count)


def safetensors(path, tensors, seed=1, metadata=None):
    """tensors: {name: (dtype, shape)}. Returns {name: bytes}."""
    header, body, content = {}, b"", {}
    if metadata:
        header["__metadata__"] = metadata
    for number, (name, (dtype, shape)) in enumerate(tensors.items()):
        count = DTYPES[dtype]
        for dimension in shape:
            count *= dimension
        content[name] = tensor_bytes(seed * 1000 + number, count)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(body), len(body) + count]}
        body += content[name]
    write_safetensors(path, header, body)
    return content


def write_safetensors(path, header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def sharded(directory, shards, seed=5):
    """shards: list of {name: (dtype, shape)}; writes the shards and their index."""
    directory.mkdir(parents=True, exist_ok=True)
    content, weights = {}, {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        content.update(safetensors(directory / name, tensors, seed + number))
        weights.update({tensor: name for tensor in tensors})
    index = {"metadata": {}, "weight_map": weights}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return content


def small_model(path, megabytes=24, seed=1):
    """About so many megabytes in tensors of odd sizes."""
    tensors = {}
    rows = max(1, megabytes * 1_000_000 // (8 * 1021 * 4))
    for number in range(8):
        tensors[f"layer.{number}.weight"] = ("F32", (rows, 1021))
        tensors[f"layer.{number}.norm"] = ("BF16", (1021,))
    return safetensors(path, tensors, seed)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def same_file(a, b):
    return a.read_bytes() == b.read_bytes()
