"""Packaging of hypertf.

Each lower bound is the release line that the tests ran on; each upper bound is
the next release that may break them. Of TensorFlow and what goes with it there are
two lines, 2.20 and 2.21: pip takes the packages of one.
"""

from setuptools import find_packages, setup

REQUIRES = [
    "absl-py>=2.5,<3",
    "h5py>=3.14,<4",
    "importlib-resources>=7.1,<8",  # TFDS needs it to prepare data, but has it not
    "keras>=3.15,<3.16",
    "keras-hub>=0.32,<0.33",
    "matplotlib>=3.11,<4",
    "ml-dtypes>=0.6,<0.7",
    "numpy>=2.4,<3",
    "pyarrow>=26,<27",
    "rouge-score>=0.1.2,<0.2",
    "sacrebleu>=2.6,<3",
    "safetensors>=0.8,<0.9",
    "scikit-learn>=1.9,<2",
    "scipy>=1.17,<2",
    "sentencepiece>=0.2.2,<0.2.3",  # 0.2.3 trains other pieces (nano)
    "tensorboard>=2.20,<2.22",
    "tensorflow>=2.20,<2.22",
    "tensorflow-datasets>=4.9.10,<4.10",
    "tensorflow-text>=2.20,<2.22",
    "tqdm>=4.70,<5",
]

# The development server, its client, and warm-up requests in exports.
SERVE = [
    "aiohttp>=3.14,<4",
    "grpcio>=1.85,<2",
    "grpcio-health-checking>=1.85,<2",
    "prometheus-client>=0.26,<0.27",
    "protobuf>=7.36,<8",
    "tensorflow-serving-api>=2.20,<2.22",
]

# The pages of docs/.
DOCS = [
    "mkdocs>=1.6,<1.7",
    "mkdocs-material>=9.8,<9.9",
    "mkdocstrings[python]>=1.0,<1.1",
]

# On a TPU VM; `tensorflow-tpu` is installed over it, see docs/tpu.md.
TPU = [
    "google-api-python-client>=2.202,<3",  # with oauth2client, finds a TPU by name
    "libtpu>=0.0.14,<0.0.21",  # tensorflow-tpu 2.20 cannot load 0.0.32
    "oauth2client>=4.1.3,<5",
    "tensorflow>=2.20,<2.21",
]

# Google's TPU compiler, which needs no TPU.
TPU_COMPILER = ["jax>=0.10.2,<0.11", "libtpu>=0.0.51,<0.1"]

EXTRAS = {
    "serve": SERVE,
    "docs": DOCS,
    "tpu": TPU,
    "tpu-compiler": TPU_COMPILER,
    "test": [
        *SERVE,
        *DOCS,
        *TPU_COMPILER,
        "ipykernel>=7.4,<8",
        "mesh-tensorflow==0.1.21",  # the oracle of tests/parity
        "nbclient>=0.11,<0.12",
        "nbformat>=5.11,<6",
        "pytest>=9.2,<10",
        "pytest-xdist>=3.8,<4",
        "ruff>=0.17,<0.18",  # a minor release may change the format
        "selenium>=4.51,<5",
    ],
    # Peers to be measured beside; nothing else may import them.
    "bench": [
        "ctranslate2>=4.8,<5",
        "torch>=2.13,<2.14",
        "transformers>=5.22,<6",
    ],
}

setup(
    name="hypertf",
    version="0.1.0",
    description="One T5, every task: text-to-text models told their task by example",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11,<3.13",
    packages=find_packages(
        include=[
            "hypertf",
            "hypertf.*",
            "tfds_tasks",
            "tfds_tasks.*",
            "experiments",
            "experiments.*",
        ]
    ),
    package_data={
        "experiments.serving": ["page.html"],
        "tfds_tasks": ["examples/*"],
        "tfds_tasks.nano": ["spiece.model"],
    },
    install_requires=REQUIRES,
    extras_require=EXTRAS,
)
