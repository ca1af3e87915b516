"""TF Serving's JSON: what a request's values become, and how outputs are written."""

import base64
import binascii
import json
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from experiments.serving.errors import invalid, shown
from experiments.serving.loaded_model import Signature

# TF Serving writes an output of such a name as base64, whatever is in it.
BYTES = "_bytes"


def read_body(body: bytes) -> dict:
    """Reads the JSON object of a request."""
    try:
        request = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise invalid(f"the body is not UTF-8: {error}") from error
    except json.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}") from error
    except (RecursionError, ValueError) as error:  # too deep; a number too long
        raise invalid("the body is JSON that is too deep or too large") from error
    if not isinstance(request, dict):
        raise invalid(f"the body is {shown(request)}, expected a JSON object")
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(f"signature_name is {shown(name)}, expected a string")
    if ("instances" in request) == ("inputs" in request):
        raise invalid('expected either "instances" (rows) or "inputs" (columns)')
    return request


def to_arrays(request: dict, signature: Signature) -> dict[str, np.ndarray]:
    """Makes the inputs of a signature, from rows or from columns."""
    if "instances" in request:
        columns = _columns(request["instances"], signature.inputs)
    else:
        columns = request["inputs"]
        if not isinstance(columns, dict) or _is_base64(columns):
            columns = {_only(signature.inputs, "inputs"): columns}
    arrays = {}
    for name, values in columns.items():
        if name not in signature.inputs:
            raise invalid(
                f"input {shown(name)} is unknown, expected "
                f"{', '.join(signature.inputs)}"
            )
        arrays[name] = _to_array(values, signature.inputs[name], f'input "{name}"')
    return arrays


def _columns(instances, inputs):
    """Rows to columns; a row of a single input may be its bare value."""
    if not isinstance(instances, list):
        raise invalid(f"instances is {shown(instances)}, expected a list of rows")
    columns = {name: [] for name in inputs}
    for i, row in enumerate(instances):
        if not isinstance(row, dict) or _is_base64(row):
            row = {_only(inputs, f"instances[{i}]"): row}
        if row.keys() != inputs.keys():
            raise invalid(
                f"instances[{i}] has {', '.join(map(shown, row)) or 'nothing'}, "
                f"expected {', '.join(inputs)}"
            )
        for name, value in row.items():
            columns[name].append(value)
    return columns


def _only(inputs, what):
    if len(inputs) != 1:
        raise invalid(f"{what} is no object, expected one with {', '.join(inputs)}")
    return next(iter(inputs))


def _is_base64(value):
    return isinstance(value, dict) and value.keys() == {"b64"}


def _to_array(values, spec, what):
    """Lists of lists, as deep as the signature says, to an array."""
    rank, shape, flat = spec.shape.rank, [], [values]
    for depth in range(rank or 0):
        for value in flat:
            if not isinstance(value, list):
                raise invalid(
                    f"{what} has {shown(value)}, expected a list: its shape is "
                    f"{spec.shape.as_list()} (None: any)"
                )
        lengths = {len(value) for value in flat} or {0}
        if len(lengths) > 1:
            raise invalid(
                f"{what} has rows of {min(lengths)} and of {max(lengths)} values in "
                f"dimension {depth}, expected the same of all"
            )
        shape += lengths
        flat = [item for value in flat for item in value]
    read = _READERS.get(_kind(spec.dtype))
    if read is None:
        raise invalid(f"{what} is {spec.dtype.name}, which JSON cannot say")
    flat = [read(value, spec.dtype, what) for value in flat]
    dtype = object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype
    array = np.empty(len(flat), dtype)
    array[:] = flat
    return array.reshape(shape)


def _kind(dtype):
    if dtype == tf.string:
        return "string"
    if dtype == tf.bool:
        return "bool"
    return "int" if dtype.is_integer else "float" if dtype.is_floating else None


def _string(value, _, what):
    if _is_base64(value) and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid(
                f"{what} has {shown(value['b64'])}, which is not base64"
            ) from error
    if not isinstance(value, str):
        raise invalid(f'{what} has {shown(value)}, expected a string or {{"b64": ...}}')
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise invalid(f"{what} has {shown(value)}, half of a character") from error


def _bool(value, _, what):
    if not isinstance(value, bool):
        raise invalid(f"{what} has {shown(value)}, expected true or false")
    return value


def _int(value, dtype, what):
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(f"{what} has {shown(value)}, expected a whole number")
    if not dtype.min <= value <= dtype.max:
        raise invalid(
            f"{what} has {shown(value)}, expected {dtype.name}: {dtype.min} to "
            f"{dtype.max}"
        )
    return value


def _float(value, _, what):
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise invalid(f"{what} has {shown(value)}, expected a number")
    return value


_READERS = {"string": _string, "bool": _bool, "int": _int, "float": _float}


def to_json(outputs: Mapping[str, np.ndarray], *, rows: bool) -> dict:
    """Writes outputs as TF Serving does; a single one loses its name.

    >>> to_json({"label": np.array([b"yes"], object)}, rows=True)
    {'predictions': ['yes']}
    """
    values = {name: _to_list(array, name) for name, array in outputs.items()}
    if not rows:
        only = next(iter(values.values())) if len(values) == 1 else values
        return {"outputs": only}
    sizes = {name: array.shape[:1] for name, array in outputs.items()}
    if len(set(sizes.values())) != 1 or () in sizes.values():
        raise invalid('the outputs are not rows: ask with "inputs", not "instances"')
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    by_row = zip(*values.values(), strict=True)
    return {"predictions": [dict(zip(values, row, strict=True)) for row in by_row]}


def _to_list(array, name):
    if array.dtype == object:
        flat = [_text(value, name.endswith(BYTES)) for value in array.flat]
        texts = np.empty(len(flat), object)
        texts[:] = flat
        return texts.reshape(array.shape).tolist()
    if array.dtype.kind in "biu":
        return array.tolist()
    # The shortest digits that mean this number, in its own precision.
    return array.astype(str).astype(np.float64).tolist()


def _text(value, as_base64):
    if not as_base64:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(value).decode("ascii")}
