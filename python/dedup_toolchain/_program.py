"""Finds a program, runs it, and turns its messages into exceptions and warnings."""

import functools
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import warnings
from pathlib import Path
from typing import IO, Iterator, List, Optional, Sequence

#: Seconds that a program has to remove its temporary files after SIGTERM.
PATIENCE = 30


class DedupError(Exception):
    """A program failed. The text is its own message.

    ``program`` is its name, ``status`` its exit status, or None if it did not run.
    """

    def __init__(self, program: str, status: Optional[int], message: str) -> None:
        super().__init__(message)
        self.program = program
        self.status = status


class DedupWarning(UserWarning):
    """A program succeeded and had something to say."""


def _directories() -> Iterator[Path]:
    chosen = os.environ.get("DEDUP_TOOLCHAIN_BIN")
    if chosen:
        yield Path(chosen)
        return
    yield Path(sysconfig.get_path("scripts"))
    if os.name == "posix":
        yield Path(sysconfig.get_path("scripts", "posix_user"))
    yield Path(__file__).resolve().parent.parent / "bin"  # pip install --target
    yield from map(Path, os.get_exec_path())


@functools.lru_cache(maxsize=None)
def _find(program: str, chosen: Optional[str]) -> str:
    for directory in _directories():
        path = shutil.which(program, path=str(directory))
        if path:
            return path
    where = f"{chosen} (DEDUP_TOOLCHAIN_BIN)" if chosen else "the environment of Python or on the PATH"
    raise DedupError(program, None, f"{program}: not found in {where}; pip install dedup-toolchain brings it")


def program_path(program: str) -> str:
    """The path of a program: in DEDUP_TOOLCHAIN_BIN if that is set, else beside Python, else on the PATH."""
    return _find(program, os.environ.get("DEDUP_TOOLCHAIN_BIN"))


class Process:
    """A program that runs. Its messages go to a file, so that it never waits for somebody to read them."""

    def __init__(self, program: str, arguments: Sequence[str], directory: Path) -> None:
        self.program = program
        command: List[str] = [program_path(program), *arguments]
        self._messages: IO[bytes] = tempfile.TemporaryFile(dir=directory)
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._messages
            )
        except OSError as error:
            self._messages.close()
            raise DedupError(program, None, f"{program}: {command[0]}: {error.strerror}") from error
        assert self._child.stdout is not None
        self.output: IO[bytes] = self._child.stdout

    def finish(self) -> None:
        """Waits for the end. Raises DedupError if the program failed; 0 is success and 1 means that nothing was found."""
        self.output.close()
        status = self._child.wait()
        self._messages.seek(0)
        message = self._messages.read().decode("utf-8", "replace").strip()
        self._messages.close()
        if status not in (0, 1):
            raise DedupError(self.program, status, message or f"{self.program}: {_ending(status)}")
        if message:
            warnings.warn(message, DedupWarning, stacklevel=2)

    def stop(self) -> None:
        """Ends the program, whatever it is doing, and lets it remove its temporary files. Does nothing after the end."""
        self.output.close()
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._messages.close()


def _ending(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
