"""Daemons are killed under mapped programs: every byte stays right, or is said to be lost."""

import os
import shutil

import models
from harness import wait_until

LOST, STALE = 8, 10


def imported(pool, tmp_path, *options, megabytes=24):
    source = tmp_path / "model.safetensors"
    content = models.small_model(source, megabytes)
    pool[0].cli("import", source, *options).ok()
    return {name: models.sha256(data) for name, data in content.items()}


def check_all(program, want):
    for name, sha in want.items():
        assert program.call("tensor", name)["sha"] == sha, name


def test_every_tensor_reads_right_through_a_lazy_map_on_a_node_that_holds_none(pool3, tmp_path, mapped):
    want = imported(pool3, tmp_path, "--node", "n1", "--node", "n2")
    program = mapped(pool3[2], "model")
    check_all(program, want)
    node = pool3[2].status()["node"]
    assert node["faults"] > 0 and node["pages_fetched"] > 0
    assert program.call("status")["status"] == 0


def test_resident_maps_hold_the_same_bytes(pool3, tmp_path, mapped):
    want = imported(pool3, tmp_path, "--node", "n1")
    check_all(mapped(pool3[2], "model", how="resident"), want)


def test_a_mapped_program_outlives_its_own_daemon(pool3, tmp_path, mapped):
    want = imported(pool3, tmp_path, "--node", "n1")
    program = mapped(pool3[2], "model")
    first, *rest = want
    assert program.call("tensor", first)["sha"] == want[first]
    pool3[2].kill()
    assert program.call("tensor", first)["sha"] == want[first], "what is here stays readable"
    program.ask("tensor", rest[-2])
    pool3[2].start()
    assert program.answer()["sha"] == want[rest[-2]], "a touch waits for the next daemon"
    check_all(program, want)
    assert program.call("status")["status"] == 0


def test_a_home_that_is_killed_and_comes_back_loses_nothing(pool3, tmp_path, mapped):
    want = imported(pool3, tmp_path, "--node", "n2")
    program = mapped(pool3[2], "model", on_loss="wait")
    first, *rest = want
    assert program.call("tensor", first)["sha"] == want[first]
    pool3[1].kill()
    program.ask("tensor", rest[-2])
    pool3[1].start()
    assert program.answer()["sha"] == want[rest[-2]]
    check_all(program, want)
    pool3.wait_for_members(3)
    wait_until(lambda: pool3[0].segments()["model"]["lost_bytes"] == 0, "nothing is lost")
    pool3[0].cli("verify", "model").ok()


def test_without_its_coordinator_a_pool_reads_on_and_says_that_it_cannot_change(pool3, tmp_path, mapped):
    want = imported(pool3, tmp_path, "--node", "n2")
    program = mapped(pool3[2], "model")
    pool3[0].kill()
    check_all(program, want)
    wait_until(lambda: not pool3[1].status()["pool"]["can_change"], "the pool notices that nobody leads")
    pool3[1].cli("rm", "model").failed(1, "coordinator")
    fresh = mapped(pool3[1], "model")
    check_all(fresh, want)
    pool3[0].start()
    pool3.wait_for_members(3)
    wait_until(lambda: pool3[1].status()["pool"]["can_change"], "the coordinator leads again")
    pool3[2].cli("rename", "model", "renamed").ok()
    assert list(pool3[1].segments()) == ["renamed"]


def test_a_majority_can_be_promoted_without_the_coordinator(pool3, tmp_path):
    want = imported(pool3, tmp_path, "--node", "n2", megabytes=4)
    pool3[0].kill()
    wait_until(lambda: pool3[1].status()["pool"]["coordinator"] == "", "nobody leads")
    pool3[1].cli("promote").ok()
    wait_until(lambda: pool3[2].status()["pool"]["coordinator"] == "n2", "everybody follows n2")
    pool3[2].cli("rename", "model", "renamed").ok()
    assert pool3[2].cli("read", "renamed", "--tensor", "layer.0.norm", binary=True).code == 0
    pool3[0].start()
    pool3.wait_for_members(3)
    wait_until(lambda: list(pool3[0].segments()) == ["renamed"], "the old coordinator follows")
    assert pool3[0].status()["pool"]["coordinator"] == "n2"
    assert want


def test_a_minority_cannot_be_promoted_but_can_be_forced(pool3, tmp_path):
    imported(pool3, tmp_path, "--node", "n3", megabytes=4)
    pool3[0].kill()
    pool3[1].kill()
    wait_until(lambda: pool3[2].status()["pool"]["coordinator"] == "", "nobody leads")
    pool3[2].cli("promote").failed(1)
    pool3[2].cli("promote", "--force").ok()
    wait_until(lambda: pool3[2].status()["pool"]["coordinator"] == "n3", "n3 leads")
    pool3[2].cli("verify", "model").ok()


def test_a_node_lost_for_good_is_named_and_its_bytes_are_poison(pool3, tmp_path, mapped):
    imported(pool3, tmp_path, "--node", "n2")
    program = mapped(pool3[2], "model")
    pool3[1].kill()
    shutil.rmtree(pool3[1].memory)
    shutil.rmtree(pool3[1].dir / "state")
    wait_until(lambda: "n2" not in pool3.alive(pool3[0]), "n2 is seen to be dead")
    health = wait_until(lambda: pool3[0].status()["health"], "the loss is a problem")
    assert any("n2" in h["what"] and h["fix"] for h in health)
    poison = models.sha256(b"\xff" * 16384)
    assert program.call("sha", 0, 16384)["sha"] == poison
    status = program.call("status")
    assert status["status"] == LOST and status["pages_lost"] > 0 and status["message"]
    assert pool3[2].segments()["model"]["lost_bytes"] > 0
    pool3[0].cli("verify", "model").failed(1)
    pool3[0].cli("forget", "n2").ok()
    pool3[0].cli("rm", "model", "--force").ok()
    wait_until(lambda: pool3[2].segments() == {}, "the lost segment is gone")


def test_pages_of_a_home_that_comes_back_are_healed(pool3, tmp_path, mapped):
    want = imported(pool3, tmp_path, "--node", "n2", megabytes=4)
    program = mapped(pool3[2], "model")
    pool3[1].kill()
    wait_until(lambda: "n2" not in pool3.alive(pool3[2]), "n2 is seen to be dead")
    program.call("sha", 0, 16384)
    assert program.call("status")["status"] == LOST
    pool3[1].start()
    wait_until(lambda: program.call("status")["healed"] == 1, "the view says that it is whole again")
    check_all(program, want)


def test_a_handle_to_what_was_removed_and_made_again_is_stale(pool3, tmp_path, mapped):
    want = imported(pool3, tmp_path, "--node", "n1", megabytes=2)
    program = mapped(pool3[1], "model", how="resident")
    pool3[0].cli("rm", "model", "--force").ok()
    models.small_model(tmp_path / "other.safetensors", 2, seed=99)
    pool3[0].cli("import", tmp_path / "other.safetensors", "--name", "model").ok()
    assert program.call("read", 0, 16384)["code"] == STALE, "never the new segment's bytes"
    check_all(program, want)
    assert program.call("again", "model")["code"] == 0


def test_a_program_killed_between_create_and_seal_leaves_nothing(pool3):
    before = [node.used_bytes() for node in pool3]
    half = pool3[0].background("create", "half", "--from", "/dev/zero", "--bytes", str(300 << 20))
    wait_until(lambda: half.poll() is not None or [n.used_bytes() for n in pool3] != before, "it has begun", 60)
    half.kill()
    half.wait()
    wait_until(lambda: [node.used_bytes() for node in pool3] == before, "its memory is free")
    assert pool3[1].segments() == {}
    pool3[1].cli("create", "half", "--bytes", "64KiB").ok()


def test_an_import_goes_on_without_its_terminal(pool3, tmp_path):
    source = tmp_path / "model.safetensors"
    content = models.small_model(source, megabytes=100)
    client = pool3[0].background("import", source)
    wait_until(lambda: pool3[0].cli("jobs", "--json").document()["jobs"], "the job runs")
    client.kill()
    client.wait()
    wait_until(lambda: pool3[1].segments().get("model", {}).get("state") == "sealed", "the import ends by itself", 60)
    name = "layer.5.norm"
    assert pool3[1].cli("read", "model", "--tensor", name, binary=True).ok() == content[name]


def test_every_daemon_may_restart_and_the_pool_is_as_it_was(pool3, tmp_path):
    want = imported(pool3, tmp_path, megabytes=8)
    for node in pool3:
        node.stop()
    for node in pool3:
        node.start()
    for node in pool3:
        wait_until(lambda: len(pool3.alive(node)) == 3, f"{node.name} sees all three")
    wait_until(lambda: pool3[0].segments().get("model", {}).get("lost_bytes") == 0, "the segment is whole")
    pool3[2].cli("verify", "model").ok()
    assert pool3[1].status()["health"] == [] and want


def test_daemons_leave_nothing_behind_after_cleanup(pool_of, tmp_path):
    pool = pool_of(1)
    imported(pool, tmp_path, megabytes=4)
    pool[0].stop()
    import subprocess
    done = subprocess.run([str(a) for a in [pool.programs.daemon, *pool[0].arguments(), "--cleanup"]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = [name for _, _, files in os.walk(pool[0].memory) for name in files]
    assert left == []
