"""Devices: the `tf.distribute` strategy of a name, and a dataset laid out for it."""

import json
import os
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework import kernels  # says what this build can run

STRATEGIES = ("auto", "tpu", "mirrored", "multi_worker", "one_device")


def make_strategy(name: str = "auto", tpu: str | None = None) -> tf.distribute.Strategy:
    """Makes the strategy of that name.

    Args:
        name: "tpu"; "mirrored", all accelerators of this machine, or its logical CPUs
            where it has none; "multi_worker", the processes that TF_CONFIG lists;
            "one_device"; "auto" takes the first of these that there is reason for.
        tpu: name of the TPU, addresses of its hosts ("grpc://HOST:PORT,HOST:PORT"),
            or "local", the chips of this machine; by default what the environment
            names, such as TPU_NAME, else "local".
    """
    if name not in STRATEGIES:
        raise ValueError(f"strategy={name!r}, expected one of {', '.join(STRATEGIES)}")
    if tpu and name not in ("auto", "tpu"):
        raise ValueError(f"tpu={tpu!r} with strategy={name!r}, expected auto or tpu")
    return _MAKERS[_choose(tpu) if name == "auto" else name](tpu)


def _choose(tpu):
    if tpu or tf.config.list_physical_devices("TPU"):
        return "tpu"
    if num_workers() > 1:
        return "multi_worker"
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return "mirrored"
    return "one_device"


def num_workers() -> int:
    """Counts the processes that TF_CONFIG lists; 0 if it is not set."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return len(cluster.get("chief", [])) + len(cluster.get("worker", []))


# TensorFlow's own names for the TPU to take where none is given.
_TPU_VARIABLES = ("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME", "TPU_CONFIG")


def _tpu(tpu):
    if not _has_tpu_support():
        raise ValueError(
            f"strategy='tpu': TensorFlow {tf.__version__} as installed here has no TPU "
            "support, expected the build of tensorflow-tpu (docs/tpu.md)"
        )
    if not tpu:
        tpu = "" if any(map(os.environ.get, _TPU_VARIABLES)) else "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"strategy='tpu': no TPU at tpu={tpu or os.environ.get('TPU_NAME')!r} "
            f"({_in_short(error)}), expected the name of one, or 'local' on a TPU VM"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _has_tpu_support():
    """Whether this build of TensorFlow can run programs on a TPU."""
    return len(kernels.get_registered_kernels_for_op("TPUExecute").kernel) > 0


def _in_short(error):
    """The first line of an error that says something."""
    lines = (line.strip() for line in str(error).splitlines())
    telling = (line for line in lines if line and not line.startswith(_FRAME))
    return next(telling, type(error).__name__).rstrip(".;:")


_FRAME = ("Graph execution error", "Detected at node", "<stack traces")


def _mirrored(_):
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _multi_worker(_):
    if not num_workers():
        raise ValueError(
            "strategy='multi_worker': TF_CONFIG is not set, expected the cluster and "
            'this process\'s task, {"cluster": {"worker": ["host:port", ...]}, "task": '
            '{"type": "worker", "index": 0}}'
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def _one_device(_):
    return tf.distribute.get_strategy()


_MAKERS = {
    "tpu": _tpu,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "one_device": _one_device,
}


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether this process writes what all processes have in common."""
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    return resolver.task_type in (None, "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().as_dict()
    )


def check_batch_size(
    strategy: tf.distribute.Strategy, batch_size: int, microbatches: int = 1
) -> None:
    """Raises ValueError unless every replica gets as many rows, in as many parts."""
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * microbatches):
        raise ValueError(
            f"batch_size={batch_size} does not divide by {replicas} replicas times "
            f"microbatches={microbatches}"
        )


def distribute(
    strategy: tf.distribute.Strategy, make_dataset: Callable[..., tf.data.Dataset]
) -> tf.distribute.DistributedDataset:
    """Lays out a dataset: replica after replica takes rows of a global batch.

    Args:
        make_dataset: function of `host` and `num_hosts` that returns tf.data of this
            host's rows of every global batch.
    """

    def of_host(context):
        hosts = context.num_input_pipelines
        data = make_dataset(host=context.input_pipeline_id, num_hosts=hosts)
        replicas = context.num_replicas_in_sync // hosts
        if replicas == 1:
            return data

        def split(batch):
            return {
                k: tf.reshape(x, [replicas, x.shape[0] // replicas, *x.shape[1:]])
                for k, x in batch.items()
            }

        return data.map(split).unbatch().prefetch(2 * replicas)

    return strategy.distribute_datasets_from_function(of_host)
