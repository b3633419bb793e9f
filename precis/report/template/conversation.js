// A rollout as a conversation: what it was asked, its turns, and what they earned.

const FOLDED_LONGER = 400;

// The first line of a text, for what is folded.
function beginning(text) {
  const line = text.trim().split("\n", 1)[0];
  return line.length > 60 ? `${line.slice(0, 60)}…` : line === text.trim() ? line : `${line} …`;
}

function folded(label, className, content) {
  const made = document.createElement("details");
  made.className = className;
  made.append(label, ...content);
  return made;
}

function toolCall([, name, place], result, texts) {
  const label = document.createElement("summary");
  const given = texts[place];
  label.append(element("code", "", `${name}(${beginning(given)})`));
  if (result !== undefined) label.append(element("span", "aside", ` → ${beginning(texts[result])}`));
  const content = beginning(given) === given ? [] : [element("pre", "", given)];
  if (result === undefined) content.push(element("p", "aside", "No result: the rollout ended here."));
  else content.push(element("p", "role", "result"), element("pre", "", texts[result]));
  return folded(label, "call", content);
}

function said(role, text) {
  const words = element("div", "said", text);
  if (text.length <= FOLDED_LONGER) return [element("p", "role", role), words];
  const label = element("summary", "role", `${role}: ${beginning(text)}`);
  return [folded(label, "long", [words])];
}

function conversation(messages, texts) {
  // By call, and not by its id: servers give one again in a later turn.
  const results = new Map();
  const shown = new Set();
  const waiting = new Map();
  for (const one of messages) {
    for (const call of one.calls) waiting.set(call[0], [...(waiting.get(call[0]) ?? []), call]);
    const call = one.role === "tool" ? waiting.get(one.of)?.shift() : undefined;
    if (!call) continue;
    results.set(call, one.text);
    shown.add(one);
  }
  const made = element("div", "conversation", "");
  let turn = 0;
  for (const one of messages) {
    if (shown.has(one)) continue;
    const text = texts[one.text];
    const block = element("div", `message ${one.role === "assistant" ? "by-policy" : ""}`, "");
    if (one.sampled) {
      turn += 1;
      block.append(element("h3", "", `Turn ${turn}`));
    }
    if (text || !one.calls.length) {
      const words = text || "(empty)";
      block.append(...(one.sampled ? [element("div", "said", words)] : said(one.role, words)));
    }
    block.append(...one.calls.map((call) => toolCall(call, results.get(call), texts)));
    made.append(block);
  }
  return made;
}

function outcome(rollout) {
  if (rollout.cause) return `not scored: ${rollout.cause.replaceAll("_", " ")}`;
  const success = rollout.success === null ? "" : rollout.success ? ", ✓ success" : ", ✗ no success";
  return `reward ${rollout.reward}${success}`;
}

// The same for a list of many.
function mark(rollout) {
  if (rollout.cause) return outcome(rollout);
  return rollout.success === null ? rollout.reward : `${rollout.reward} ${rollout.success ? "✓" : "✗"}`;
}

function score(rollout) {
  const made = element("div", "score", "");
  made.append(element("h3", "", "Score"));
  made.append(element("p", rollout.success === false || rollout.cause ? "wrong" : "right", outcome(rollout)));
  if (rollout.detail) made.append(element("p", "", rollout.detail));
  const facts = element("dl", "facts", "");
  const [prompt, sampled] = rollout.tokens;
  const told = {
    ...rollout.metrics,
    "calls to the model": rollout.calls,
    tokens: `${prompt ?? 0} read, ${sampled ?? 0} sampled`,
  };
  for (const [name, value] of Object.entries(told)) {
    const pair = document.createElement("div");
    pair.append(element("dt", "", name.replaceAll("_", " ")), element("dd", "", value));
    facts.append(pair);
  }
  made.append(facts);
  if (rollout.details) {
    made.append(folded(element("summary", "", "Details"), "", [element("pre", "", rollout.details)]));
  }
  return made;
}

function shownRollout(step, rollout, texts) {
  if (!rollout) return [element("p", "aside", "No such rollout in this step.")];
  const several = rollout.conversations.length > 1;
  const parts = rollout.conversations.flatMap((messages, index) => [
    ...(several ? [element("h3", "", index ? `Conversation ${index + 1}` : "Main conversation")] : []),
    conversation(messages, texts),
  ]);
  if (!parts.length) parts.push(element("p", "aside", "It made no call."));
  return [
    element("h2", "", `Step ${step}: ${rollout.scenario}`),
    element("p", "aside", `${outcome(rollout)}; attempt ${rollout.index + 1} by ${rollout.policy}`),
    ...parts,
    score(rollout),
  ];
}
