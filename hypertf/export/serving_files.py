"""The files that TF Serving reads beside a SavedModel, as text protos."""

import os

import tensorflow as tf

BATCHING = "batching_params.pbtxt"  # its name in a version's folder is TF Serving's
MODELS, MONITORING = "models.config", "monitoring.config"
METRICS = "/monitoring/prometheus/metrics"


def batching(max_batch_size: int, threads: int = 2, timeout_micros: int = 1000) -> str:
    """Writes the parameters of batching; sizes that are computed are powers of two.

    >>> print(batching(4), end="")
    max_batch_size { value: 4 }
    batch_timeout_micros { value: 1000 }
    max_enqueued_batches { value: 64 }
    num_batch_threads { value: 2 }
    allowed_batch_sizes: 1
    allowed_batch_sizes: 2
    allowed_batch_sizes: 4
    """
    if isinstance(max_batch_size, bool) or max_batch_size < 1:
        raise ValueError(f"max_batch_size={max_batch_size!r}, expected an integer >= 1")
    sizes = [2**i for i in range(max_batch_size.bit_length()) if 2**i < max_batch_size]
    return "".join(
        [
            f"max_batch_size {{ value: {max_batch_size} }}\n",
            f"batch_timeout_micros {{ value: {timeout_micros} }}\n",
            "max_enqueued_batches { value: 64 }\n",
            f"num_batch_threads {{ value: {threads} }}\n",
            *(f"allowed_batch_sizes: {size}\n" for size in (*sizes, max_batch_size)),
        ]
    )


def models(name: str) -> str:
    """Writes the list of models, for a folder that is mounted at /models/NAME."""
    return (
        "model_config_list {\n"
        "  config {\n"
        f'    name: "{name}"\n'
        f'    base_path: "/models/{name}"\n'
        '    model_platform: "tensorflow"\n'
        "  }\n"
        "}\n"
    )


def monitoring() -> str:
    """Writes what switches the metrics for Prometheus on."""
    return f'prometheus_config {{\n  enable: true,\n  path: "{METRICS}"\n}}\n'


def write_version(folder: str, max_batch_size: int) -> None:
    """Writes what belongs to a version."""
    _write(folder, BATCHING, batching(max_batch_size))


def write_models(folder: str, name: str) -> None:
    """Writes what belongs to the folder of versions, unless it is there."""
    for file, text in ((MODELS, models(name)), (MONITORING, monitoring())):
        if not tf.io.gfile.exists(os.path.join(folder, file)):
            _write(folder, file, text)


def _write(folder: str, file: str, text: str) -> None:
    with tf.io.gfile.GFile(os.path.join(folder, file), "w") as out:
        out.write(text)
