"""The command line itself: help, tables, JSON, man pages, completions."""

import json
import re
import subprocess

import pytest


def run(programs, *arguments, **environment):
    import os
    return subprocess.run([programs.cli, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **environment})


@pytest.fixture(scope="session")
def verbs(programs):
    return run(programs, "help", "--paths").stdout.splitlines()


def test_every_verb_has_help_with_an_example_and_a_man_page_that_lints(programs, verbs, tmp_path):
    assert len(verbs) > 25
    for verb in verbs:
        shown = run(programs, *verb.split(), "--help")
        assert shown.returncode == 0 and "examples:" in shown.stdout, verb
        assert max(map(len, shown.stdout.splitlines())) <= 100 or "description" in verb
        page = run(programs, *verb.split(), "--man")
        assert page.stdout.startswith(".TH VRAMPOOL"), verb


def test_man_pages_please_mandoc(programs, verbs, tmp_path):
    import shutil
    if not shutil.which("mandoc"):
        pytest.skip("no mandoc here")
    for verb in verbs:
        page = tmp_path / "page.1"
        page.write_text(run(programs, *verb.split(), "--man").stdout)
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "error", page], capture_output=True, text=True)
        assert lint.returncode == 0, f"{verb}: {lint.stdout}"


def test_completions_know_every_verb(programs, verbs, tmp_path):
    script = tmp_path / "vrampool.bash"
    script.write_text(run(programs, "completion", "bash").stdout)
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    ask = f'source {script}; COMP_WORDS=(vrampool ""); COMP_CWORD=1; _vrampool; echo "${{COMPREPLY[@]}}"'
    offered = subprocess.run(["bash", "-c", ask], capture_output=True, text=True).stdout.split()
    assert set(offered) == {verb.split()[0] for verb in verbs}
    for shell in ("zsh", "fish"):
        assert "vrampool" in run(programs, "completion", shell).stdout
    assert run(programs, "completion", "tcsh").returncode == 1


def test_documents_have_schema_and_version(pool3):
    for verb in ("status", "nodes", "ls", "df", "jobs", "version"):
        document = pool3[0].cli(verb, "--json").document()
        assert document["version"] == 1 and document["schema"] == f"vrampool.{verb}", verb


def test_tables_fit_a_hundred_columns_and_have_no_colour_in_a_pipe(pool3):
    pool3[0].cli("create", "a/very/long/name/" + "x" * 120, "--bytes", "64KiB").ok()
    for verb in (["status"], ["nodes"], ["ls"], ["df"], ["jobs"], ["inspect", "a/very/long/name/" + "x" * 120]):
        out = pool3[0].cli(*verb).ok()
        assert "\x1b" not in out
        for line in out.splitlines():
            if not line.startswith(("a/very", "  id")) or verb == ["ls"]:
                assert len(line) <= 100, line


def test_a_good_pool_has_an_empty_list_of_problems(pool3):
    assert pool3[0].status()["health"] == []
    assert "good" in pool3[0].cli("status").ok()


def test_doctor_finds_the_peers_and_exits_by_what_it_found(pool3):
    ran = pool3[0].cli("doctor", "--json")
    document = json.loads(ran.out)
    assert ran.code == (1 if document["problems"] else 0)
    peers = [f for f in document["findings"] if f["check"].startswith("peer ")]
    assert [f["verdict"] for f in peers] == ["good", "good"]
    for finding in document["findings"]:
        assert finding["fix"] or finding["verdict"] == "good", finding


def test_doctor_without_a_daemon_says_so(programs, tmp_path):
    ran = run(programs, "--socket", tmp_path / "nobody", "doctor")
    assert ran.returncode == 1
    assert re.search(r"problem\s+daemon\s+no daemon answers", ran.stdout), ran.stdout
