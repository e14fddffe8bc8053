"""Daemons, the command line and the test programs as Python objects. Standard library only."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

DEADLINE_S = 30


def wait_until(condition, what, deadline_s=DEADLINE_S):
    """Polls until condition() is true; its last value is returned."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.02)


def free_port():
    """A port that nobody has now. The roster names it, so a daemon cannot just take any."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Programs:
    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.cli = self.build / "bin/vrampool"
        self.daemon = self.build / "bin/vrampoold"
        self.library = self.build / ("client/libvrampool.dylib" if sys.platform == "darwin" else "client/libvrampool.so")

    def check(self):
        for path in (self.cli, self.daemon):
            assert path.is_file(), f"{path} is not built; run make build"


class Ran:
    """What a program said and how it ended."""

    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def ok(self):
        assert self.code == 0, f"exit {self.code}: {self.err or self.out}"
        return self.out

    def document(self):
        return json.loads(self.ok())

    def failed(self, code, *words):
        """One line on stderr that holds every one of `words`, and that exit code."""
        assert self.code == code, f"exit {self.code}, not {code}: {self.err or self.out}"
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, f"more or less than one line: {lines}"
        for word in words:
            assert re.search(word, lines[0], re.I), f"no {word!r} in: {lines[0]}"
        return lines[0]


class Node:
    def __init__(self, pool, name):
        self.pool, self.name = pool, name
        self.dir = pool.run_root / name
        self.memory = pool.memory_root / name
        self.socket = self.dir / "s"
        self.log = self.dir / "log"
        self.process = None
        self.extra = []
        self.ports = {"control": free_port(), "data": free_port()}
        self.dir.mkdir(parents=True)
        self.memory.mkdir(parents=True)

    def arguments(self):
        return ["--config", "/dev/null", "--name", self.name, "--listen", "127.0.0.1", "--advertise", "127.0.0.1",
                "--control-port", str(self.ports["control"]), "--data-port", str(self.ports["data"]),
                "--state-dir", self.dir / "state", "--run-dir", self.dir, "--socket", self.socket,
                "--memory-dir", self.memory, "--capacity", str(self.pool.capacity), "--overcommit",
                "--log-level", "info", *self.extra]

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([str(a) for a in [self.pool.programs.daemon, *self.arguments()]],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.answers, f"{self.name} answers; its log: {self.log_tail()}")
        return self

    def answers(self):
        assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}: {self.log_tail()}"
        return self.cli("version", "--json").document()["daemon"] is not None

    def environment(self):
        return {**os.environ, "VRAMPOOL_SOCKET": str(self.socket)}

    def cli(self, *arguments, stdin=None, timeout=120, binary=False):
        source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        done = subprocess.run([str(self.pool.programs.cli), *map(str, arguments)], env=self.environment(),
                              capture_output=True, text=not binary, timeout=timeout, **source)
        return Ran(done)

    def background(self, *arguments):
        return subprocess.Popen([str(self.pool.programs.cli), *map(str, arguments)], env=self.environment(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def status(self):
        return self.cli("status", "--json").document()

    def segments(self):
        return {s["name"]: s for s in self.cli("ls", "--json").document()["segments"]}

    def used_bytes(self):
        return self.status()["node"]["used_bytes"]

    def kill(self):
        """SIGKILL: no chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{self.name} did not end within 15 s of SIGTERM: {self.log_tail()}")

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def log_tail(self):
        return self.log.read_text()[-2000:] if self.log.exists() else ""


class Pool:
    def __init__(self, programs, run_root, memory_root, capacity=512 << 20):
        self.programs, self.run_root, self.memory_root = programs, pathlib.Path(run_root), pathlib.Path(memory_root)
        self.capacity = capacity
        self.nodes = []

    def add(self, name):
        node = Node(self, name)
        self.nodes.append(node)
        return node.start()

    def start(self, count):
        for number in range(1, count + 1):
            self.add(f"n{number}")
        if count:
            self.nodes[0].cli("init").ok()
            for node in self.nodes[1:]:
                self.join(node)
            self.wait_for_members(count)
        return self

    def join(self, node):
        node.cli("join", self.invitation()).ok()

    def invitation(self):
        return self.nodes[0].cli("invite").ok().split()[-1]

    def alive(self, node):
        return sorted(n["name"] for n in node.status()["nodes"] if n["state"] == "alive")

    def wait_for_members(self, count):
        for node in self.nodes:
            if node.process.poll() is None:
                wait_until(lambda node=node: len(self.alive(node)) == count, f"{node.name} sees {count} nodes")

    def __getitem__(self, index):
        return self.nodes[index]

    def stop(self):
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.resume()
        failures = []
        for node in self.nodes:
            try:
                node.stop()
            except AssertionError as failure:
                failures.append(str(failure))
        assert not failures, failures

    def logs(self):
        return "\n".join(f"---- {node.name}\n{node.log_tail()}" for node in self.nodes)


class MappedProgram:
    """mapped.py as a child: a program that has a segment mapped through one node."""

    def __init__(self, node, segment, how="lazy", on_loss="poison"):
        here = pathlib.Path(__file__).resolve().parent
        self.child = subprocess.Popen(
            [sys.executable, str(here / "mapped.py"), str(node.pool.programs.library), str(node.socket), segment, how, on_loss],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bytes = self.answer()["bytes"]

    def ask(self, *words):
        """Sends; answer() waits. Apart, because an answer may wait for a daemon that the test has yet to start."""
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()

    def answer(self):
        line = self.child.stdout.readline()
        assert line, f"the mapped program ended with {self.child.wait()}"
        return json.loads(line)

    def call(self, *words):
        self.ask(*words)
        return self.answer()

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
