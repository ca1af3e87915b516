"""Settings and fixtures that all tests share."""

import functools
import gc
import os
import runpy
import zlib
from pathlib import Path
from unittest import mock

import pytest

# TensorFlow and Keras read these once, when first imported.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Tests compile much and run little: half of their time went into optimising.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false",
)
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    # Each worker would otherwise start a thread for every core.
    share = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, share)))

ROOT = Path(__file__).resolve().parents[1]


# How many tests `--quick` takes of a file: the one number to tune it by.
QUICK_PER_FILE = 2


def pytest_addoption(parser):
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"of each file {QUICK_PER_FILE} tests, none that is marked slow, and of a "
        "test with parameters its first case",
    )


def pytest_collection_modifyitems(config, items):
    """Files with slow tests come first, so that no process ends long after others."""
    if config.getoption("--quick"):
        kept = quick_part(items)
        config.hook.pytest_deselected(
            items=[item for item in items if item not in kept]
        )
        items[:] = [item for item in items if item in kept]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def quick_part(items):
    """Tests for the minutes between two edits: a few, spread over each file."""
    by_file = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            name = getattr(item, "originalname", item.name)
            by_file.setdefault(item.path, {}).setdefault(name, item)
    kept = set()
    for first_cases in by_file.values():
        tests = list(first_cases.values())
        count = min(QUICK_PER_FILE, len(tests))
        kept.update(tests[i * len(tests) // count] for i in range(count))
    return kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """A test draws the same numbers wherever, and after whatever, it runs."""
    import keras  # only now: it reads the environment set above

    do_less_beside()
    keras.utils.set_random_seed(zlib.crc32(item.nodeid.encode()))


@functools.cache
def do_less_beside():
    """Takes from Python and TensorFlow work that repays only in long programs.

    Graphs are run as they were traced; what was imported is no garbage ever.
    """
    from tests.helpers import run_graphs_as_traced

    run_graphs_as_traced()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


@pytest.fixture(scope="module")
def rewritten_graphs():
    """Graphs are rewritten as for users, where every bit must be what they get."""
    from tests.helpers import run_graphs_as_traced

    run_graphs_as_traced(False)
    yield
    run_graphs_as_traced()


@pytest.fixture
def own_registries(monkeypatch):
    """What a test registers is gone after it."""
    from hypertf.conditioning import registry as methods
    from tfds_tasks import registry as tasks
    from tfds_tasks.scores import named as metrics

    tasks.task_names()  # loads the declarations into the registry that is copied
    for module, name in (
        (methods, "_METHODS"),
        (tasks, "_TASKS"),
        (tasks, "_ALIASES"),
        (metrics, "METRICS"),
    ):
        monkeypatch.setattr(module, name, dict(getattr(module, name)))


def shared_path(name=""):
    """Returns a path inside the shared folder; skips the test where it is absent."""
    path = ROOT / os.environ.get("HYPERTF_SHARED", "../shared") / name
    if not path.exists():
        pytest.skip(
            f"{path} is absent; point HYPERTF_SHARED at the shared folder",
            allow_module_level=True,
        )
    return path.resolve()


@pytest.fixture(scope="session")
def shared():
    """The folder of goldens and data that lies beside the project."""
    return shared_path()


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
    """Where the embedded tasks are written on first use, once for all tests."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # the same for all test processes
    return str(root / "tfds")


@pytest.fixture(scope="session")
def setup_arguments():
    """What setup.py hands to setuptools."""
    folder = Path.cwd()
    with mock.patch("setuptools.setup") as setup:
        os.chdir(ROOT)  # find_packages looks in the working directory
        try:
            runpy.run_path("setup.py")
        finally:
            os.chdir(folder)
    return setup.call_args.kwargs
