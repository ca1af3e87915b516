"""OUTPUT.partial: what a job has answered so far, so that it can go on after a stop.

The first line says of which job it is; then a JSON line for each row of the input.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class PartialFile:
    """Keeps answers in the order of the rows; only one process may have it open.

    Args:
        output: the file that it will become.
        job: what decides the answers; a file of another job is an error.
        about: more about the job, which people understand.
    """

    def __init__(
        self, output: str, job: Mapping[str, Any], about: Mapping[str, Any]
    ) -> None:
        self.path = f"{output}.partial"
        self._header = {"job": dict(job), "about": dict(about)}
        self._rows = 0

    def open(self, total: int, batch_size: int) -> int:
        """Returns how many rows are answered, after dropping what was cut short.

        Those are whole batches: a row's numbers depend on its batch in the last digit.

        Args:
            total: rows of the job.
            batch_size: rows that are answered together.
        """
        self._file = open(self.path, "a+b")  # noqa: SIM115 (open until close)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise RuntimeError(
                f"{self.path} is in use; expected no other process that writes it"
            ) from error
        try:
            self._rows = self._go_on(total, batch_size)
        except BaseException:
            self._file.close()
            raise
        return self._rows

    def _go_on(self, total: int, batch_size: int) -> int:
        self._file.seek(0)
        header = self._file.readline()
        if not header:
            self._file.write((json.dumps(self._header) + "\n").encode())
            self._file.flush()
            return 0
        self._check(header)
        ends = [len(header)]
        for line in self._file:
            if _parsed(line) is None:
                break
            ends.append(ends[-1] + len(line))
        done = len(ends) - 1
        if done > total:
            raise ValueError(f"{self.path} has {done} rows, expected at most {total}")
        if done < total:
            done -= done % batch_size
        self._file.truncate(ends[done])
        return done

    def _check(self, header: bytes) -> None:
        then, now = _parsed(header) or {}, self._header
        if then.keys() != now.keys():
            raise ValueError(
                f"{self.path} is in the way; expected what experiments.predict writes "
                "there, or nothing"
            )
        if then["job"] == now["job"]:
            return
        then, now = ({**header["about"], **header["job"]} for header in (then, now))
        different = [
            f"  {key}: {then.get(key)!r} then, {now.get(key)!r} now"
            for key in {**then, **now}
            if then.get(key) != now.get(key)
        ]
        raise ValueError(
            f"{self.path} is part of another job; expected the same, another output, "
            "or that you remove it\n" + "\n".join(different)
        )

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds the answers of a batch."""
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        self._file.write("".join(lines).encode())
        self._file.flush()
        self._rows += len(rows)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Reads the answers from the first on."""
        with open(self.path, "rb") as file:
            file.readline()
            for line in file:
                yield json.loads(line)

    def remove(self) -> None:
        """Removes the file, whose rows are elsewhere now."""
        os.remove(self.path)

    def close(self) -> None:
        """Lets others have the file; removes it if it has no rows."""
        if not self._rows and os.path.exists(self.path):
            self.remove()
        self._file.close()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None if it is not whole."""
    try:
        value = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
