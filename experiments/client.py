"""Asks a served model, `experiments.serve` or a stock TF Serving alike.

    python -m experiments.client --model=NAME --task=glue/cola --text="It rains."
    python -m experiments.client --grpc=127.0.0.1:8500 --model=NAME ... < FILE
    python -m experiments.client --model=NAME --task=... --signature=classify < FILE

Prints an answer for each text, in order: what the model wrote, or with another
signature than serving_default, or with --json, all outputs as JSON.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from absl import app, flags

from experiments.runs import program
from experiments.serving.transports import GrpcTransport, RestTransport

URL = "http://127.0.0.1:8501"
DEFAULT_SIGNATURE = "serving_default"


class Client:
    """A model on a server.

    ```python
    with Client(url="http://127.0.0.1:8501", model="nano") as model:
        answers = model.predict(["It rains."], ["glue/cola"])
        print(answers[0]["output_text"], answers[0]["score"])
    ```

    Args:
        url: of the REST API.
        grpc: address of the gRPC API, "127.0.0.1:8500", instead of `url`.
        model: its name on the server.
        version: number; None for the newest.
        timeout: seconds for each request.
    """

    def __init__(
        self,
        *,
        model: str,
        url: str | None = None,
        grpc: str | None = None,
        version: int | None = None,
        timeout: float = 60,
    ) -> None:
        if url is not None and grpc is not None:
            raise ValueError(f"url={url!r} and grpc={grpc!r}, expected one of them")
        if grpc is not None:
            self._transport = GrpcTransport(grpc, model, version, timeout)
        else:
            self._transport = RestTransport(url or URL, model, version, timeout)

    def signatures(self) -> dict[str, dict[str, list[str]]]:
        """Returns {signature: {"inputs": names, "outputs": names}}."""
        return self._transport.signatures()

    def predict(
        self,
        texts: Sequence[str],
        tasks: Sequence[str] | str | None = None,
        *,
        signature: str = DEFAULT_SIGNATURE,
    ) -> list[dict]:
        """Returns the outputs for each text: {"output_text": ..., "score": ...}.

        Args:
            texts: to be answered.
            tasks: the name of each text's task, or of all; None where the model takes
                none.
            signature: "serving_default", "classify" or "encode".
        """
        known = self.signatures()
        if signature not in known:
            names = ", ".join(sorted(n for n in known if not n.startswith("__")))
            raise ValueError(f"signature={signature!r}, expected one of {names}")
        takes = known[signature]["inputs"]
        if isinstance(tasks, str):
            tasks = [tasks] * len(texts)
        inputs = {"text": texts} if tasks is None else {"text": texts, "task": tasks}
        if sorted(inputs) != sorted(takes):
            raise ValueError(
                f"signature {signature!r} takes {', '.join(takes)}; given are "
                f"{', '.join(inputs)}"
            )
        if tasks is not None and len(tasks) != len(texts):
            raise ValueError(
                f"{len(tasks)} tasks for {len(texts)} texts, expected as many"
            )
        if not texts:
            return []
        outputs = self._transport.predict(signature, inputs)
        rows = zip(*outputs.values(), strict=True)
        return [dict(zip(outputs, row, strict=True)) for row in rows]

    def close(self) -> None:
        """Ends the connection."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def client(
    texts: Iterable[str],
    *,
    model: str,
    task: str | None = None,
    url: str | None = None,
    grpc: str | None = None,
    signature: str = DEFAULT_SIGNATURE,
    version: int | None = None,
    batch_size: int = 32,
    timeout: float = 60,
    as_json: bool = False,
) -> list[dict]:
    """Asks a model about texts and prints its answers; returns all their outputs.

    ```python
    from experiments.client import client

    client(["It rains."], model="nano", task="nano/sentiment", signature="classify")
    ```

    Args:
        texts: to be answered, one by one or from a file's lines.
        model: its name on the server.
        task: of all texts; None where the model takes none.
        url: of the REST API, http://127.0.0.1:8501 by default.
        grpc: address of the gRPC API, "127.0.0.1:8500", instead of `url`.
        signature: "serving_default", "classify" or "encode".
        version: number; None for the newest.
        batch_size: texts in one request.
        timeout: seconds for each request.
        as_json: whether to print all outputs, as JSON.
    """
    answers = []
    with Client(
        url=url, grpc=grpc, model=model, version=version, timeout=timeout
    ) as server:
        for some in _batches(texts, batch_size):
            for row in server.predict(some, task, signature=signature):
                answers.append(row)
                _print(row, len(answers), as_json or "output_text" not in row)
    return answers


def _batches(texts, size) -> Iterator[list[str]]:
    batch = []
    for text in texts:
        batch.append(text)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _print(row, number, as_json):
    if as_json:
        print(json.dumps(row, ensure_ascii=False, default=repr), flush=True)
    else:
        print(row["output_text"], flush=True)
    if row.get("trimmed"):
        print(f"text {number} was too long: its end was dropped", file=sys.stderr)


def _define(values):
    options = {"flag_values": values}
    flags.DEFINE_string("url", None, f"Of the REST API; {URL}.", **options)
    flags.DEFINE_string(
        "grpc", None, "Address of the gRPC API, instead of --url.", **options
    )
    flags.DEFINE_string("model", None, "Its name on the server.", **options)
    flags.DEFINE_string("task", None, "Of all texts.", **options)
    flags.DEFINE_multi_string(
        "text", None, "To be answered; without it, the lines of stdin.", **options
    )
    flags.DEFINE_string("signature", DEFAULT_SIGNATURE, "What to ask for.", **options)
    flags.DEFINE_integer("version", None, "The newest by default.", 0, **options)
    flags.DEFINE_integer("batch_size", 32, "Texts in one request.", 1, **options)
    flags.DEFINE_float("timeout", 60, "Seconds for each request.", **options)
    flags.DEFINE_boolean("json", False, "Print all outputs, as JSON.", **options)


def _call(values):
    if values.model is None:
        raise app.UsageError("--model is not set; expected its name on the server")
    lines = (line.rstrip("\r\n") for line in sys.stdin)
    names = ("model", "task", "url", "grpc", "signature", "version", "batch_size")
    try:
        client(
            lines if values.text is None else values.text,
            timeout=values.timeout,
            as_json=values.json,
            **program.given(values, *names),
        )
    except BrokenPipeError:  # nobody reads on, as after `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    program.run("experiments.client", _define, _call)
