"""Systems that only decode: SavedModels of ours, and CTranslate2."""

import os
import types

import numpy as np
import tensorflow as tf

import hypertf
from experiments.benchmarks.peers import Hypertf, Operation, Workload

ONE_TASK = types.SimpleNamespace(name="task", choices=None)


class SavedModel:
    """An export of the plain T5, loaded as a server would load it.

    Args:
        system: whose model is exported.
        folder: where to.
        **options: of `hypertf.export.save`.
    """

    def __init__(self, system: Hypertf, folder: str, **options: object) -> None:
        self._workload, self._source = system.workload, system.source
        self._versions = {}

        def load(length: int) -> hypertf.export.Loaded:
            if length not in self._versions:
                path = hypertf.export.save(
                    system.model,
                    None,
                    [ONE_TASK],
                    os.path.join(folder, str(length)),
                    task=ONE_TASK.name,
                    targets_length=length,
                    signatures=("tokens",),
                    **options,
                )
                self._versions[length] = hypertf.export.load(path)
            return self._versions[length]

        self._load = load

    def decode(self, batch: int, length: int | None = None) -> Operation:
        """Makes an operation that decodes so many rows greedily."""
        length = length or self._workload.decode_length
        function = self._load(length).signatures["tokens"]
        tokens = tf.constant(self._workload.tokens(batch, self._source.shape[1], 0))
        return lambda: function(tokens=tokens)["output_tokens"].numpy()


class CTranslate2:
    """OpenNMT's engine, the fastest T5 on CPU that users can install.

    Args:
        workload: what it decodes.
        folder: for the converted model.
        compute_type: "float32" or "int8".
    """

    def __init__(self, workload: Workload, folder: str, compute_type: str) -> None:
        import ctranslate2

        self._workload = workload
        self._words = [f"<{i}>" for i in range(workload.config.vocab_size)]
        path = os.path.join(folder, f"ctranslate2_{compute_type}")
        self._convert(os.path.join(folder, "huggingface"), path, compute_type)
        self._translator = ctranslate2.Translator(
            path,
            compute_type=compute_type,
            inter_threads=1,
            intra_threads=os.cpu_count() or 1,
        )

    def _convert(self, source: str, path: str, compute_type: str) -> None:
        """Converts random weights; words stand for ids, as there is no text."""
        from ctranslate2.converters import TransformersConverter

        words = self._words
        tokenizer = types.SimpleNamespace(
            get_vocab=lambda: {word: i for i, word in enumerate(words)},
            convert_ids_to_tokens=words.__getitem__,
            pad_token=words[0],
            eos_token=words[1],
            unk_token=words[2],
        )

        class Converter(TransformersConverter):
            def load_tokenizer(self, tokenizer_class: type, *args: object) -> object:
                return tokenizer

        if not os.path.isdir(source):
            model = hypertf.T5(self._workload.config)
            hypertf.checkpoints.save(model, source, format="huggingface")
        Converter(source).convert(path, quantization=compute_type, force=True)

    def decode(self, batch: int, length: int | None = None) -> Operation:
        """Makes an operation that decodes so many rows greedily."""
        w = self._workload
        length = length or w.decode_length
        rows = w.tokens(batch, w.input_length, 0)
        words = [[self._words[i] for i in row] for row in rows]

        def run() -> None:
            results = self._translator.translate_batch(
                words,
                beam_size=1,
                min_decoding_length=length,
                max_decoding_length=length,
            )
            assert np.all([len(r.hypotheses[0]) == length for r in results])

        return run
