// The page at work: answers the controls.

const data = await unpack(control("data").textContent);
const boxes = [...document.querySelectorAll("#models input")];
const chosenSide = (name) => data.contenders[Number(control(name).value)];

// What the filters do to the standings. The page itself holds the figures of all topics; those of
// a single topic come from the data.

function topicFigures(contender, topic) {
  const found = data.documents.filter((each) => each.topic === topic)
    .map((each) => contender.summaries[each.id]).filter(Boolean);
  const scored = found.filter((each) => !each.cause);
  const [accuracy, interval] = contender.topics[topic] ?? ["", ""];
  const missing = found.length - scored.length;
  return {
    accuracy,
    interval,
    documents: String(scored.length),
    unscored: missing ? String(missing) : "",
  };
}

function filterStandings(topic, models) {
  const table = control("standings");
  table.classList.toggle("by-topic", topic !== "");
  for (const row of table.querySelectorAll("tr[data-contender]")) {
    const index = Number(row.dataset.contender);
    row.hidden = !models.has(index);
    const figures = topic && topicFigures(data.contenders[index], topic);
    for (const name of ["accuracy", "interval", "documents", "unscored"]) {
      const cell = row.querySelector(`.${name}`);
      cell.textContent = figures ? figures[name] : cell.dataset.overall;
    }
  }
}

function show() {
  const chosen = data.documents.find((each) => each.id === control("document").value);
  for (const name of ["left", "right"]) {
    control(`${name}-side`).replaceChildren(...side(chosenSide(name), chosen));
  }
  const [left, right] = [control("left").value, control("right").value];
  control("ahead").textContent =
    data.ahead[`${left}-${right}`] ?? data.ahead[`${right}-${left}`] ?? "";
}

function listDocuments() {
  const topic = control("topic").value;
  const [left, right] = [chosenSide("left"), chosenSide("right")];
  const listed = data.documents
    .filter((each) => topic === "" || each.topic === topic)
    .filter((each) => !control("differing").checked || verdictsDiffer(left, right, each.id));
  fill(control("document"), listed.map((each) => [each.id, each.topic ? `${each.id} (${each.topic})` : each.id]));
  show();
}

function listModels() {
  const models = new Set(boxes.filter((box) => box.checked).map((box) => Number(box.value)));
  const named = data.contenders.map((each, index) => [String(index), each.name]);
  const options = named.filter((_, index) => models.has(index));
  for (const name of ["left", "right"]) fill(control(name), options);
  control("models-shown").textContent =
    models.size === boxes.length ? "all" : `${models.size} of ${boxes.length}`;
  filterStandings(control("topic").value, models);
  listDocuments();
}

function tick(checked) {
  for (const box of boxes) box.checked = checked;
  listModels();
}

for (const cell of document.querySelectorAll("#standings tr[data-contender] td")) {
  cell.dataset.overall = cell.textContent;
}
const topics = [...new Set(data.documents.map((each) => each.topic))].filter(Boolean).sort();
fill(control("topic"), [["", "all topics"], ...topics.map((topic) => [topic, topic])]);
listModels();
for (const [index, name] of ["left", "right"].entries()) {
  control(name).value = String(data.sides[index] ?? data.sides[0] ?? "");
  control(name).addEventListener("change", listDocuments);
}
for (const box of [...boxes, control("topic")]) box.addEventListener("change", listModels);
control("models-all").addEventListener("click", () => tick(true));
control("models-none").addEventListener("click", () => tick(false));
control("differing").addEventListener("change", listDocuments);
control("document").addEventListener("change", show);
control("previous").addEventListener("click", () => move("document", -1, show));
control("next").addEventListener("click", () => move("document", 1, show));
listDocuments();
