"""Fixtures: real daemons on loopback with directories of their own, and the programs that talk to them."""

import pathlib
import shutil
import tempfile

import pytest

from harness import MappedProgram, Pool, Programs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def pytest_addoption(parser):
    parser.addoption("--vp-build", default="build/dev", help="build folder with bin/vrampool and bin/vrampoold")


def pytest_configure(config):
    config.addinivalue_line("markers", "models: needs real model files from PyPI")
    config.addinivalue_line("markers", "root: needs to mount a small tmpfs")


@pytest.fixture(scope="session")
def programs(request):
    found = Programs(ROOT / request.config.getoption("--vp-build"))
    found.check()
    return found


@pytest.fixture
def memory_root():
    """A directory on a tmpfs, gone afterwards."""
    base = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="vrampool-test-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def run_root():
    """A short path: a unix socket's must fit 104 characters."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="vp-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def pool_of(programs, run_root, memory_root, request):
    """pool_of(3) starts a pool of three nodes; every daemon is ended and every log shown on failure."""
    pools = []

    def start(count, **options):
        pool = Pool(programs, run_root / f"p{len(pools)}", memory_root / f"p{len(pools)}", **options)
        pools.append(pool)
        pool.start(count)
        return pool

    yield start
    for pool in pools:
        pool.stop()
        print(pool.logs())


@pytest.fixture
def pool3(pool_of):
    return pool_of(3)


@pytest.fixture
def mapped():
    """mapped(node, segment) starts a program that has the segment mapped; it is ended with the test."""
    started = []

    def start(*arguments, **options):
        started.append(MappedProgram(*arguments, **options))
        return started[-1]

    yield start
    for program in started:
        program.end()
