"""2,000 simulated people report for eight weeks whether they are well; no single answer is revealed."""

from __future__ import annotations

import random
from collections import Counter

from tidegauge import local

PEOPLE, WEEKS = 2000, 8


def main() -> None:
    survey = local.Survey(answers=["well", "ill"], windows=WEEKS, changes=2, epsilon=4)
    collector = local.Collector(survey, path="collector.db")
    truth = Counter()
    for _ in range(PEOPLE):
        falls_ill = random.choice([None, *range(1, WEEKS)])
        answers = ["ill" if falls_ill is not None and week >= falls_ill else "well" for week in range(WEEKS)]
        reporter = local.Reporter(survey, {})  # on the device; the mapping is its memory
        collector.add([reporter.report(week, answer) for week, answer in enumerate(answers)])
        truth.update(enumerate(answers))
    print("week  answer  estimate    95 %  truth")
    for row in collector.estimate().to_pylist():
        print(
            f"{row['window']:4}  {row['answer']:6}  {row['value']:8.0f}  ± {1.96 * row['stderr']:4.0f}  "
            f"{truth[row['window'], row['answer']]:5}"
        )
    collector.close()


if __name__ == "__main__":
    main()
