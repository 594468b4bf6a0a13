"""Parameters of the estimators, and what they ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from bitstep.checks import check_bool
from bitstep.devices import (
    built_pipelines,
    check_option_names,
    default_device,
    device_class,
    has_bit_planes,
    open_device,
)
from bitstep.options.models import MODELS, Model
from bitstep.options.rules import Request
from bitstep.options.table import OPTIONS, PATIENCE, VALIDATION_FRACTION
from bitstep.options.words import PYTHON
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.training.choices import check_options
from bitstep.training.scores.fits import check_verbose, status_of
from bitstep.training.scores.stopping import check_fraction

# Options whose parameters have other values, or a default that asks for nothing.
OTHERWISE = ("model", "seed", "solver", "planes", "refetch", "validation_fraction",
             "n_iter_no_change")
_OF_PIPELINES = ("name", "bus_width", "lookahead", "packed")    # parts of a device's dictionary


class Parameters(BaseEstimator):
    """Parameters that both estimators have."""

    _task: ClassVar[str]        # of the models that ``loss`` names

    def __init__(self, *, bits: Any = "auto", encoding="auto", levels="uniform",
                 epochs: Any = "auto", step: Any = "auto", schedule: Any = "auto",
                 batch: Any = "auto", l2: Any = "auto", l1=0.0,
                 box: Any = None, copies=1, scaler: Any = "auto", feature_range: Any = "auto",
                 label_range: Any = "auto",
                 model_range: Any = "auto", fit_intercept=True, device: Any = "auto",
                 warm_start=False, random_state: Any = None, solver="auto", planes: Any = None,
                 tol: Any = "auto", early_stopping=False, validation_fraction=VALIDATION_FRACTION,
                 n_iter_no_change=PATIENCE, verbose=0, model_bits=0, update_bits=0, shuffle=True,
                 loss="squared_error", epsilon: Any = "auto"):
        self.bits = bits
        self.encoding = encoding
        self.levels = levels
        self.epochs = epochs
        self.step = step
        self.schedule = schedule
        self.batch = batch
        self.l2 = l2
        self.l1 = l1
        self.box = box
        self.copies = copies
        self.scaler = scaler
        self.feature_range = feature_range
        self.label_range = label_range
        self.model_range = model_range
        self.fit_intercept = fit_intercept
        self.device = device
        self.warm_start = warm_start
        self.random_state = random_state
        self.solver = solver
        self.planes = planes
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose
        self.model_bits = model_bits
        self.update_bits = update_bits
        self.shuffle = shuffle
        self.loss = loss
        self.epsilon = epsilon

    def _kind(self) -> Model:
        """Loss and default rows of what the parameters ask for."""
        kinds = {kind.sklearn_loss: kind for kind in MODELS.values() if kind.task == self._task}
        if not (isinstance(self.loss, str) and self.loss in kinds):
            raise ValueError(f"loss must be one of {', '.join(map(repr, kinds))}, not "
                             f"{self.loss!r}")
        return kinds[self.loss]

    @property
    def _is_classifier(self) -> bool:
        return self._kind().task == "classification"

    def _asked_refetch(self) -> bool | None:
        """Refetching as asked for; None: wherever it is possible."""
        return False

    def _request(self, **facts: Any) -> Request:
        """Options that the parameters ask for; ``facts`` are those of
        :data:`bitstep.options.rules.FACTS`.
        """
        options = self._device_options()
        asked = {name: given(getattr(self, option.python, None))
                 for name, option in OPTIONS.items() if option.python and name not in OTHERWISE}
        if asked["tol"] is not None and getattr(self, "n_iter_no_change", PATIENCE) != PATIENCE:
            # Without tol it asks for nothing, as in scikit-learn.
            asked["n_iter_no_change"] = self.n_iter_no_change
        asked |= {name: options[name] for name in ("bus_width", "lookahead", "packed")}
        asked |= {"model": self._kind().name, "device_models": options.get("models"),
                  "planes": self.planes, "refetch": self._asked_refetch(), "solver": self.solver}
        if self.warm_start:
            facts = {**facts, "warm_start": True}
        if (name := self._no_bit_planes(options)) is not None:
            facts = {**facts, "no_bit_planes": name}
        if "opened" not in options:
            facts = {**facts, "built": built_pipelines(options["name"], _own_options(options))}
        else:
            facts = {**facts, "built": [options["opened"].config]}
        # Searches over arrays give numbers of NumPy, which are no JSON of a model file.
        asked = {name: value.item() if isinstance(value, np.generic) else value
                 for name, value in asked.items()}
        return Request(PYTHON, asked, {
            "validation_fraction": self.validation_fraction,
            "n_iter_no_change": self.n_iter_no_change}, facts)

    def _no_bit_planes(self, options: dict[str, Any]) -> str | None:
        """Name of the device if it has no pipeline for bit-plane rows; None if it has."""
        opened, family = options.get("opened"), LOSSES[self._kind().loss].loss_family
        if opened is not None:
            has = (opened.config.row_format, opened.config.loss_family) == (BIT_PLANES, family)
            return None if has else opened.name
        has = has_bit_planes(options["name"], _own_options(options), family)
        return None if has else options["name"]

    def _check(self, **facts: Any) -> None:
        """Raise ValueError unless the parameters go together, and each is in its range."""
        check_options(self._request(**facts))
        for name in ("warm_start", "shuffle", "fit_intercept", "early_stopping"):
            check_bool(name, getattr(self, name))
        OPTIONS["solver"].kind.check("solver", self.solver)     # None would be one, too
        check_verbose(self.verbose)
        check_fraction(self.validation_fraction)
        if self.tol != "auto":      # as above
            OPTIONS["tol"].kind.check("tol", self.tol)
        OPTIONS["n_iter_no_change"].kind.check("n_iter_no_change", self.n_iter_no_change)
        if isinstance(self.random_state, (int, np.integer)):
            OPTIONS["seed"].kind.check("random_state", self.random_state)
        options = self._device_options()
        if "opened" not in options:
            check_option_names(options["name"], _own_options(options))

    def _seed(self) -> int:
        """The seed, or one that is drawn."""
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _device_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"bus_width": None, "lookahead": "auto", "packed": False}
        if isinstance(self.device, str):
            return options | {"name": default_device() if self.device == "auto" else self.device}
        if isinstance(self.device, dict):
            if "name" not in self.device:
                raise ValueError("device must have a 'name' if it is a dictionary, not only "
                                 f"{', '.join(map(repr, self.device)) or 'nothing'}")
            return options | self.device
        opened = getattr(self.device, "config", None)
        if not isinstance(opened, PipelineConfig):
            raise ValueError("device must be 'auto', the name of a device, a dictionary with "
                             f"'name' and options, or an opened device, not {self.device!r}")
        return options | {"bus_width": opened.bus_width, "packed": opened.packed,
                          "opened": self.device}

    def _device_kind(self, options: dict[str, Any]) -> Any:
        """The device that was opened, or the class of the one to open."""
        return options["opened"] if "opened" in options else device_class(options["name"])

    @contextmanager
    def _opened(self, config, options) -> Iterator[Device]:
        if "opened" in options:
            yield options["opened"]
            return
        extra = _own_options(options)
        if "progress" in signature(device_class(options["name"])).parameters:
            extra.setdefault("progress", status_of(self.verbose, options["name"]))
        few_bits = bool(self.model_bits or self.update_bits)
        with open_device(options["name"], config, few_bits=few_bits, **extra) as device:
            if "progress" in extra and hasattr(extra["progress"], "clear"):
                extra["progress"].clear()
            yield device


def _own_options(options: dict[str, Any]) -> dict[str, Any]:
    """Of a device's dictionary what its class takes."""
    return {name: value for name, value in options.items() if name not in _OF_PIPELINES}


def given(value: Any) -> Any:
    """None for a parameter that is left open."""
    return None if isinstance(value, str) and value == "auto" else value
