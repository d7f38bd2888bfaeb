"""Where a tracker keeps its copies, and how that is shown: never with a password."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

from dpsgd.experiment.mlflow_names import VIEW_QUERY
from dpsgd.experiment.options import config_folder

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"


@dataclass(frozen=True)
class Address:
    """A store of MLflow and the experiment in it.

    ``uri`` None is a SQLite file in ``runs``, always by its absolute path.
    """

    uri: str | None
    experiment: str
    runs: Path

    @property
    def store(self) -> str:
        """The address that MLflow is given."""
        return self.uri or f"sqlite:///{self.runs.resolve() / DATABASE}"

    @property
    def artifacts(self) -> str | None:
        """Where files go, None if the store knows."""
        return None if self.uri else (self.runs.resolve() / ARTIFACTS).as_uri()

    @property
    def locks(self) -> Path:
        """The folder of what keeps two pushers of one runs folder apart."""
        return self.runs.resolve() / ".cache"

    def page(self, experiment_id: str) -> str:
        """Return what to open, for people: an address, or a command and an address, each in lines
        of its own that can be copied.
        """
        view = f"/#/experiments/{experiment_id}/runs?{VIEW_QUERY}"
        if self.store.startswith(("http://", "https://")):
            return f"MLflow:\n{without_password(self.store).rstrip('/')}{view}"
        store = shlex.quote(without_password(self.store))
        return (
            "MLflow: mlflow ui --port 5000 \\\n"
            f"  --backend-store-uri {store}\n"
            f"http://127.0.0.1:5000{view}"
        )

    @property
    def push_command(self) -> str:
        """The command that copies what is missing; a password must be put in by hand."""
        words = ["python", "-m", "dpsgd.track", "push", str(self.runs)]
        usual = usual_tracker()
        if self.uri != usual["uri"]:
            words += ["--uri", without_password(self.store)]
        if self.experiment != usual["experiment"]:
            words += ["--experiment", self.experiment]
        return shlex.join(words)

    def scrubbed(self, text: str) -> str:
        """Return ``text`` without the password of this address."""
        password = urlsplit(self.store).password
        return text.replace(password, "***") if password else text


def usual_tracker() -> dict[str, Any]:
    """Return the settings of ``conf/tracker/mlflow.yaml``."""
    return yaml.safe_load((config_folder("conf") / "tracker/mlflow.yaml").read_text("utf-8"))


def without_password(uri: str) -> str:
    """Return ``uri`` with the password, if it has one, replaced by ``***``."""
    parts = urlsplit(uri)
    if parts.password is None:
        return uri
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))
