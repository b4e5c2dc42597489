"""An entry for a registry of deployments of differential privacy.

The fields follow what such registries ask for: who publishes what, whom the guarantee protects, the privacy
loss and how it is accounted, the mechanism, and what the guarantee leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.json import as_object
from tidegauge.model.quantity import Span

if TYPE_CHECKING:
    from tidegauge.model.json import Json, JsonObject
    from tidegauge.publish.metadata.dataset import Dataset


def deployment(data: Dataset) -> dict[str, Json]:
    """The entry, in JSON."""
    promised, about = data.guarantee, data.about
    strategies = sorted({one.info.strategy for one in data.series})
    noises = sorted({one.info.noise for one in data.series})
    return {
        "deployment": {
            "name": about.title,
            "description": data.description,
            "curator": about.creator or None,
            "contact": about.contact or None,
            "url": about.url or None,
            "status": "simulated" if promised.simulated else "active",
            "first_published": data.span[0] if data.span else None,
            "last_published": data.span[1] if data.span else None,
        },
        "data_product": {
            "type": "statistics of a live database, published continuously",
            "releases": [
                {
                    "name": one.info.name,
                    "query": one.info.sql,
                    "schedule": f"every {one.info.every}",
                    "derived_from": one.info.of,
                    "privacy_loss": one.info.loss,
                    "half_width_95_worst": one.info.half_width_worst,
                }
                for one in data.series
            ],
            "access": "public",
        },
        "privacy_guarantee": {
            "flavor": _flavor(data),
            "unit": promised.unit or "row",
            "unit_description": promised.protects,
            "epsilon": promised.epsilon,
            "delta": promised.delta,
            "rho": promised.rho,
            "epsilon_at": {"epsilon": promised.epsilon_at, "delta": promised.delta_at},
            "lifetime": "everything published, over the gauge's whole lifetime",
            "contribution_bound": dict(promised.constraint),
            "max_rows_per_unit": promised.max_rows,
            "adjacency": f"a unit with all its changes{_in_a_term(promised.constraint)}, present or absent",
            "adaptive": all(one.info.adaptive for one in data.series),
        },
        "model": {"trust": "central", "setting": "continual release"},
        "accounting": {
            "measure": promised.measure,
            "total": promised.total,
            "reserved": promised.reserved,
            "composition": "the ledger reserves the whole loss before the first measurement",
            "post_processing": "decoding, derived releases and noise intervals use noisy measurements alone",
        },
        "implementation": {
            "software": data.software,
            "mechanisms": strategies,
            "noise": noises,
            "samplers": "OpenDP",
            "arithmetic": "exact integers before the noise",
            "plan": promised.plan,
            "seal": data.seal,
        },
        "not_protected": [
            "the declaration: queries, groups, schedule and bounds are public",
            "that the gauge exists and when it publishes",
            "what is known of a unit from other publications about the same people",
        ],
    }


def _flavor(data: Dataset) -> str:
    if data.guarantee.rho is not None:
        return "zero-concentrated differential privacy"
    pure = data.guarantee.delta is None
    return "pure differential privacy" if pure else "approximate differential privacy"


def _in_a_term(constraint: JsonObject) -> str:
    """The term in which changes are protected, in words; empty where the constraint does not renew."""
    found = constraint.get("renews")
    return "" if found is None else f" in one term of {Span.from_json(as_object(found))}"
