from __future__ import annotations

import numpy as np
import pytest
from planted_predictions import evaluated, predictions


@pytest.mark.parametrize("classes", [3, 5])
def test_every_value_lies_in_its_interval_and_names_its_n(classes):
    probabilities, labels = predictions(200, classes)
    probabilities = np.hstack([probabilities, np.zeros((200, 1))])  # and a class that is absent
    frame = evaluated(probabilities, labels, tail=(classes - 1, classes))
    # Resampling raises an ECE and lowers the worst of many, so that these may lie outside.
    shown = frame[frame["value"].notna() & ~frame["metric"].isin(["ece", "tail_worst"])]
    assert len(shown) > 5 * classes
    assert (shown["lo"] <= shown["value"] + 1e-9).all()
    assert (shown["value"] <= shown["hi"] + 1e-9).all()
    assert (shown["n"] > 0).all()
