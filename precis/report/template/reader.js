// Two contenders' rollouts of one scenario.

// Spans count characters as Python does: one for each code point.
function bold(text, spans) {
  const characters = Array.from(text);
  const parts = [];
  let end = 0;
  for (const [start, stop] of spans) {
    parts.push(characters.slice(end, start).join(""));
    parts.push(element("b", "", characters.slice(start, stop).join("")));
    end = stop;
  }
  return [...parts, characters.slice(end).join("")];
}

function verdict(question, answer, result) {
  if (result.cause) return element("p", "aside", "not scored");
  const [text, correct, spans] = answer;
  const unanswered = text === "" || text === "UNANSWERABLE";
  const line = element("p", correct ? "right" : "wrong", correct ? "\u2713 right: " : "\u2717 wrong: ");
  line.append(...(unanswered ? ["no answer found"] : bold(text, spans)));
  if (!question.answerable) line.append(element("span", "aside", " (earns nothing)"));
  return line;
}

function score(chosen, result) {
  if (result.cause) return `not scored: ${result.cause}`;
  if (!result.answers.length) return result.score;
  const asked = result.answers.filter((_, index) => chosen.questions[index].answerable);
  const right = asked.filter(([, correct]) => correct).length;
  const why = result.disqualified ? `, scored zero: ${result.disqualified.replaceAll("_", " ")}` : "";
  return `${right} of ${asked.length} right${result.length}${why}`;
}

function questionItem(each, answer, result) {
  const item = document.createElement("li");
  const gold = each.answerable ? `expected: ${each.gold}` : "the document does not say";
  item.append(element("p", "", each.question), element("p", "aside", gold));
  item.append(verdict(each, answer, result));
  return item;
}

function side(contender, chosen) {
  const result = contender && chosen ? contender.summaries[chosen.id] : undefined;
  if (!result) return [element("p", "aside", "Nothing here.")];
  const questions = document.createElement("ol");
  questions.append(
    ...chosen.questions.map((each, index) => questionItem(each, result.answers[index], result)),
  );
  return [
    element("h3", "", contender.name),
    element("p", "", score(chosen, result)),
    element("div", "summary", result.summary || "(empty)"),
    questions,
  ];
}

function verdictsDiffer(left, right, id) {
  const ruled = (contender) => {
    const result = contender?.summaries[id];
    return [result?.score, result?.answers.map(([, correct]) => correct)];
  };
  return JSON.stringify(ruled(left)) !== JSON.stringify(ruled(right));
}
