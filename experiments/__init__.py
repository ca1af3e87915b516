"""Programs that train, score, export, serve and measure, and what they are made of.

Each program is a function that a notebook calls, and a command with flags:

    from experiments.train import train          python -m experiments.train --help
    from experiments.evaluate import evaluate    python -m experiments.evaluate --help
    from experiments.predict import predict      python -m experiments.predict --help
    from experiments.report import report        python -m experiments.report --help
    from experiments.export import export        python -m experiments.export --help
    from experiments.serve import serve          python -m experiments.serve --help
    from experiments.client import Client        python -m experiments.client --help
    from experiments.bench import bench          python -m experiments.bench --help
    from experiments.compile import compile      python -m experiments.compile --help
    from experiments.quickstart import quickstart

`runs/` has what a run is made of, `reports/` tables and plots, `serving/` the server,
`configs/` the named configurations with what the papers print beside them,
`benchmarks/` what is timed.
"""

import os

# TensorFlow does this by itself on some processors only; others gain from it as well.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import tfds_tasks  # noqa: F401 (starts TensorFlow without its log)
