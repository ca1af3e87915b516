"""What Markdown pages show: Python that runs, commands whose flags are there."""

import ast
import importlib
import re
import shlex

from absl import flags

from hypertf.conditioning.registry import split_name
from tests.conftest import ROOT

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
OTHERS = ("docker", "curl")  # of which nothing is checked
EVERYWHERE = ("module_import", "verbosity")  # flags that every program has


def python_blocks(text):
    """The Python of a page, block by block."""
    return [
        code.replace(f"\n{indent}", "\n").removeprefix(indent)
        for indent, language, code in FENCE.findall(text)
        if language == "python"
    ]


def run_python(path):
    """Runs a page's Python as printed; a later block goes on from an earlier one."""
    names = {"__name__": path.stem}  # where a dataclass looks for its module
    for number, block in enumerate(python_blocks(path.read_text()), 1):
        exec(compile(block, f"{path.name}, block {number}", "exec"), names)
    return names


def commands(text):
    """The commands of a page as lists of words, from `sh` fences and indented lines."""
    blocks = [code for _, language, code in FENCE.findall(text) if language == "sh"]
    blocks += INDENTED.findall(FENCE.sub("", text))
    found = []
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        first = line.split()[0] if line.split() else ""
        if first in ("python", "make", "pip", *OTHERS):
            words = shlex.split(line, comments=True)
            ends = [words.index(mark) for mark in ("<", "|", ">") if mark in words]
            found.append(words[: min(ends, default=len(words))])
    return found


def check_command(words, extras):
    """Complains of a program, a flag, a value, a target or an extra that is not there.

    Nothing is run. `extras` are those of setup.py.
    """
    if words[0] == "make":
        check_targets(words[1:])
    elif words[0] == "pip":
        for names in re.findall(r"\[([^\]]*)\]", " ".join(words)):
            for extra in names.split(","):
                known = f"expected one of {[*extras]}"
                assert extra.strip() in extras, f"{shlex.join(words)}: {known}"
    elif words[0] == "python":
        assert words[1] == "-m", shlex.join(words)
        check_program(words[2], words[3:])


def check_targets(words):
    makefile = (ROOT / "Makefile").read_text()
    for target in (word for word in words if "=" not in word):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


def check_program(module, arguments):
    """Flags of `experiments` are read as the program would; of others, their names."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    assert path.exists(), f"python -m {module}: no such program"
    if module.startswith("experiments."):
        values = read_flags(module, arguments)
        if module == "experiments.train" and values.config != "list":
            from experiments.runs.flags import config_of

            split_name(config_of(values).conditioner)
        return
    known = {*EVERYWHERE, *defined_flags(path)}
    for argument in arguments:
        if argument.startswith("--"):
            name = argument[2:].partition("=")[0]
            assert name in known, f"python -m {module} {argument}: known are {known}"


def read_flags(module, arguments):
    """The flags of a program with the values of a command line."""
    values = flags.FlagValues()
    importlib.import_module(module)._define(values)
    for name in EVERYWHERE:
        if name not in values:
            flags.DEFINE_string(name, None, "", flag_values=values)
    left = values([module, *arguments])
    assert left == [module], f"python -m {module}: {left[1:]} are no flags"
    return values


def defined_flags(path):
    """Names of the flags that a file defines, found without running it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and "DEFINE_" in ast.unparse(node.func):
            yield node.args[0].value


def local_links(text):
    """Targets of a page's links and pictures that are files."""
    links = re.findall(r"\]\(([^)#\s]+)", FENCE.sub("", text))
    return [link for link in links if "://" not in link]
