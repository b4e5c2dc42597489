"""Seeded bugs of what a gauge may spend: several terms, the reserve, added releases, a shared ledger."""

from __future__ import annotations

from typing import Final

from tidegauge.audit.controls.around import bug

_GROW: Final = "tidegauge.plan.grow"

SPENDING: Final = (
    bug("a change when a term begins is not counted in several terms", "tidegauge.theory.renewal:_renewed",
        "terms * (k + 1) + 1", "terms * k + 2", "a unit that stays for several terms"),
    bug("a change when a term begins is not counted in several terms with a time",
        "tidegauge.theory.renewal:_renewed", "terms * (touched(bound) + 1)", "terms * touched(bound) + 1",
        "a unit that stays for several terms"),
    bug("several terms have one clip", "tidegauge.plan.certify:exposure",
        "clip *= min(terms, most_in_a_bin(program.terms, release.schedule))", "clip *= 1",
        "a unit that stays for several terms"),
    bug("a term is never longer by an hour of a clock that changes", "tidegauge.model.terms:longest",
        "strict=False)) + spread", "strict=False))", "terms of a calendar"),
    bug("a bin of months meets one term fewer", "tidegauge.model.terms:most_in_a_bin",
        "-(-longest(bins) // shortest) + 1)", "-(-longest(bins) // shortest))", "terms of a calendar"),
    bug("days of a clock that changes are all as long", "tidegauge.theory.paths.path:bins_touched",
        "bound.value + schedule.slack", "bound.value", "bins of a calendar"),
    bug("an interval touches one month fewer", "tidegauge.theory.paths.path:bins_touched",
        "_SHORTEST_MONTH)) + 1", "_SHORTEST_MONTH))", "bins of a calendar"),
    bug("several terms are as long as one", "tidegauge.plan.certify:enforced",
        "longest(program.terms, terms)", "longest(program.terms)", "a unit that stays for several terms"),
    bug("an added plan begins a moment early", "tidegauge.plan.plan:Plan.begins",
        "for plan in self.releases) - 1", "for plan in self.releases) - 2",
        "a release that is added, and a change when it begins"),
    bug("an added plan has begun when everything before it was folded", f"{_GROW}:begun",
        "plan.begins < watermark", "plan.begins <= watermark",
        "a release that is added, and begins when a bin has ended"),
    bug("an added release begins when a bin ended that was measured", "tidegauge.plan.planner:_require_later",
        "schedule.bin_end(0) <= reached", "schedule.bin_end(0) < reached", "starts of added releases"),
    bug("an added plan is committed whose start was passed", "tidegauge.run.commit:Commits.more",
        "plan.begins < store.secret.clock.watermark", "plan.begins + 1 < store.secret.clock.watermark",
        "starts of added releases"),
    bug("the first plan uses half of the reserve", "tidegauge.plan.planner:decide",
        "Room(accounted(budget), 1 - budget.held_back)", "Room(accounted(budget), 1 - budget.held_back / 2)",
        "the reserve"),
    bug("every added plan has the whole reserve", "tidegauge.plan.amend:_room",
        "left = whole.held_back / whole.total", "left = whole.budget.held_back", "the reserve"),
    bug("added plans are not added up", f"{_GROW}:require_growth", "spent += plan.needed",
        "spent = plan.needed", "the reserve"),
    bug("gauges with one ledger do not see each other", "tidegauge.store.public.shared:SharedLedger.reserve",
        "spent = sum((entry.reserved for entry in entries), Fraction(0))", "spent = before",
        "a ledger of several gauges"),
)  # fmt: skip
