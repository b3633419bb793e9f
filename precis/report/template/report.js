"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const control = (id) => document.getElementById(id);

// Everything below sets text, never markup: summaries are data and may hold anything.
function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => {
    const option = element("option", "", text);
    option.value = value;
    return option;
  }));
}

function shownDocuments() {
  const topic = control("topic").value;
  return data.documents.filter((each) => topic === "" || each.topic === topic);
}

function verdict(question, answer, result) {
  if (result.cause) return element("p", "aside", "not scored");
  const [text, correct] = answer;
  const unanswered = text === "" || text === "UNANSWERABLE";
  const said = unanswered ? "no answer found" : text;
  const mark = correct ? "\u2713 " : "\u2717 ";
  const line = element("p", correct ? "right" : "wrong", mark + said);
  if (!question.answerable) line.append(element("span", "aside", " (earns nothing)"));
  return line;
}

function score(chosen, result) {
  if (result.cause) return `not scored: ${result.cause}`;
  const asked = result.answers.filter((_, index) => chosen.questions[index].answerable);
  const right = asked.filter(([, correct]) => correct).length;
  const why = result.disqualified ? `, scored zero: ${result.disqualified.replace("_", " ")}` : "";
  return `${right} of ${asked.length} right, ${result.words} words${why}`;
}

function question(each, answer, result) {
  const item = document.createElement("li");
  const gold = each.answerable ? `expected: ${each.gold}` : "the document does not say";
  item.append(element("p", "", each.question), element("p", "aside", gold));
  item.append(verdict(each, answer, result));
  return item;
}

function showSide(side, chosen) {
  const contender = data.contenders[Number(control(side).value)];
  const target = control(`${side}-side`);
  const result = contender && chosen ? contender.summaries[chosen.id] : undefined;
  if (!result) {
    target.replaceChildren(element("p", "aside", "No summary of this document."));
    return;
  }
  const questions = document.createElement("ol");
  questions.append(
    ...chosen.questions.map((each, index) => question(each, result.answers[index], result)),
  );
  target.replaceChildren(
    element("h3", "", contender.name),
    element("p", "", score(chosen, result)),
    element("div", "summary", result.summary || "(empty)"),
    questions,
  );
}

function show() {
  const chosen = data.documents.find((each) => each.id === control("document").value);
  for (const side of ["left", "right"]) showSide(side, chosen);
}

function listDocuments() {
  fill(control("document"), shownDocuments().map((each) => [each.id, `${each.id} (${each.topic})`]));
  show();
}

function move(by) {
  const select = control("document");
  const count = select.options.length;
  if (count) select.selectedIndex = (select.selectedIndex + by + count) % count;
  show();
}

const topics = [...new Set(data.documents.map((each) => each.topic))].sort();
fill(control("topic"), [["", "all topics"], ...topics.map((topic) => [topic, topic])]);
for (const [index, side] of ["left", "right"].entries()) {
  fill(control(side), data.contenders.map((each, position) => [String(position), each.name]));
  control(side).value = String(data.sides[index] ?? data.sides[0]);
  control(side).addEventListener("change", show);
}
control("topic").addEventListener("change", listDocuments);
control("document").addEventListener("change", show);
control("previous").addEventListener("click", () => move(-1));
control("next").addEventListener("click", () => move(1));
listDocuments();
