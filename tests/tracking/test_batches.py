import pytest

from dpsgd.experiment.track.copying import MOST_ENTITIES, MOST_PARAMS, _batches


@pytest.mark.parametrize("rows", [0, 1, 900, 901, 2500])
@pytest.mark.parametrize("pairs", [0, 1, 100, 250])
def test_batches_are_as_large_as_a_server_takes_and_hold_everything(rows, pairs):
    given = list(range(rows)), list(range(pairs))
    found = list(_batches(*given))
    assert all(len(r) + len(p) <= 1000 and len(p) <= 100 for r, p in found)
    assert [row for some, _ in found for row in some] == given[0]
    assert [pair for _, some in found for pair in some] == given[1]
    fewest = max(-(-(rows + pairs) // MOST_ENTITIES), -(-pairs // MOST_PARAMS))
    assert len(found) == fewest
