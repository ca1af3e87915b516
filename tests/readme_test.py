"""The README's Python runs as printed, its commands and links are there.

Commands are checked for their flags, not run.
"""

import pytest

from tests import pages
from tests.conftest import ROOT

README = ROOT / "README.md"
TEXT = README.read_text()
COMMANDS = pages.commands(TEXT)


@pytest.mark.slow
def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    assert pages.python_blocks(TEXT), "the README shows no Python"
    pages.run_python(README)


def test_commands_are_there(setup_arguments):
    assert len(COMMANDS) > 5
    for words in COMMANDS:
        pages.check_command(words, setup_arguments["extras_require"])


def test_links_lead_somewhere():
    links = pages.local_links(TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_a_wrong_command_is_noticed():
    text = (
        "```sh\npython -m experiments.train --confg=nano\n```\n\n    make tset  # all\n"
    )
    wrong = pages.commands(text)
    assert wrong == [
        ["python", "-m", "experiments.train", "--confg=nano"],
        ["make", "tset"],
    ]
    with pytest.raises(Exception, match="confg"):
        pages.check_command(wrong[0], ())
    with pytest.raises(AssertionError, match="tset"):
        pages.check_command(wrong[1], ())
