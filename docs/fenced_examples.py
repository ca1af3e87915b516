"""For mkdocstrings: shows the `>>>` examples of docstrings as code."""

import re

import griffe

EXAMPLE = re.compile(r"(?:^|(?<=\n))>>> .*(?:\n(?!\s*(?:\n|$)).*)*")


class FencedExamples(griffe.Extension):
    """Puts fences around every example, up to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Changes the docstring of what was just read."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)
