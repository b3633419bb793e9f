"""The process that packages of others run in: what it can't reach, and when it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from precis.environments.isolated import IsolatedError, IsolatedModule, ProcessDied, release_of
from precis.errors import ConfigError
from precis.processes.child import is_running
from tests.services.patience import wait_until

SECRET = "a-key-that-must-not-be-seen"


@pytest.fixture(scope="module")
def evaluating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsolatedModule]:
    """Python itself, which evaluates what it is given; its current folder holds a file."""
    folder = tmp_path_factory.mktemp("current")
    (folder / "file").write_text("here before")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_API_KEY", SECRET)
        patch.setenv("DATABASE", f"postgres://user:{SECRET}@host/db")
        patch.delenv("NLTK_DATA", raising=False)
        patch.chdir(folder)
        module = IsolatedModule("builtins", call_s=60.0)
        assert module.call_now("len", "started") == 7
        yield module
        module.close_now()


@pytest.mark.parametrize(
    "code",
    [
        "__import__('urllib.request').request.urlopen('http://127.0.0.1:9')",
        "__import__('subprocess').run(['true'])",
        "__import__('os').system('true')",
        "__import__('os').fork()",
        "__import__('os').posix_spawn('/bin/true', ['true'], {{}})",
        "__import__('os').execv('/bin/true', ['true'])",
        "__import__('os').kill(1, 0)",
        "__import__('os').remove('{file}')",
        "__import__('os').rename('{file}', '{file}2')",
        "__import__('shutil').rmtree('{folder}')",
        "open('{file}', 'w')",
        "open(__import__('os').__file__, 'a')",
        "open('{file}')",
        "open(__import__('os').path.abspath('file'))",
        "__import__('os').open('{file}', 0)",
        "open('/proc/{parent}/environ', 'rb')",
        "__import__('ctypes').CDLL(None)",
        "__import__('tempfile').mkdtemp()",
    ],
)
def test_nothing_is_reached_there(code: str, evaluating: IsolatedModule, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("here before")
    filled = code.format(file=file, folder=tmp_path, parent=os.getpid())
    with pytest.raises(IsolatedError, match=r"(refused|not opened) here"):
        evaluating.call_now("eval", filled)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "here before"


def test_it_has_no_keys(evaluating: IsolatedModule) -> None:
    found = evaluating.call_now("eval", "dict(__import__('os').environ)")
    assert SECRET not in str(found)
    assert "PATH" in found


def test_what_is_printed_is_no_answer(evaluating: IsolatedModule) -> None:
    assert evaluating.call_now("eval", "[print('[1]'), 7][1]") == 7
    with pytest.raises(IsolatedError, match="TypeError"):
        evaluating.call_now("eval", "object()")
    with pytest.raises(IsolatedError, match="SystemExit"):
        evaluating.call_now("exit", 3)
    assert evaluating.call_now("eval", "8") == 8


@pytest.mark.parametrize(
    ("code", "call_s", "problem"),
    [
        ("exec('while True: pass')", 0.2, r"took longer than 0\.2 s, and was ended$"),
        ("9 ** 99_999_999", 0.2, r"took longer than 0\.2 s, and was ended$"),
        ("' ' * 10**11", 60.0, "MemoryError"),
    ],
)
def test_an_endless_or_boundless_call_costs_itself(code: str, call_s: float, problem: str) -> None:
    module = IsolatedModule("builtins", call_s)
    with pytest.raises(IsolatedError, match=problem):
        module.call_now("eval", code)
    module._call_s = 60.0  # of the process that takes its place
    assert module.call_now("eval", "8") == 8
    module.close_now()


def test_a_package_that_is_not_installed_is_named_with_its_installation() -> None:
    with pytest.raises(ConfigError, match=r"install-environments.* extra `no-such-package`"):
        release_of("no-such-package")


def test_a_module_that_is_not_there_gets_a_sentence() -> None:
    module = IsolatedModule("no_such_module_of_anybody")
    with pytest.raises(ProcessDied, match="No module named 'no_such_module_of_anybody'"):
        module.call_now("anything")
    module.close_now()


@pytest.mark.parametrize("is_busy", [False, True])
def test_it_ends_with_the_process_that_it_belongs_to(is_busy: bool, tmp_path: Path) -> None:
    """However that ends, and whatever it is at."""
    file = tmp_path / "pid"
    code = (
        "from precis.environments.isolated import IsolatedModule\n"
        "module = IsolatedModule('builtins', call_s=3.0)\n"
        "pid = module.call_now('eval', \"__import__('os').getpid()\")\n"
        f"open({str(file)!r}, 'w').write(str(pid))\n"
        "input()\n"
        f"module.call_now('eval', {'9 ** 99_999_999' if is_busy else '1'!r})\n"
        "import time; time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdin
    try:
        wait_until(lambda: file.exists() and file.read_text(), "the process")
        pid = int(file.read_text())
        assert is_running(pid)
        with parent.stdin as go_on:  # its call may last for three seconds
            go_on.write(b"\n")
        time.sleep(0.2 if is_busy else 0)
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: not is_running(pid), "its end")
    finally:
        parent.kill()
        parent.wait()
