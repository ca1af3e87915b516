"""The declarations of all tasks, by benchmark; importing this registers them."""

# The order of declaration is that of the columns in T5's table of results.
from tfds_tasks.declarations import glue  # noqa: F401, I001
from tfds_tasks.declarations import summarization  # noqa: F401
from tfds_tasks.declarations import reading  # noqa: F401
from tfds_tasks.declarations import super_glue  # noqa: F401
from tfds_tasks.declarations import nano, nli, transfer, translation  # noqa: F401
