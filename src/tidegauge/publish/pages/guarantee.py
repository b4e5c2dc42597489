"""What is promised about one unit: for lay readers first, then for experts, then what is not promised."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Final

from tidegauge.publish.markup import Markup, join, tag
from tidegauge.publish.pages.layout import frame
from tidegauge.publish.pages.words import constraint_sentences, unit_word
from tidegauge.publish.view import half_text, titled

if TYPE_CHECKING:
    from tidegauge.publish.pages.links import Links
    from tidegauge.publish.public.values import Guarantee, ReleaseInfo
    from tidegauge.publish.view import Site

FALSE_ALARMS: Final = (0.001, 0.01, 0.05, 0.1)


def guarantee(site: Site, links: Links) -> str:
    """The page."""
    promise = site.document.guarantee
    unit = unit_word(promise)
    return frame(
        site,
        links,
        tag(
            "div",
            tag("h1", f"What could someone learn about one {unit}?"),
            tag("p", _answer(promise, unit), class_="lead"),
            class_="intro",
        ),
        _lay(promise, unit),
        _not_promised(promise, unit, site),
        _experts(promise, unit, site),
        title="Guarantee",
        here="Guarantee",
        about=promise.sentence,
    )


def best_guess(epsilon: float, delta: float) -> float:
    """The largest chance of a right guess between two equally likely possibilities.

    With e = exp(epsilon), the total variation distance is at most (e - 1 + 2 delta) / (e + 1).
    """
    if epsilon > 40:
        return 1.0
    return min(1.0, (exp(epsilon) + delta) / (1 + exp(epsilon)))


def detection(alarms: float, epsilon: float, delta: float) -> float:
    """The most true alarms of a test with so many false ones."""
    if epsilon > 40:
        return 1.0
    return min(1.0, exp(epsilon) * alarms + delta, 1 - exp(-epsilon) * (1 - delta - alarms))


def _answer(promise: Guarantee, unit: str) -> str:
    if promise.simulated:
        return "Everything: the noise of these numbers was simulated, and nothing is protected."
    epsilon = promise.epsilon_at
    if epsilon <= 1:
        amount = "Very little"
    elif epsilon <= 4:
        amount = "Little"
    elif epsilon <= 10:
        amount = "A limited amount, which is not small"
    else:
        amount = "Possibly a lot: the noise is too small for a meaningful protection"
    return (
        f"{amount}. Each number is an exact one plus random noise. The noise limits how sure anyone can be "
        f"that one {unit} is in the data, or of what their record says, however much they know already."
        if epsilon <= 10
        else f"{amount}. Each number is an exact one plus random noise, and the bound on what they reveal "
        f"about one {unit} is weak."
    )


# -- for lay readers -----------------------------------------------------------------------------------------


def _lay(promise: Guarantee, unit: str) -> Markup:
    chance = best_guess(promise.epsilon_at, promise.delta_at)
    return join(
        tag(
            "section",
            tag("h2", "A bet"),
            tag(
                "p",
                f"Someone bets whether one {unit} is in the data. They know every other {unit}, and both "
                "answers are equally likely. Without our numbers they win 50 of 100 such bets. After reading "
                "every number that is ever published here, in the best possible way, they win ",
                tag("strong", f"at most {_of_hundred(chance)} of 100"),
                ". That is the worst case; a real reader knows far less and wins fewer.",
            ),
            _bars((("Without our numbers", 0.5), ("With all of them, at most", chance))),
        ),
        tag(
            "section",
            tag("h2", "What is protected"),
            tag("p", _protected(promise, unit)),
            tag("ul", (tag("li", words) for words in constraint_sentences(promise.constraint, unit)))
            if promise.constraint
            else None,
        ),
        tag(
            "section",
            tag("h2", "How it works"),
            tag(
                "ol",
                tag("li", "The exact number is computed where only the operator's program can see it."),
                tag("li", "Random noise is added once. The exact number is never written anywhere public."),
                tag("li", "The same noisy number is shown to every reader, however often it is asked for."),
                tag(
                    "li", "What all numbers together may reveal was fixed before the first one was published."
                ),
            ),
        ),
    )


def _of_hundred(chance: float) -> str:
    share = 100 * chance
    return f"{share:.0f}" if share < 99 else f"{share:.1f}".removesuffix(".0")


def _chance(delta: float) -> str:
    return f"1 in {round(1 / delta):,}" if delta < 0.1 else f"{delta:.0%}"


def _protected(promise: Guarantee, unit: str) -> str:
    if promise.unit is None:
        return (
            f"One row of the table {promise.table}. If a person has several rows, each row is protected by "
            "itself, and the person less."
        )
    rows = (
        ""
        if promise.max_rows is None
        else f" At most {promise.max_rows} rows of one {unit} count at any time."
    )
    return f"One {unit} with all of their rows.{rows}"


def _bars(bars: tuple[tuple[str, float], ...]) -> Markup:
    """Chances as bars, with their numbers as text."""
    width, row = 560, 44
    shapes = []
    for index, (name, chance) in enumerate(bars):
        y = index * row
        shapes += [
            tag("text", name, class_="note", x=0, y=y + 14),
            tag("rect", class_="bar-back", x=0, y=y + 20, width=width, height=12, rx=6),
            tag("rect", class_=f"bar b{index}", x=0, y=y + 20, width=round(width * chance), height=12, rx=6),
            tag("text", f"{_of_hundred(chance)} of 100", class_="note", x=width, y=y + 14, text_anchor="end"),
        ]
    said = "; ".join(f"{name}: {_of_hundred(chance)} of 100" for name, chance in bars)
    return tag(
        "figure",
        tag(
            "svg",
            tag("title", f"Bets won. {said}", id="bets"),
            shapes,
            class_="chart bars",
            viewBox=f"0 0 {width} {row * len(bars)}",
            role="img",
            aria_labelledby="bets",
        ),
    )


# -- what is not promised ------------------------------------------------------------------------------------


def _not_promised(promise: Guarantee, unit: str, site: Site) -> Markup:
    one_way = [one for one in site.document.releases if not one.adaptive and one.of is None]
    points = [
        ("Facts about everyone.", f"If the numbers show that most of them share a habit, a reader may "
         f"conclude that one {unit} has it too, even one who is not in the data."),
        ("Groups.", f"Ten {unit}s together are protected ten times less than one."),
        ("Other publications.", f"Other statistics of the same {unit}s add to what is revealed."),
        ("The operator.", "The program reads the exact data, and so can those who run it or break into it."),
        ("Accuracy of the data.", "The noise interval covers the noise, and neither errors in the data nor "
         "changes beyond the limits above, which are dropped."),
    ]  # fmt: skip
    if promise.unit is None:
        points.insert(2, ("Persons with several rows.", "The promise is about one row."))
    if promise.delta_at > 0:
        points.append(
            ("Certainty.", f"The bound may fail with a probability of {_chance(promise.delta_at)} (delta).")
        )
    if one_way:
        names = ", ".join(titled(one.name) for one in one_way)
        points.append(
            (
                "Data that react.",
                f"For {names} the promise holds for data that do not react to what was published.",
            )
        )
    return tag(
        "section",
        tag("h2", "What is not promised"),
        tag("ul", (tag("li", tag("strong", head), f" {words}") for head, words in points), class_="limits"),
    )


# -- for experts ---------------------------------------------------------------------------------------------


def _experts(promise: Guarantee, unit: str, site: Site) -> Markup:
    return tag(
        "section",
        tag("h2", "For experts"),
        tag("p", promise.sentence),
        (tag("p", tag("strong", "Warning: "), words, class_="alarm") for words in promise.warnings),
        tag(
            "dl",
            _pair("Definition", _definition(promise)),
            _pair("Declared budget", _declared(promise)),
            _pair(
                "Accounted in", f"{promise.measure}: {promise.reserved:.6g} of {promise.total:.6g} reserved"
            ),
            _pair("Protected", promise.protects),
            _pair("Neighbours", f"two databases that differ in the whole history of one {unit}"),
            _pair("Composition", _composition(promise)),
            _pair("Adaptivity", _adaptivity(site)),
            _pair("Randomness", "discrete samplers on exact integers; each draw is committed before it is "
                  "shown, and never drawn a second time"),
            class_="facts",
        ),
        _tests(promise),
        _strategies(promise, site),
        tag(
            "p",
            "Sensitivities are certified by proofs that come with the program. The plan ",
            tag("code", promise.plan[:12]),
            " is immutable: it was committed to the ledger before the first measurement.",
        ),
        id="experts",
    )  # fmt: skip


def _pair(name: str, value: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value))


def _definition(promise: Guarantee) -> str:
    if promise.measure == "epsilon":
        return f"pure epsilon-differential privacy under continual release, epsilon = {promise.epsilon_at:g}"
    return (
        f"zero-concentrated differential privacy under continual release, rho = {promise.reserved:.6g}; "
        f"implies epsilon = {promise.epsilon_at:.4g} at delta = {promise.delta_at:g}"
    )


def _declared(promise: Guarantee) -> str:
    parts = (("epsilon", promise.epsilon), ("delta", promise.delta), ("rho", promise.rho))
    return ", ".join(f"{name} = {value:g}" for name, value in parts if value is not None)


def _composition(promise: Guarantee) -> str:
    law = "basic composition" if promise.measure == "epsilon" else "composition of zero-concentrated losses"
    return (
        f"{law}: the losses of the releases add up and are reserved for the gauge's whole lifetime. Derived "
        "series are computed from the same measurements and add nothing."
    )


def _adaptivity(site: Site) -> str:
    own = [one for one in site.document.releases if one.of is None]
    if all(one.adaptive for one in own):
        return "holds also when the data react to what was published"
    names = ", ".join(one.name for one in own if not one.adaptive)
    return f"holds also when the data react to what was published, except for: {names}"


def _tests(promise: Guarantee) -> Markup:
    epsilon, delta = promise.epsilon_at, promise.delta_at
    rows = (
        tag(
            "tr",
            tag("th", f"{alarms:.1%}", scope="row"),
            tag("td", f"{detection(alarms, epsilon, delta):.1%}"),
        )
        for alarms in FALSE_ALARMS
    )
    return tag(
        "table",
        tag("caption", "Any test of whether one unit is in the data, on everything published together"),
        tag(
            "thead",
            tag(
                "tr",
                tag("th", "False alarms", scope="col"),
                tag("th", "True alarms, at most", scope="col"),
            ),
        ),
        tag("tbody", rows),
        class_="plain numbers tests",
    )


def _strategies(promise: Guarantee, site: Site) -> Markup:
    head = (
        "Release", "Strategy", "Sensitivity", "Measurements one unit can change",
        "Noise (standard deviation)", promise.measure, "95 % noise interval, ± worst", "± mean", "Adaptive",
    )  # fmt: skip
    return tag(
        "div",
        tag(
            "table",
            tag("caption", "How each release is measured"),
            tag("thead", tag("tr", (tag("th", name, scope="col") for name in head))),
            tag("tbody", (_strategy(one) for one in site.document.releases)),
            class_="plain numbers",
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Strategies",
    )


def _sensitivity(one: ReleaseInfo) -> str:
    """The norm that the noise needs, and the most that one unit can change all measurements in it."""
    return f"{'L1' if 'Laplace' in one.noise else 'L2'}, at most {one.sensitivity:.4g}"


def _strategy(one: ReleaseInfo) -> Markup:
    parameters = ", ".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {str(value)[:12]}"
        for name, value in sorted(one.parameters.items())
    )
    strategy = f"{one.strategy} ({parameters})" if parameters else one.strategy
    cells = (
        f"derived from {one.of}" if one.of else strategy,
        "" if one.sensitivity is None else _sensitivity(one),
        "" if one.of else "bounded by its sensitivity" if one.folds is None else f"{one.folds:,}",
        "" if one.of else f"{one.noise}, {half_text(one.noise_scale)}",
        "0" if one.of else f"{one.loss:.4g}",
        half_text(one.half_width_worst),
        half_text(one.half_width_mean),
        "yes" if one.adaptive else "no",
    )
    return tag(
        "tr",
        tag("th", one.name, scope="row"),
        (tag("td", cell, class_="wrap" if at < 4 else None) for at, cell in enumerate(cells)),
    )
