"""Tasks that a user declares in a TOML file, without Python.

`toml_file` reads declarations, `rows` the files that they name, `preparation` writes
those into TFDS data, `tasks` makes the same `Task` of them that ours are.
"""
