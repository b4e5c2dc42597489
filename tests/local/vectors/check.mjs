// Replays the shared vectors against reporter.js, then lets fresh reporters speak.
// Runs in a browser and in node.

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The cases that differ, and the two numbers of a case that the other implementation must agree on. */
export async function replay({ Reporter, acceptance }, vectors) {
  const wrong = [];
  for (const [number, each] of vectors.cases.entries()) {
    const secret = Uint8Array.from(each.secret.match(/../g), (pair) => parseInt(pair, 16));
    const how = { secret, firstWindow: each.first_window, stateIsCurrent: each.state_is_current };
    const state = new Map();
    for (const [at, [window, answer]] of each.asked.entries()) {
      // opened again for every window, as after a restart
      const reporter = await Reporter.open(each.survey, state, how);
      if (hex(await reporter.report(window, answer)) !== each.reports[at]) wrong.push([number, window]);
    }
  }
  for (const [text, weight] of Object.entries(vectors.acceptance)) {
    const [numerator, denominator = "1"] = text.split("/");
    if (String(acceptance([BigInt(numerator), BigInt(denominator)])) !== weight)
      wrong.push(["acceptance", text]);
  }
  return wrong;
}

/** The reports of so many people, all in one row of bytes. */
export async function speak({ Reporter }, survey, people, life) {
  const reports = [];
  for (let person = 0; person < people; person++) {
    const reporter = await Reporter.open(survey, new Map());
    for (const [window, answer] of life.entries()) reports.push(await reporter.report(window, answer));
  }
  const all = new Uint8Array(reports.length * reports[0].length);
  reports.forEach((report, at) => all.set(report, at * report.length));
  return all;
}

/** What must not happen: refusals that are missing, a second pattern, two reports at once that differ. */
export async function misuse({ Reporter, ReporterError, storage }, survey, store) {
  const failures = [];
  const refused = async (what, work) => {
    try {
      await work();
      failures.push(what);
    } catch (problem) {
      if (!(problem instanceof ReporterError)) failures.push(`${what}: ${problem}`);
    }
  };
  const state = storage(store);
  const reporter = await Reporter.open(survey, state);
  const answer = JSON.parse(survey).answers[0];
  const [one, two] = await Promise.all([reporter.report(0, answer), reporter.report(0, null)]);
  if (hex(one) !== hex(two)) failures.push("two reports of one window differ");
  await reporter.report(1, answer);
  await refused("a past window", () => reporter.report(0, answer));
  await refused("an unknown answer", () => reporter.report(2, "no such answer"));
  await refused("a window too many", () => reporter.report(10 ** 6, answer));
  await refused("a survey that is none", () => Reporter.open("{}", state));
  const data = JSON.parse(survey);
  await refused("a forged survey", () => Reporter.open(JSON.stringify({ ...data, epsilon: "0" }), state));
  const forged = { ...data, groups: [{ kind: "response", share: 1, branching: -2, layers: 3 }] };
  await refused("a forged group", () => Reporter.open(JSON.stringify(forged), state));
  const tilted = data.groups.find((group) => group.kind === "tilted");
  for (const [key, value] of [["changes", 1.5], ["good", null], ["good", [[1, 0], 3]], ["good", [[9, 9]]]]) {
    const law = JSON.stringify({ ...data, groups: [{ ...tilted, [key]: value }] });
    await refused(`a forged law: ${key}`, () => Reporter.open(law, state));
  }
  const damaged = { get: () => ({ secret: "00" }), set: () => undefined };
  await refused("a damaged state", () => Reporter.open(survey, damaged));
  const lost = await (await Reporter.open(survey, new Map())).report(2, answer);
  if (lost[1] !== 2) failures.push("a lost state speaks again");
  const timed = JSON.stringify({ ...data, start: "2026-01-01T00:00:00+00:00", every: 3600 });
  const clock = () => Date.parse("2026-01-01T01:30:00Z");
  const late = await Reporter.open(timed, new Map(), { clock, firstWindow: 1 });
  await refused("a window that is over", () => late.report(0, answer));
  await late.report(1, answer);
  return failures;
}
