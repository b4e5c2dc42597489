// The part that runs on a person's device, for browsers: the same bytes as reporter.py for the same survey,
// secret and answers.  A plain ES module; all randomness comes from WebCrypto, drawn once, and every choice
// is HMAC-SHA-256 of that secret and a label, compared with exact integers.  What reporter.py says about the
// bound on what reports reveal, about lost and restored states and about missed windows holds here word for
// word.
//
//   const reporter = await Reporter.open(surveyText, storage(localStorage));
//   const bytes = await reporter.report(window, answer);          // answer null: not there

const VERSION = 1;
const ONE = 1n << 64n; // probabilities are whole multiples of 2^-64
const FIRST = 1;
const IDLE = 2;
const HEADER = 24; // version, flags, survey (8), role (2), window (4), token (8)
const text = new TextEncoder();

export class ReporterError extends Error {}

/** A state in localStorage, or any other Storage. */
export const storage = (store, prefix = "tidegauge:") => ({
  get: (name) => JSON.parse(store.getItem(prefix + name)) ?? undefined,
  set: (name, value) => store.setItem(prefix + name, JSON.stringify(value)),
});

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
const hmacKey = (raw) =>
  crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
const hmac = async (key, bytes) => new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes));
const ceiling = (a, b) => (a + b - 1n) / b;

/** The weight of any other output against ONE for the true one: ONE / weight is at most e^epsilon. */
export function acceptance([numerator, denominator]) {
  if (numerator >= 45n * denominator) return 1n; // e^-45 < 2^-64
  const scale = 1n << 192n;
  let term = scale;
  let total = scale; // every term is rounded down, so total / scale <= e^epsilon
  for (let step = 1n; term > 0n; step += 1n) {
    term = (term * numerator) / (denominator * step);
    total += term;
  }
  return ceiling(ONE * scale, total);
}

/** [matches, mismatches, weight] of every kind of pattern: the base law, tilted towards `good`. */
export function patternWeights(changes, signals, nu, good, accept) {
  const favoured = new Set(good.map(String));
  const [d, silent] = [BigInt(signals), ONE - BigInt(signals) * nu];
  const weights = [];
  let choices = 1n;
  for (let match = 0; match <= changes; match++) {
    let ways = choices;
    for (let mismatch = 0; mismatch <= changes - match; mismatch++) {
      const rest = changes - match - mismatch;
      const law = ways * nu ** BigInt(match) * ((d - 1n) * nu) ** BigInt(mismatch) * silent ** BigInt(rest);
      weights.push([match, mismatch, law * (favoured.has(`${match},${mismatch}`) ? ONE : accept)]);
      ways = (ways * BigInt(rest)) / BigInt(mismatch + 1);
    }
    choices = (choices * BigInt(changes - match)) / BigInt(match + 1);
  }
  return weights;
}

/** A uniform integer in [0, total), the same whenever it is asked for. */
async function below(key, label, total) {
  const bits = total > 1n ? (total - 1n).toString(2).length : 0;
  for (let attempt = 0; ; attempt++) {
    let stream = await hmac(key, text.encode(`${label}:${attempt}`));
    while (8 * stream.length < bits) stream = Uint8Array.of(...stream, ...(await hmac(key, stream)));
    const value = BigInt(`0x${hex(stream)}`) >> BigInt(8 * stream.length - bits);
    if (value < total) return value;
  }
}

/** An index, with probability in proportion to its weight. */
async function choose(key, label, weights) {
  let value = await below(key, label, weights.reduce((sum, weight) => sum + weight, 0n));
  return weights.findIndex((weight) => value < weight || ((value -= weight), false));
}

/** A survey as a device reads it, from the survey's JSON text. */
class Spec {
  constructor(data, digest) {
    this.hash = digest.slice(0, 8);
    const { answers, windows, changes, epsilon, seed, groups } = data;
    Object.assign(this, { answers, windows, changes, seed, groups, absent: answers.length });
    const [numerator, denominator = "1"] = epsilon.split("/");
    this.epsilon = [BigInt(numerator), BigInt(denominator)];
    this.start = data.start === null ? null : Date.parse(data.start);
    this.every = 1000 * (data.every ?? 0);
    const natural = (value, least) => Number.isInteger(value) && value >= least;
    const sound =
      this.absent > 0 && this.absent < 255 && natural(windows, 1) && natural(changes, 1) &&
      this.epsilon.every((part) => part > 0n) && (this.start === null || this.every > 0) &&
      groups.length > 0 && groups.every((group) => this.#sound(group, natural));
    if (!sound) throw new ReporterError("the survey asks for what no protocol can be");
    if (data.version !== VERSION)
      throw new ReporterError(`the survey is of version ${data.version}, the reporter of ${VERSION}`);
    if (data.reveals_change_times !== true && groups.some((group) => group.kind === "memoized"))
      throw new ReporterError("memoized answers show when one changes or returns; the survey must say so");
    this.payload = Math.max(...groups.map((group) => this.size(group)));
  }

  static async read(surveyText) {
    const digest = await sha256(text.encode(surveyText));
    try {
      return new Spec(JSON.parse(surveyText), digest);
    } catch (problem) {
      if (problem instanceof ReporterError) throw problem;
      throw new ReporterError(`this is not a survey: ${problem.message}`);
    }
  }

  #sound(group, natural) {
    if (!natural(group.share, 1)) return false;
    if (group.kind === "tilted") {
      const nu = BigInt(group.nu);
      const law = nu > 0n && BigInt(this.signals(group)) * nu <= ONE && natural(group.changes, 1);
      const good = group.good.every((pair) => pair.length === 2 && pair[0] + pair[1] <= group.changes);
      return law && good && ["coordinate", "sign", "pair"].includes(group.map) && natural(group.level, 0);
    }
    if (group.kind === "response") return natural(group.branching, 2) && natural(group.layers, 1);
    return ["snapshot", "memoized"].includes(group.kind) && ["grr", "oue"].includes(group.oracle);
  }

  rows(group) {
    if (group.map === "coordinate") return this.absent;
    return group.map === "sign" ? 2 ** this.absent.toString(2).length - 1 : 1;
  }

  size(group) {
    return group.oracle === "oue" ? Math.ceil(this.absent / 8) : 2 * (group.layers ?? 1);
  }

  signals(group) {
    return group.map === "pair" ? this.absent * (this.absent + 1) : 2;
  }

  /** Which signal a change is; null if this role does not see it. */
  signal(group, row, before, after) {
    if (before === after) return null;
    if (group.map === "pair") return before * this.absent + after - (after > before ? 1 : 0);
    if (group.map === "coordinate") return after === row ? 0 : before === row ? 1 : null;
    const parity = (symbol) => ((row + 1) & symbol).toString(2).replaceAll("0", "").length % 2;
    return parity(before) === parity(after) ? null : parity(after);
  }

  due(group, when, window) {
    if (group.kind === "snapshot") return window === when;
    return group.kind !== "tilted" || (window + 1) % 2 ** group.level === 0;
  }

  /** The loss of one randomized response, such that those of a whole life sum to epsilon. */
  loss(group) {
    const [numerator, denominator] = this.epsilon;
    let parts = 1;
    if (group.kind === "memoized") parts = Math.min(this.changes + 1, this.absent + 1);
    if (group.kind === "response") {
      parts = 0;
      for (let layer = 0; layer < group.layers; layer++)
        parts += Math.min(2 * this.changes, Math.floor(this.windows / group.branching ** layer));
    }
    return [numerator, denominator * BigInt(parts)];
  }
}

export class Reporter {
  #spec; #state; #name; #key; #group; #row; #when; #accept; #vouched; #clock; #pattern;
  #turn = Promise.resolve();

  /**
   * state: get(name) and set(name, value) of JSON values, kept by the host; a Map will do for trying out.
   * secret: 32 random bytes that live apart from the state; else drawn, and kept in it.
   * firstWindow: the window in which this person takes part for the first time.
   * stateIsCurrent: the host vouches that the state was never lost and never restored from an older copy.
   * clock: milliseconds since 1970, for a survey that says when its windows are.
   */
  static async open(
    surveyText, state, { secret, firstWindow = 0, stateIsCurrent = false, clock = Date.now } = {},
  ) {
    const reporter = new Reporter();
    const spec = (reporter.#spec = await Spec.read(surveyText));
    reporter.#state = state;
    reporter.#vouched = stateIsCurrent;
    reporter.#clock = clock;
    reporter.#name = hex(spec.hash);
    await reporter.#alone(async () => {
      if ((await state.get(reporter.#name)) === undefined) {
        const drawn = secret ? {} : { secret: hex(crypto.getRandomValues(new Uint8Array(32))) };
        const blank = { window: null, used: 0, retired: false, answers: [], report: "" };
        await state.set(reporter.#name, { ...blank, ...drawn, first: firstWindow });
      }
    });
    const root = secret ?? unhex((await state.get(reporter.#name))?.secret ?? "");
    if (root.length !== 32)
      throw new ReporterError(
        "the reporter's state or secret is damaged; " +
          "repair it, or delete the state: the reporter is then idle",
      );
    const named = Uint8Array.of(...text.encode("survey:"), ...spec.hash);
    reporter.#key = await hmacKey(await hmac(await hmacKey(root), named));
    await reporter.#assign();
    return reporter;
  }

  /** Role and snapshot window: a public function of the survey's seed and a number that says nothing. */
  async #assign() {
    const spec = this.#spec;
    const member = hex(await hmac(this.#key, text.encode("member"))).slice(0, 16);
    const seed = await hmacKey(await sha256(text.encode(spec.seed)));
    const group = await choose(seed, `group:${member}`, spec.groups.map((each) => BigInt(each.share)));
    this.#group = spec.groups[group];
    this.#row = Number(await below(seed, `row:${member}`, BigInt(spec.rows(this.#group))));
    this.#when = Number(await below(seed, `when:${member}`, BigInt(spec.windows)));
    this.#accept = acceptance(spec.loss(this.#group));
    this.role = this.#row + spec.groups.slice(0, group).reduce((sum, each) => sum + spec.rows(each), 0);
  }

  /** One at a time, in this tab and in all others of the origin. */
  #alone(work) {
    const locks = globalThis.navigator?.locks;
    const guarded = () => (locks ? locks.request(`tidegauge:${this.#name}`, work) : work());
    const result = this.#turn.then(guarded);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  /** The report for a window, a Uint8Array; null is "not there".  Asked again, the same bytes. */
  report(window, answer) {
    return this.#alone(() => this.#report(window, answer));
  }

  async #report(window, answer) {
    const spec = this.#spec;
    const before = await this.#state.get(this.#name);
    if (!Number.isInteger(window) || window < 0 || window >= spec.windows)
      throw new ReporterError(`the survey has windows 0 to ${spec.windows - 1}`);
    if (answer !== null && !spec.answers.includes(answer))
      throw new ReporterError("this is not one of the survey's answers");
    const first = before.window === null;
    if (!first && window === before.window) return unhex(before.report);
    if (!first && window < before.window)
      throw new ReporterError(`window ${window} is past: window ${before.window} was already reported`);
    if (spec.start !== null && window !== Math.floor((this.#clock() - spec.start) / spec.every))
      throw new ReporterError(`window ${window} is not now: what was missed is not made up for`);
    const kept = { ...before, window, answers: [...before.answers] };
    const start = first ? before.first : before.window + 1;
    if (!this.#vouched && this.#group.kind !== "snapshot")
      for (let missed = start; missed < window; missed++)
        kept.retired ||= spec.due(this.#group, this.#when, missed);
    if (!this.#vouched && first && start < window) kept.retired = true;
    const symbol = answer === null ? spec.absent : spec.answers.indexOf(answer);
    const idle = kept.retired || !spec.due(this.#group, this.#when, window);
    const report = new Uint8Array(HEADER + spec.payload);
    const view = new DataView(report.buffer);
    report.set([VERSION, (first && !kept.retired ? FIRST : 0) | (idle ? IDLE : 0), ...spec.hash]);
    view.setUint16(10, this.role);
    view.setUint32(12, window);
    report.set((await hmac(this.#key, text.encode(`token:${window}`))).slice(0, 8), 16);
    if (!idle) report.set(await this[`_${this.#group.kind}`](kept, window, symbol), HEADER);
    kept.report = hex(report);
    await this.#state.set(this.#name, kept);
    return report;
  }

  #choose(label, weights) {
    return choose(this.#key, label, weights);
  }

  async #pick(label, total) {
    return Number(await below(this.#key, label, BigInt(total)));
  }

  async #respond(label, truth, size) {
    if ((await this.#choose(label, [ONE, this.#accept * BigInt(size - 1)])) === 0) return truth;
    const other = await this.#pick(`${label}:other`, size - 1);
    return other + (other >= truth ? 1 : 0);
  }

  async #stateOf(label, symbol) {
    const spec = this.#spec;
    if (this.#group.oracle === "grr") return word(await this.#respond(label, symbol, spec.absent + 1));
    const bytes = new Uint8Array(spec.size(this.#group));
    for (let each = 0; each < spec.absent; each++) {
      const weights = each === symbol ? [1n, 1n] : [ONE, this.#accept]; // a fair coin if true
      bytes[each >> 3] |= (await this.#choose(`${label}:${each}`, weights)) << (7 - (each & 7));
    }
    return bytes;
  }

  _snapshot(_kept, window, symbol) {
    return this.#stateOf(`snapshot:${window}`, symbol);
  }

  _memoized(kept, _window, symbol) {
    const held = this.#allowed(kept, symbol);
    return this.#stateOf(`memo:${held}`, held);
  }

  async _response(kept, window, symbol) {
    const { absent } = this.#spec;
    const now = this.#allowed(kept, symbol);
    const out = [];
    for (let layer = 0; layer < this.#group.layers; layer++) {
      if ((window + 1) % this.#group.branching ** layer) {
        out.push(0, 0);
        continue;
      }
      const before = kept.answers[layer + 1] ?? absent;
      kept.answers[layer + 1] = now;
      const truth = before === now ? absent * (absent + 2) : before * (absent + 1) + now;
      out.push(...word(await this.#respond(`layer:${layer}:${window}`, truth, (absent + 1) ** 2)));
    }
    return out;
  }

  /** The answer as it counts: after the last allowed change it stays what it was. */
  #allowed(kept, symbol) {
    let held = kept.answers[0] ?? this.#spec.absent;
    if (symbol !== held && kept.used < this.#spec.changes) {
      kept.used += 1;
      held = symbol;
    }
    kept.answers[0] = held;
    return held;
  }

  async _tilted(kept, window, symbol) {
    const group = this.#group;
    const signals = this.#spec.signals(group);
    const speaking = BigInt(signals) * BigInt(group.nu);
    const pattern = await this.#entries(); // if it fails, then for any answer
    let signal = this.#spec.signal(group, this.#row, kept.answers[0] ?? this.#spec.absent, symbol);
    kept.answers = [symbol];
    if (signal === null || kept.used >= group.changes) {
      if ((await this.#choose(`base:${window}`, [speaking, ONE - speaking])) === 1) return [0, 0];
      return word(1 + (await this.#pick(`base:${window}:signal`, signals)));
    }
    const entry = kept.used++;
    const says = pattern[entry];
    if (says === 2) return [0, 0];
    if (says === 1) {
      const other = await this.#pick(`mismatch:${entry}`, signals - 1);
      signal = other + (other >= signal ? 1 : 0);
    }
    return word(1 + signal);
  }

  /** The secret pattern, 0 match, 1 mismatch, 2 silent: always the same, as it comes from the secret. */
  async #entries() {
    if (this.#pattern) return this.#pattern;
    const { changes, nu, good } = this.#group;
    const kinds = patternWeights(changes, this.#spec.signals(this.#group), BigInt(nu), good, this.#accept);
    const [match, mismatch] = kinds[await this.#choose("pattern", kinds.map((kind) => kind[2]))];
    const left = [match, mismatch, changes - match - mismatch];
    const pattern = [];
    for (let entry = 0; entry < changes; entry++) {
      const says = await this.#choose(`pattern:${entry}`, left.map(BigInt));
      left[says] -= 1;
      pattern.push(says);
    }
    return (this.#pattern = pattern);
  }
}

const word = (value) => [value >> 8, value & 255];
