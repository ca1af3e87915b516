"""The pages of docs/: built strictly, their code run, their figures as the code counts.

Run: every Python block, the notebook (with a few steps), one listing command, and the
scripts that make drawings and tables. Only checked, for programs, flags and values that
exist: all other commands, since the functions behind them have tests of their own.
"""

import importlib.util
import logging
import os
import re
from types import ModuleType

import nbclient
import nbformat
import pytest
from keras import ops
from mkdocs.commands.build import build
from mkdocs.config import load_config

import experiments.configs
import hypertf
import tfds_tasks.scores
from tests import pages
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
METHODS = [page for page in PAGES if page.startswith("methods/")]
WITH_PYTHON = [p for p in PAGES if pages.python_blocks((DOCS / p).read_text())]
WITH_PYTHON.remove("own_tasks.md")  # run from first to last by own_tasks_page_test.py
WITH_PYTHON.sort(key=lambda page: page != "training.md")  # evaluating goes on from it
# Loads something: a script, a style sheet, a picture or a frame.
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(https?:|//)")
STEPS = "2"  # of the notebook's training


def script(name):
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning of mkdocs, as of a broken link, is an error."""
    folder = tmp_path_factory.mktemp("site")
    warnings = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    log = logging.getLogger("mkdocs")
    log.addHandler(handler)
    try:
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()
    finally:
        log.removeHandler(handler)
    assert not warnings
    return folder


@pytest.mark.slow
def test_site_builds_without_warnings(site):
    for page in PAGES:
        assert (site / page).with_suffix(".html").exists()


@pytest.mark.slow
def test_site_loads_nothing_from_elsewhere(site):
    files = sorted(site.rglob("*.html"))
    assert len(files) >= len(PAGES)
    loading = [path.name for path in files if LOADED.search(path.read_text())]
    assert loading == []
    assert "mermaid" not in "".join((DOCS / page).read_text() for page in PAGES)


def public_names():
    """Functions and classes that packages offer, each with all its names."""
    parts = [hypertf, tfds_tasks, tfds_tasks.scores, experiments.configs, hypertf.t5]
    parts += [part for part in vars(hypertf).values() if isinstance(part, ModuleType)]
    names = {}
    for part in (part for part in parts if hasattr(part, "__all__")):
        for name in part.__all__:
            if callable(found := getattr(part, name)):
                paths = {f"{part.__name__}.{name}", f"{found.__module__}.{name}"}
                names.setdefault(found, set()).update(paths)
    return names.values()


@pytest.mark.slow
def test_public_names_are_on_the_pages(site):
    shown = "".join(path.read_text() for path in (site / "api").glob("*.html"))
    assert [
        sorted(paths)
        for paths in public_names()
        if not any(f'id="{path}"' in shown for path in paths)
    ] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where all pages run: data is prepared once."""
    return tmp_path_factory.mktemp("pages")


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_runs(page, folder, monkeypatch, own_registries):
    monkeypatch.chdir(folder)  # an example may write files
    if page == "evaluating.md" and not (folder / "run").exists():
        pages.run_python(DOCS / "training.md")  # evaluates the run of that page
    pages.run_python(DOCS / page)


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_there(page, setup_arguments):
    for words in pages.commands((DOCS / page).read_text()):
        pages.check_command(words, setup_arguments["extras_require"])


def test_configurations_are_listed(capsys):
    words = ["python", "-m", "experiments.train", "--config=list"]
    assert words in pages.commands((DOCS / "reproducing.md").read_text())
    program = importlib.import_module(words[2])
    program._call(pages.read_flags(words[2], words[3:]))
    assert "hypergrid_base_l2" in capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_notebook_runs(folder, tmp_path, monkeypatch):
    (folder / "data").mkdir(exist_ok=True)
    (tmp_path / "data").symlink_to(folder / "data")
    monkeypatch.setenv("STEPS", STEPS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(DOCS / "first_ten_minutes.ipynb", as_version=4)
    assert all(not c.get("outputs") for c in notebook.cells), "outputs were saved"
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    assert "task" in str(notebook.cells[-1]["outputs"])


@pytest.mark.slow
def test_tables_have_what_the_code_counts():
    filled = script("parameter_table").filled
    for page in METHODS:
        text = (DOCS / page).read_text()
        assert "<!-- parameters: " in text, page
        assert text == filled(text), f"{page}: run python docs/parameter_table.py"


def test_every_method_has_a_page():
    texts = {page: (DOCS / page).read_text() for page in METHODS}
    families = "".join(t for p, t in texts.items() if p != "methods/index.md")
    named = re.findall(r"<!-- parameters: (.*?) -->", families)
    bold = [name.strip() for names in named for name in names.split(",")]
    assert sorted(bold) == sorted(hypertf.conditioning.names())


def test_drawings_are_those_of_the_script():
    drawing = script("draw_sites")
    for family in drawing.FAMILIES:
        drawn = (DOCS / "pictures" / f"{family}.svg").read_text()
        assert drawn == drawing.draw(family), "run python docs/draw_sites.py"


def test_pictures_are_small():
    for path in (DOCS / "pictures").iterdir():
        assert os.path.getsize(path) < 100_000, path.name


def used_places(stack_sites):
    """What a method does in a stack, by the names of docs/draw_sites.py."""
    block = stack_sites.blocks[0]
    places = ("after_attention", "after_ffn", "beside_ffn", "observe")
    used = {place for place in places if block.uses(place)} | block.kernels
    if stack_sites.tokens is not None:
        used.add("tokens")
    if stack_sites.num_keys:
        used.add("keys_values")
    if block.uses("norm_scale") and block.norm_scale("feed_forward") is not None:
        used.add("norm_scale")
    return used


def test_drawings_show_where_methods_act():
    families = script("draw_sites").FAMILIES.values()
    drawn = {name: stacks for names, *stacks, _ in families for name in names}
    assert sorted(drawn) == sorted(hypertf.conditioning.names())
    config = hypertf.T5Config.from_name("t5-nano")
    ids = ops.zeros((1,), "int32")
    encoded = ops.zeros((1, 1, config.d_model))
    mask = ops.ones((1, 1), "bool")
    for name, (encoder, decoder) in drawn.items():
        if name == "none":
            assert encoder == decoder == set()
            continue
        method = hypertf.conditioning.create(name, config, num_tasks=2)
        method.build()
        assert used_places(method.encoder(ids)) == encoder, name
        places = used_places(method.decoder(ids, encoded, mask))
        assert places == decoder - {"pooled"}, name
        assert ("pooled" in decoder) == (method.reads_input == ("decoder",)), name
