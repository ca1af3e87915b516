"""Downloads and prepares the data of tasks with TFDS.

python -m tfds_tasks.prepare --mixture=en_mix --data_dir=~/tensorflow_datasets
python -m tfds_tasks.prepare --source=glue/cola:2.0.0
python -m tfds_tasks.prepare --mixture=mine.toml
"""

from collections.abc import Iterable

from absl import app, flags

from tfds_tasks import get_mixture, modules
from tfds_tasks.sources import folder, prepare

FLAGS = flags.FLAGS


def wanted(mixture: str | None, source: Iterable[str]) -> list[str]:
    """Lists the sources that the flags name, each once."""
    sources = dict.fromkeys(source)
    if mixture:
        for task in get_mixture(mixture).tasks:
            one = isinstance(task.source, str)
            sources |= dict.fromkeys([task.source] if one else task.source)
    return list(sources)


def main(argv: list[str]) -> None:
    """Prepares what the flags name, and prints each source as its turn comes."""
    if argv[1:]:
        raise app.UsageError(f"unexpected argument {argv[1]!r}; see --help")
    modules.import_modules(FLAGS.module_import)
    todo = wanted(FLAGS.mixture, FLAGS.source)
    if not todo:
        raise app.UsageError("name what to prepare: --mixture=... or --source=...")
    for number, source in enumerate(todo, 1):
        print(f"[{number}/{len(todo)}] {source}", flush=True)
        prepare(source, FLAGS.data_dir)
    print(f"prepared {len(todo)} in {folder(FLAGS.data_dir)}")


if __name__ == "__main__":
    flags.DEFINE_string("mixture", None, "Mixtures, tasks and TOML files.")
    flags.DEFINE_list("source", [], "TFDS sources, as an error message names them.")
    flags.DEFINE_string("data_dir", None, "Where to write; by default TFDS's folder.")
    flags.DEFINE_string("module_import", None, modules.HELP)
    app.run(main)
