"""Programs and component plans as a committed plan records them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from tidegauge.mechanism.encode import ComponentPlan
from tidegauge.mechanism.noise.samplers import DiscreteGaussian, DiscreteLaplace, Noise
from tidegauge.mechanism.registry import build
from tidegauge.mechanism.registry import record as strategy_record
from tidegauge.model.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM: Final = TypeAdapter(Program)
"""Reads and writes the program of an engine."""


def program_record(program: Program) -> dict[str, Any]:
    """Without zones, terms and kept columns if there are none: older plans keep their hash."""
    record: dict[str, Any] = PROGRAM.dump_python(program, mode="json")
    if record["terms"] is None:
        del record["terms"]
    for name in ("keeps", "labels"):
        if not record[name]:
            del record[name]
    for release in record["releases"]:
        if release["schedule"]["zone"] is None:
            del release["schedule"]["zone"]
    return record


def component_plan_record(component_plan: ComponentPlan) -> dict[str, Any]:
    """How a component is measured, as a plan records it."""
    noise = component_plan.noise
    if isinstance(noise, DiscreteLaplace):
        kind = {"kind": "laplace", "scale": str(noise.scale)}
    else:
        assert isinstance(noise, DiscreteGaussian)
        kind = {"kind": "gaussian", "sigma_squared": str(noise.sigma_squared)}
    return {
        "strategy": strategy_record(component_plan.strategy),
        "refine": component_plan.refine,
        "noise": kind,
    }


def component_plan(record: dict[str, Any], matrices: Mapping[str, str]) -> ComponentPlan:
    """How a component is measured, from its record; `matrices`: the attachments of strategies."""
    drawn, strategy = record["noise"], dict(record["strategy"])
    noise: Noise = (
        DiscreteLaplace(Fraction(drawn["scale"]))
        if drawn["kind"] == "laplace"
        else DiscreteGaussian(Fraction(drawn["sigma_squared"]))
    )
    return ComponentPlan(build(strategy.pop("name"), strategy, attachments=matrices), record["refine"], noise)
