// The page at work: answers the controls.

const data = await unpack(control("data").textContent);
const boxes = [...document.querySelectorAll("#models input")];
const chosenSide = (name) => data.contenders[Number(control(name).value)];

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
  filterStandings(data, control("topic").value, models);
  listDocuments();
}

function tick(checked) {
  for (const box of boxes) box.checked = checked;
  listModels();
}

function move(by) {
  const select = control("document");
  const count = select.options.length;
  if (count) select.selectedIndex = (select.selectedIndex + by + count) % count;
  show();
}

rememberOverall([...document.querySelectorAll("#standings tr[data-contender]")]);
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
control("previous").addEventListener("click", () => move(-1));
control("next").addEventListener("click", () => move(1));
listDocuments();
