from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from dpsgd.data.bundle import with_fingerprint
from dpsgd.data.tail import keep_shares
from dpsgd.experiment.parts import build_part

CONF = Path(__file__).parents[2] / "conf" / "data"


def _digits(tmp_path, keep):
    node = OmegaConf.to_container(OmegaConf.load(CONF / "digits.yaml"))
    return with_fingerprint(build_part({**node, "class": "8", "keep": keep}, "data").load(tmp_path))


def test_an_exponential_profile_falls_from_one_to_keep():
    shares = keep_shares("exponential", 0.01, "0", tuple("abc"))
    assert shares == pytest.approx((1.0, 0.1, 0.01))


def test_splits_are_disjoint_and_the_tail_is_kept_at_its_share(tmp_path):
    thinned, again, whole = (_digits(tmp_path, keep) for keep in (0.25, 0.25, 1.0))
    parts = [set(s.example.tolist()) for s in (thinned.train, thinned.validation, thinned.test)]
    assert len(set.union(*parts)) == sum(map(len, parts))
    kept, all_of_them = (int((data.train.labels == 8).sum()) for data in (thinned, whole))
    assert kept == round(0.25 * all_of_them)
    assert thinned.fingerprint == again.fingerprint != whole.fingerprint
    assert (thinned.test.example == whole.test.example).all()
