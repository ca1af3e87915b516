"""The development server under load: throughput and delay, batched and one by one."""

import concurrent.futures
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np

import hypertf
from experiments.benchmarks import timing
from experiments.client import Client
from experiments.reports.tables import aligned
from tfds_tasks import get_mixture, get_vocabulary

CLIENTS, REQUESTS = 32, 2000
MODEL = "bench"
CASES = {"batched": (), "one by one": ("--nobatching",)}
ADDRESS = re.compile(r"http://\S+")


def run(options: timing.Options) -> dict:
    """Measures, prints the table, returns what goes into the JSON file."""
    requests = min(REQUESTS, max(CLIENTS, options.rounds * 500))
    with tempfile.TemporaryDirectory() as folder:
        expected = export(f"{folder}/{MODEL}")
        results = {}
        for case, flags in CASES.items():
            with served(f"{folder}/{MODEL}", flags) as url:
                ask(url, expected, 4 * CLIENTS)  # not counted
                results[case] = ask(url, expected, requests)
    report(results, requests)
    return {"clients": CLIENTS, "requests": requests, "operations": results}


def export(path: str) -> list[tuple[str, str, str]]:
    """Exports a t5-nano; returns requests (text, task) and what it answers alone."""
    config = hypertf.T5Config.from_name("t5-nano")
    mixture = get_mixture("nano")
    conditioner = hypertf.conditioning.create(
        "hyperprompt-global", config, mixture.num_tasks
    )
    folder = hypertf.export.save(
        hypertf.T5(config, conditioner=conditioner, seed=0),
        get_vocabulary("nano"),
        mixture.tasks,
        path,
        inputs_length=64,
        targets_length=8,
    )
    model = hypertf.export.load(folder)
    words = [
        "the",
        "old",
        "dog",
        "saw",
        "a",
        "red",
        "cat",
        "and",
        "never",
        "hurt",
        "emma",
        "in",
        "rome",
        "again",
    ]
    texts = [" ".join(np.roll(words, i)[: 4 + i % 9]) for i in range(4 * len(words))]
    tasks = [mixture.tasks[i % len(mixture.tasks)].name for i in range(len(texts))]
    return [(t, k, model.answer([t], k)[0]) for t, k in zip(texts, tasks, strict=True)]


@contextlib.contextmanager
def served(folder: str, flags: Sequence[str]) -> Iterator[str]:
    """A server in a process of its own; its address."""
    command = [sys.executable, "-m", "experiments.serve", f"--export_dir={folder}"]
    command += ["--rest_port=0", "--grpc_port=0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        address = ADDRESS.search(line)
        if address is None:
            raise RuntimeError(f"the server said {line!r}, expected its address")
        yield address.group()
    finally:
        process.terminate()
        process.wait(60)


def ask(url: str, expected: Sequence[tuple[str, str, str]], requests: int) -> dict:
    """Sends requests from all clients at once; counts answers that are not theirs."""
    seconds, wrong = [], []

    def one_client(number: int) -> None:
        with Client(url=url, model=MODEL) as client:
            for i in range(number, requests, CLIENTS):
                text, task, answer = expected[i % len(expected)]
                began = time.perf_counter()
                got = client.predict([text], [task])[0]["output_text"]
                seconds.append(time.perf_counter() - began)
                if got != answer:
                    wrong.append((text, task, got, answer))

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(one_client, range(CLIENTS)))
    total = time.perf_counter() - began
    if len(seconds) != requests or wrong:
        raise RuntimeError(
            f"of {requests} answers {requests - len(seconds)} were lost and "
            f"{len(wrong)} wrong, such as {wrong[:1]}; expected none"
        )
    return {
        "requests_per_second": requests / total,
        "p50_ms": 1e3 * float(np.percentile(seconds, 50)),
        "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
    }


def report(results: dict[str, dict], requests: int) -> None:
    """Prints the table."""
    print(
        f"\nt5-nano with HyperPrompt on loopback: {requests:,} requests from {CLIENTS} "
        f"clients at once,\n{os.cpu_count()} cores for both sides; every answer right\n"
    )
    rows = [
        (
            case,
            f"{row['requests_per_second']:.0f}",
            f"{row['p50_ms']:.0f}",
            f"{row['p99_ms']:.0f}",
        )
        for case, row in results.items()
    ]
    print(aligned(("server", "requests/s", "p50 ms", "p99 ms"), rows))
