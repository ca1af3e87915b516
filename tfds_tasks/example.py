"""Copies a small example of tasks from files into a new folder.

    python -m tfds_tasks.example help_desk

`help_desk/help_desk.toml` declares three tasks in a CSV, a TSV and a JSON lines file.
"""

import importlib.resources
import os
import shutil

from absl import app


def copy(folder: str | os.PathLike) -> list[str]:
    """Writes the files of the example into a new folder; returns their paths."""
    folder = os.fspath(folder)
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise FileExistsError(f"{folder} is there already; expected a new folder")
    os.makedirs(folder, exist_ok=True)
    paths = []
    for file in sorted(_files(), key=lambda file: file.name):
        paths.append(os.path.join(folder, file.name))
        with importlib.resources.as_file(file) as source:
            shutil.copyfile(source, paths[-1])
    return paths


def _files():
    inside = importlib.resources.files("tfds_tasks").joinpath("examples")
    return [file for file in inside.iterdir() if not file.name.startswith("_")]


def main(argv: list[str]) -> None:
    """Copies the example into the folder named on the command line."""
    if len(argv) != 2:
        raise app.UsageError("name one new folder, such as help_desk")
    try:
        paths = copy(argv[1])
    except OSError as error:
        raise SystemExit(f"tfds_tasks.example: {error}") from None
    print("\n".join(paths))
    toml = next(path for path in paths if path.endswith(".toml"))
    print(f"look through it: python -m tfds_tasks.check {toml}")


if __name__ == "__main__":
    app.run(main)
