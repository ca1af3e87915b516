"""The declarations of all tasks, by benchmark; importing this registers them."""

from tfds_tasks.declarations import (  # noqa: F401
    glue,
    nano,
    nli,
    reading,
    summarization,
    super_glue,
    transfer,
    translation,
)
