"""Model files go in, are mapped and read anywhere, and come out byte for byte."""

import pytest

import models

LAYOUTS = ["aligned", "file"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_comes_back_identical_and_its_tensors_read_right_on_every_node(pool3, tmp_path, layout):
    source = tmp_path / "model.safetensors"
    content = models.small_model(source)
    pool3[0].cli("import", source, "--layout", layout).ok()
    for node in pool3:
        assert node.segments()["model"]["tensors"] == len(content)
        for name in ("layer.0.weight", "layer.7.norm"):
            read = node.cli("read", "model", "--tensor", name, binary=True)
            assert read.code == 0 and read.out == content[name]
    pool3[2].cli("export", "model", tmp_path / "out").ok()
    assert models.same_file(source, tmp_path / "out/model.safetensors")
    pool3[1].cli("verify", "model").ok()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shards_and_their_index_come_back_identical(pool3, tmp_path, layout):
    source = tmp_path / "shards"
    content = models.sharded(source, [{"a.weight": ("F32", (300, 700)), "b": ("U8", (3,))},
                                      {"c.weight": ("BF16", (1000, 513))}, {"d": ("I64", ())}])
    pool3[0].cli("import", source / "model.safetensors.index.json", "--name", "sharded", "--layout", layout).ok()
    for name, want in content.items():
        assert pool3[1].cli("read", "sharded", "--tensor", name, binary=True).out == want
    pool3[1].cli("export", "sharded", tmp_path / "out").ok()
    for file in source.iterdir():
        assert models.same_file(file, tmp_path / "out" / file.name), file.name


def test_any_other_file_goes_in_as_raw_bytes(pool3, tmp_path):
    source = tmp_path / "blob.bin"
    source.write_bytes(models.tensor_bytes(9, 1_000_003))
    pool3[0].cli("import", source, "--name", "blob").ok()
    pool3[1].cli("export", "blob", tmp_path / "out").ok()
    assert models.same_file(source, tmp_path / "out/blob.bin")


def test_a_second_import_takes_the_name_and_the_old_bytes_are_freed(pool3, tmp_path):
    source = tmp_path / "model.safetensors"
    models.small_model(source, seed=1)
    pool3[0].cli("import", source).ok()
    used = sum(node.used_bytes() for node in pool3)
    content = models.small_model(source, seed=2)
    pool3[1].cli("import", source).ok()
    assert pool3[2].cli("read", "model", "--tensor", "layer.3.weight", binary=True).out == content["layer.3.weight"]
    from harness import wait_until
    wait_until(lambda: sum(node.used_bytes() for node in pool3) == used, "the replaced segment's memory is free")


def test_removing_gives_the_memory_back(pool3, tmp_path):
    source = tmp_path / "model.safetensors"
    models.small_model(source)
    before = [node.used_bytes() for node in pool3]
    pool3[0].cli("import", source).ok()
    assert sum(node.used_bytes() for node in pool3) > sum(before)
    pool3[1].cli("rm", "model").ok()
    from harness import wait_until
    wait_until(lambda: [node.used_bytes() for node in pool3] == before, "every node is as empty as before")
    assert pool3[2].segments() == {}


def test_renaming_keeps_the_bytes(pool3, tmp_path):
    source = tmp_path / "model.safetensors"
    content = models.small_model(source, megabytes=2)
    pool3[0].cli("import", source).ok()
    pool3[1].cli("rename", "model", "models/first").ok()
    assert list(pool3[2].segments()) == ["models/first"]
    read = pool3[2].cli("read", "models/first", "--tensor", "layer.1.norm", binary=True)
    assert read.out == content["layer.1.norm"]


def test_create_and_write_hold_exactly_what_was_given(pool3, tmp_path):
    pool3[0].cli("write", "note", stdin="seventeen bytes !").ok()
    assert pool3[1].cli("read", "note").ok() == "seventeen bytes !"
    pool3[0].cli("create", "zeros", "--bytes", "100000").ok()
    assert pool3[2].cli("read", "zeros", binary=True).out == bytes(100000)
    assert pool3[2].cli("read", "zeros", "--offset", "99990", "--bytes", "100", binary=True).out == bytes(10)


def test_an_import_that_is_cancelled_leaves_nothing(pool3, tmp_path):
    source = tmp_path / "model.safetensors"
    models.small_model(source, megabytes=200)
    before = [node.used_bytes() for node in pool3]
    pool3[0].cli("import", source, "--detach").ok()
    job = pool3[0].cli("jobs", "--json").document()["jobs"][-1]["job"]
    cancelled = pool3[0].cli("jobs", "--cancel", job)
    from harness import wait_until
    state = lambda: pool3[0].cli("jobs", "--json").document()["jobs"][-1]["state"]
    wait_until(lambda: state() in ("cancelled", "done"), "the job ends")
    if state() == "done":
        pool3[0].cli("rm", "model").ok()
    else:
        assert cancelled.code == 0
        assert pool3[1].segments() == {}
    wait_until(lambda: [node.used_bytes() for node in pool3] == before, "every node is as empty as before")
