"""What a run answered, as files for the servers of GLUE and SuperGLUE."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.runs import components
from experiments.runs.config import Config
from experiments.runs.prediction import Scorer
from tfds_tasks import submission


def check(config: Config, split: str, tasks: Sequence[str] = ()) -> None:
    """Complains of what no server takes; before data is read or a model made."""
    if split != "test" or config.splits != "t5":
        raise ValueError(
            f"submission: split={split!r} of splits={config.splits!r}, expected 'test' "
            "of 't5', whose labels the servers hold"
        )
    mixture = components.make_mixture(config)
    asked = mixture.only(tasks) if tasks else mixture
    if not _with_files(asked):
        names = ", ".join(task.name for task in asked.tasks)
        raise ValueError(f"submission: none of {names} has a file on the servers")


def write_files(
    folder: str, scorer: Scorer, predictions: Mapping[str, list[str]]
) -> list[str]:
    """Writes the tasks' files, zips a benchmark that is whole; says what is there.

    Returns:
        a line for each benchmark: the zip, or what is missing or wrong.
    """
    tasks = _with_files(scorer.mixture)
    for task in tasks:
        examples, texts = scorer.examples[task.name], predictions[task.name]
        submission.write(folder, task, examples, texts)
    benchmarks = {task.benchmark for task in tasks}
    return [_packed(folder, benchmark) for benchmark in sorted(benchmarks)]


def _with_files(mixture):
    return [task for task in mixture.tasks if task.submission is not None]


def _packed(folder, benchmark):
    files, problems = submission.files(benchmark), submission.check(folder, benchmark)
    if not problems:
        path = submission.pack(folder, benchmark)
        return f"{benchmark}: complete, ready for upload: {path}"
    there = [f.name for f in files.values() if Path(folder, f.name).is_file()]
    return (
        f"{benchmark}: {len(there)} of {len(files)} files in {folder} "
        f"({', '.join(there)}); not ready for upload: {'; '.join(problems)}"
    )
