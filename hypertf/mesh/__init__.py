"""Meshes of devices and layout rules, in Mesh TensorFlow's words.

`hypertf.mesh.plan` is a program and says what each device would hold;
`hypertf.mesh.devices` lays a model's variables out over real devices.
"""

from hypertf.mesh.layouts import DEFAULT_LAYOUT, Layout, parse_layout
from hypertf.mesh.shapes import MeshShape, parse_shape

__all__ = ["DEFAULT_LAYOUT", "Layout", "MeshShape", "parse_layout", "parse_shape"]
