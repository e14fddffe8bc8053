"""Whatever a person or a file gets wrong: one line that says so, the right exit code, and a pool as it was before."""

import json
import shutil
import struct
import subprocess

import pytest

import models
from harness import wait_until


def header(**tensors):
    return {name: dict(zip(("dtype", "shape", "data_offsets"), value)) for name, value in tensors.items()}


def cut(path):
    models.small_model(path, megabytes=1)
    path.write_bytes(path.read_bytes()[:-1000])


def wrong_magic(path):
    path.write_bytes(b"GGUX" + struct.pack("<IQQ", 3, 0, 0) + bytes(64))


def header_beyond_file(path):
    path.write_bytes(struct.pack("<Q", 1 << 40) + b"{}" + bytes(100))


def overlapping(path):
    models.write_safetensors(path, header(a=("U8", [64], [0, 64]), b=("U8", [64], [32, 96])), bytes(96))


def overflowing_shape(path):
    models.write_safetensors(path, header(a=("F32", [1 << 62, 1 << 62], [0, 64])), bytes(64))


def wrong_size(path):
    models.write_safetensors(path, header(a=("F32", [100], [0, 64])), bytes(64))


def duplicate_names(path):
    text = b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}'
    models.write_safetensors(path, text, bytes(8))


def no_json(path):
    models.write_safetensors(path, b'{"a": nonsense', bytes(8))


def empty(path):
    path.write_bytes(b"")


BROKEN = [(cut, "safetensors"), (wrong_magic, "gguf"), (header_beyond_file, "safetensors"), (overlapping, "safetensors"),
          (overflowing_shape, "safetensors"), (wrong_size, "safetensors"), (duplicate_names, "safetensors"),
          (no_json, "safetensors"), (empty, "safetensors")]


def stable(pool):
    """What must not change: names, memory, jobs apart."""
    return [(node.segments(), node.used_bytes(), node.status()["health"]) for node in pool]


@pytest.fixture(scope="module")
def pool2(programs, tmp_path_factory):
    import pathlib
    import tempfile

    from harness import Pool
    memory = pathlib.Path(tempfile.mkdtemp(prefix="vrampool-test-", dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None))
    run = pathlib.Path(tempfile.mkdtemp(prefix="vp-"))
    pool = Pool(programs, run, memory, capacity=256 << 20)
    try:
        yield pool.start(2)
        pool.stop()
    finally:
        for node in pool.nodes:
            if node.process and node.process.poll() is None:
                node.kill()
        print(pool.logs())
        shutil.rmtree(memory, ignore_errors=True)
        shutil.rmtree(run, ignore_errors=True)


@pytest.mark.parametrize("make, ending", BROKEN, ids=[make.__name__ for make, _ in BROKEN])
def test_a_broken_file_is_refused(pool2, tmp_path, make, ending):
    path = tmp_path / f"broken.{ending}"
    make(path)
    before = stable(pool2)
    line = pool2[0].cli("import", path).failed(1)
    assert "broken" in line, line
    wait_until(lambda: stable(pool2) == before, "the pool is as it was")


def test_a_missing_shard_is_named(pool2, tmp_path):
    models.sharded(tmp_path, [{"a": ("U8", (10,))}, {"b": ("U8", (10,))}])
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    before = stable(pool2)
    pool2[0].cli("import", tmp_path / "model.safetensors.index.json").failed(1, "model-00002-of-00002")
    assert stable(pool2) == before


def test_a_file_that_is_not_there_is_named(pool2, tmp_path):
    pool2[0].cli("import", tmp_path / "nothing.gguf").failed(1, "nothing.gguf")


def test_more_than_the_pool_has_is_refused_with_the_figures(pool2, tmp_path):
    before = stable(pool2)
    pool2[0].cli("create", "huge", "--bytes", "1TiB").failed(1, "1 TiB")
    assert stable(pool2) == before


def test_a_segment_of_no_bytes_is_refused(pool2):
    pool2[0].cli("create", "none", "--bytes", "0").failed(1, "at least one byte")
    pool2[0].cli("write", "none", stdin="").failed(1, "empty")


@pytest.mark.parametrize("verb", [("inspect",), ("rm",), ("verify",), ("read",), ("export", "out")],
                         ids=lambda v: v[0])
def test_an_unknown_name_is_said_to_be_unknown(pool2, tmp_path, verb):
    arguments = [verb[0], "no-such-segment", *[tmp_path / a for a in verb[1:]]]
    pool2[1].cli(*arguments).failed(1, "no-such-segment")


@pytest.mark.parametrize("name", ["../up", "/abs", "a//b", "with space", "x" * 300])
def test_an_impossible_name_is_refused(pool2, tmp_path, name):
    source = tmp_path / "m.safetensors"
    models.small_model(source, megabytes=1)
    pool2[0].cli("import", source, "--name", name).failed(1, "name")


@pytest.mark.parametrize("arguments", [["frobnicate"], ["ls", "--nonsense"], ["create", "x", "--bytes", "1Q"], ["rm"],
                                       ["import", "f", "--layout", "sideways"], ["bench", "nothing"], ["completion"]])
def test_wrong_usage_is_exit_2_and_one_line(pool2, arguments):
    pool2[0].cli(*arguments).failed(2, "see vrampool")


def test_a_typing_error_gets_a_suggestion(pool2):
    pool2[0].cli("statsu").failed(2, "did you mean status")


def test_no_daemon_is_exit_3_and_says_where_it_looked(programs, tmp_path):
    done = subprocess.run([programs.cli, "--socket", tmp_path / "nobody", "status"], capture_output=True, text=True)
    assert done.returncode == 3
    assert "nobody" in done.stderr and "start" in done.stderr


def test_a_wrong_key_cannot_join(pool_of, tmp_path):
    pool = pool_of(1)
    token = pool.invitation()
    stranger = pool.add("stranger")
    head, at, address = token.rpartition("@")
    broken = head[:-6] + ("000000" if head[-6:] != "000000" else "111111") + at + address
    stranger.cli("join", broken).failed(1)
    stranger.cli("join", "nonsense").failed(1)
    assert pool.alive(pool[0]) == ["n1"]
    stranger.cli("join", token).ok()
    pool.wait_for_members(2)


def run_daemon(programs, *arguments):
    return subprocess.run([programs.daemon, *map(str, arguments)], capture_output=True, text=True, timeout=20)


def daemon_arguments(run_root, memory_root):
    return ["--config", "/dev/null", "--name", "x", "--listen", "127.0.0.1", "--control-port", 0, "--data-port", 0,
            "--state-dir", run_root / "state", "--run-dir", run_root, "--socket", run_root / "s",
            "--memory-dir", memory_root, "--capacity", "64MiB"]


def test_malformed_configuration_is_reported_with_its_line(programs, tmp_path):
    config = tmp_path / "bad.toml"
    config.write_text('[node]\nname = "x"\n[memory\ncapacity = "1GiB"\n')
    done = run_daemon(programs, "--config", config, "--check-config")
    assert done.returncode != 0
    assert "bad.toml:3" in done.stderr, done.stderr
    config.write_text('[node]\nname = "x"\nnamee = "y"\n')
    done = run_daemon(programs, "--config", config, "--check-config")
    assert done.returncode != 0 and "namee" in done.stderr and "bad.toml:3" in done.stderr, done.stderr


def test_a_port_in_use_is_reported(pool_of, programs, run_root, memory_root):
    pool = pool_of(1)
    other = pool.run_root / "other"
    other.mkdir()
    (pool.memory_root / "other").mkdir()
    arguments = daemon_arguments(other, pool.memory_root / "other")
    arguments[arguments.index("--control-port") + 1] = pool[0].ports["control"]
    second = subprocess.Popen([programs.daemon, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        # The port is taken when the node has a pool to serve; until then it may wait.
        wait_until(lambda: (other / "s").exists() or second.poll() is not None, "the daemon is up or gave up")
        if second.poll() is None:
            init = subprocess.run([programs.cli, "--socket", other / "s", "init"], capture_output=True, text=True)
            text = init.stderr
        wait_until(lambda: second.poll() is not None or "in use" in text, f"the daemon says that the port is in use, not: {text}")
        if second.poll() is not None:
            text += second.stdout.read()
        assert "in use" in text and str(pool[0].ports["control"]) in text, text
    finally:
        second.kill()
        second.wait()


def test_a_state_directory_that_cannot_be_used_is_reported(programs, run_root, memory_root):
    (run_root / "state").write_text("a file")
    done = run_daemon(programs, *daemon_arguments(run_root, memory_root))
    assert done.returncode not in (0, None)
    assert "state" in done.stderr, done.stderr


def test_two_daemons_do_not_share_a_state_directory(pool_of, programs):
    pool = pool_of(1)
    arguments = daemon_arguments(pool[0].dir, pool[0].memory)
    arguments[arguments.index("--socket") + 1] = pool[0].dir / "other-socket"
    done = run_daemon(programs, *arguments)
    assert done.returncode not in (0, None)
    assert "state" in done.stderr or "already" in done.stderr, done.stderr
    assert pool[0].status()["health"] == []


def test_json_errors_are_documents_too(pool2):
    ran = pool2[0].cli("inspect", "no-such-segment", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["schema"] == "vrampool.error"
