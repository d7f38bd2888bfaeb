# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
from __future__ import annotations

import pandas as pd
from pandas.testing import assert_frame_equal
from planted_cells import baseline, cell
from planted_run_files import table_of

from analysis.cells import one_row_each
from analysis.table_file import write_table


def test_settings_are_read_back_as_values_of_their_own_type(tmp_path):
    odd = {"config.text": "猫", "config.flag": True, "config.count": 3, "config.share": 0.5}
    table = table_of(tmp_path, cell(**odd), baseline())
    assert isinstance(table["config.text"].dtype, pd.CategoricalDtype)
    write_table(table, tmp_path / "cells.parquet")
    back = pd.read_parquet(tmp_path / "cells.parquet")
    assert not any(isinstance(dtype, pd.CategoricalDtype) for dtype in back.dtypes)
    kinds = {name: str(back[name].dtype) for name in odd}
    assert kinds == {"config.text": "string", "config.flag": "boolean",
                     "config.count": "Int64", "config.share": "float64"}  # fmt: skip
    assert_frame_equal(one_row_each(back), one_row_each(table))
