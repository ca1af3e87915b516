"""The embedded tasks: TFDS rows written from grammars, and a vocabulary for them.

TASKS       {config: (features in the order of the text, words of the answers)}
VOCABULARY  the path of a SentencePiece model for `t5-nano`
"""

from pathlib import Path

from tfds_tasks.nano.builder import Nano
from tfds_tasks.nano.forms import TASKS, text_keys, to_text

VOCABULARY = str(Path(__file__).with_name("spiece.model"))

__all__ = ["TASKS", "VOCABULARY", "Nano", "text_keys", "to_text"]
