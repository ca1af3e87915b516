"""What a request is told when it cannot be answered, in HTTP's and gRPC's words."""

import re

# gRPC's code: HTTP's status, as TF Serving pairs them.
HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
MOST = 2000  # characters of a message; gRPC sends it in a header


class RequestError(Exception):
    """A request that is refused, with the reason.

    Args:
        code: one of `HTTP_STATUS`.
        message: names the thing, its value and what was expected.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message[:MOST])
        self.code = code

    @property
    def http_status(self) -> int:
        return HTTP_STATUS[self.code]


def invalid(message: str) -> RequestError:
    """Makes the error of a request that is itself wrong."""
    return RequestError("INVALID_ARGUMENT", message)


def shown(value: object, most: int = 60) -> str:
    """Writes a value for a message: on one line, short, in ASCII.

    >>> print(shown("glue/cola"), shown(b"a\\xff" * 100, most=12))
    "glue/cola" "a\\xffa\\x...
    """
    if isinstance(value, bytes):
        value = value[:most].decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        ascii_only = value[:most].encode("ascii", "backslashreplace").decode()
        text = '"' + ascii_only.replace("\n", "\\n") + '"'
    else:
        text = ascii(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def what_tensorflow_said(message: str) -> str:
    r"""Keeps of TensorFlow's message what the model said, without nodes and traces.

    >>> what_tensorflow_said(
    ...     "Graph execution error:\n\nDetected at node Assert defined at (most recent "
    ...     "call last):\n<stack traces unavailable>\nassertion failed: [unknown task] "
    ...     "[q]\n\t [[{{node Assert}}]] [Op:__inference_f_1]"
    ... )
    'assertion failed: [unknown task] [q]'
    """
    message = message.rpartition("<stack traces unavailable>\n")[2]
    message = re.sub(r"\{\{function_node \S*\}\}", "", message)
    message = re.split(r"\n\s*\[\[|\[Op:", message)[0]
    return " ".join(message.split())
