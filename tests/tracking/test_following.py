import time
from types import SimpleNamespace

from dpsgd.experiment.track import following


def test_a_store_that_was_slow_to_make_ready_delays_no_later_look(monkeypatch):
    follower = following._Follower(SimpleNamespace(runs=None), "a sweep", [])
    pusher = SimpleNamespace(push=lambda ends, until: None, error=None)

    def ready():
        time.sleep(0.2)
        return pusher

    monkeypatch.setattr(follower, "_ready", ready)
    monkeypatch.setattr(follower, "_waiting", lambda pusher: [])
    follower.look()
    assert follower.pause == following.LOOK_EVERY
