"""Write the table so that every reader finds plain columns, whatever codes it has in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` as Parquet. Categories are written as their values, which on disk take the
    same room, so that pandas reads them back as text, numbers or truth values.
    """
    coded = pa.Table.from_pandas(table, preserve_index=False)
    schema = _plain(coded.schema, table)
    with parquet.ParquetWriter(path, schema) as writer:
        for first in range(0, max(1, len(table)), _ROWS):  # part by part: as values they are large
            writer.write_table(coded.slice(first, _ROWS).cast(schema))


_ROWS = 200_000


def _plain(schema: pa.Schema, table: pd.DataFrame) -> pa.Schema:
    """Return the schema with the values' types in place of codes, also in what pandas notes."""
    stated = json.loads((schema.metadata or {})[b"pandas"])
    for column in stated["columns"]:
        dtype = table[column["name"]].dtype
        if isinstance(dtype, pd.CategoricalDtype):
            column.update(_as_values(dtype.categories.dtype))
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, metadata={b"pandas": json.dumps(stated).encode()})


def _as_values(dtype: Any) -> dict[str, Any]:
    """Return what pandas notes of a column of this dtype."""
    if pd.api.types.is_bool_dtype(dtype):
        return {"pandas_type": "bool", "numpy_type": "boolean", "metadata": None}
    if pd.api.types.is_integer_dtype(dtype):
        return {"pandas_type": "int64", "numpy_type": "Int64", "metadata": None}
    if pd.api.types.is_float_dtype(dtype):
        return {"pandas_type": "float64", "numpy_type": "float64", "metadata": None}
    return {"pandas_type": "unicode", "numpy_type": "string", "metadata": None}
