"""Write the table so that every reader finds plain columns, whatever codes it has in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` as Parquet. What are categories in memory are read back, by pandas and by
    others, as text, numbers or truth values.
    """
    coded = pa.Table.from_pandas(table, preserve_index=False)
    # Codes are written as they are, which is fast; without Arrow's own schema in the file nobody
    # takes them for anything but the values that they stand for.
    with parquet.ParquetWriter(path, coded.schema, store_schema=False) as writer:
        writer.add_key_value_metadata({"pandas": _plain(coded.schema, table)})
        writer.write_table(coded)


def _plain(schema: pa.Schema, table: pd.DataFrame) -> str:
    """Return what pandas notes of the columns, with the values' types in place of codes."""
    stated = json.loads((schema.metadata or {})[b"pandas"])
    for column in stated["columns"]:
        dtype = table[column["name"]].dtype
        if isinstance(dtype, pd.CategoricalDtype):
            column.update(_as_values(dtype.categories.dtype))
    return json.dumps(stated)


def _as_values(dtype: Any) -> dict[str, Any]:
    """Return what pandas notes of a column of this dtype."""
    if pd.api.types.is_bool_dtype(dtype):
        return {"pandas_type": "bool", "numpy_type": "boolean", "metadata": None}
    if pd.api.types.is_integer_dtype(dtype):
        return {"pandas_type": "int64", "numpy_type": "Int64", "metadata": None}
    if pd.api.types.is_float_dtype(dtype):
        return {"pandas_type": "float64", "numpy_type": "float64", "metadata": None}
    return {"pandas_type": "unicode", "numpy_type": "string", "metadata": None}
