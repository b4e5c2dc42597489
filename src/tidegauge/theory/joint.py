"""Sensitivity of all measurements of a release together: T9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.theory._arguments import whole
from tidegauge.theory.folds import hdcr_folds, load_folds
from tidegauge.theory.sensitivity import Sensitivity, most_counted, sensitivity

if TYPE_CHECKING:
    from tidegauge.model.constraint import Constraint
    from tidegauge.model.quantity import Number
    from tidegauge.model.query import Kind
    from tidegauge.theory._arguments import Length


def joint(
    *,
    folds: int,
    kind: Kind = "stock",
    lower: Number | str,
    upper: Number | str,
    grouped: bool = False,
    rows: int = 1,
    mutations: int | None = None,
    clip: int | None = None,
    firsts: int = 1,
    seen: int = 1,
) -> Sensitivity:
    """The most that one unit can move all measurements of a release together.  [T9]

    Requires: a unit changes at most `folds` measurements, and a change lies in at most `seen` of them.
    Stock:    in at least `firsts` of the measurements that it changes, the unit starts from nothing: 1 for a
              disjoint release (the insertion), 0 for sliding windows; for a hierarchy use hdcr_joint.
    Flow:     at most `mutations` in all and `clip` in a measurement.
    Tight:    disjoint releases: a stock that alternates between the ends of its range or between two groups,
              a flow with as many changes in one window as there may be.
    Proof:    docs/theory/T9.md, docs/theory/T9-flow.md
    """
    changed = whole(folds, key="folds", least=0)
    insertion = sensitivity(kind="flow", lower=lower, upper=upper, rows=rows, mutations=1)
    if kind == "flow":
        most = most_counted(mutations=mutations, clip=clip)
        counted = most * changed
        if mutations is not None:
            counted = min(counted, mutations * whole(seen, key="seen", least=1))
        full, rest = divmod(counted, most)
        return Sensitivity(
            l1=counted * insertion.l1, l2_squared=(full * most**2 + rest**2) * insertion.l2_squared
        )
    change = sensitivity(kind=kind, lower=lower, upper=upper, grouped=grouped, rows=rows)
    inserted = min(whole(firsts, key="firsts", least=0), changed)
    return Sensitivity(
        l1=inserted * insertion.l1 + (changed - inserted) * change.l1,
        l2_squared=inserted * insertion.l2_squared + (changed - inserted) * change.l2_squared,
    )


def hdcr_joint(
    constraint: Constraint | None,
    *,
    width: Length,
    branching: int,
    height: int,
    count: int | None = None,
    initial: bool = True,
    lower: Number | str,
    upper: Number | str,
    grouped: bool = False,
    rows: int = 1,
) -> Sensitivity:
    """The most that one unit can move all nodes of a stock's hierarchical release together.  [T9]

    Nodes:    as for hdcr_folds; `initial`: whether the load is measured.
    Requires: the constraint is enforced.
    Units:    one that enters after the start starts from nothing in every layer, one of the load
              in the initial node alone; the larger of both bounds is returned.
    Proof:    docs/theory/T9-hierarchy.md
    """
    inside = hdcr_folds(
        constraint, width=width, branching=branching, height=height, count=count, initial=False
    )
    loaded = load_folds(constraint, width=width, branching=branching, height=height, count=count)
    new = joint(folds=inside, firsts=height, lower=lower, upper=upper, grouped=grouped, rows=rows)
    old = joint(
        folds=loaded if initial else loaded - 1,
        firsts=1 if initial else 0,
        lower=lower,
        upper=upper,
        grouped=grouped,
        rows=rows,
    )
    return Sensitivity(l1=max(new.l1, old.l1), l2_squared=max(new.l2_squared, old.l2_squared))
